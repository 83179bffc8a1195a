import { Temporal } from 'temporal-polyfill/implementation'

export type Cron = {
  readonly minutes: Field
  readonly hours: Field
  readonly days: Field
  readonly months: Field
  readonly weekdays: Field
}
type Field = { readonly values: ReadonlySet<number>; readonly any: boolean }

/** Reads the usual five fields (minute hour day month weekday): numbers, lists, ranges and steps. */
export function parseCron(text: string): Cron | undefined {
  const parts = text.trim().split(/\s+/)
  if (parts.length !== 5) return undefined
  const [minutes, hours, days, months, weekdays] = [
    parseField(parts[0]!, 0, 59),
    parseField(parts[1]!, 0, 23),
    parseField(parts[2]!, 1, 31),
    parseField(parts[3]!, 1, 12),
    parseField(parts[4]!, 0, 7),
  ]
  if (!minutes || !hours || !days || !months || !weekdays) return undefined
  // Sunday is 0 and 7 to cron, 7 to the calendar.
  const calendarWeekdays = { any: weekdays.any, values: new Set([...weekdays.values].map((day) => day || 7)) }
  return { minutes, hours, days, months, weekdays: calendarWeekdays }
}

/**
 * The first slot after an instant, on the wall clock of a zone. A slot that daylight saving skips moves forward; of one that it
 * repeats the first is meant, so that a whole hour passes without any.
 */
export function nextSlot(cron: Cron, after: Date, zone: string): Date | undefined {
  const start = Temporal.Instant.fromEpochMilliseconds(after.getTime()).toZonedDateTimeISO(zone)
  let day = start.toPlainDate()
  // Eight years reach the next 29 February from anywhere in the calendar.
  for (let looked = 0; looked < 366 * 8; looked++, day = day.add({ days: 1 })) {
    if (!fallsOn(cron, day)) continue
    // Looked through to the end of the day: a slot that moved forward may come after those that follow it.
    const slots = [...slotsOf(cron, day, zone)].filter((slot) => slot > after.getTime())
    if (slots.length > 0) return new Date(Math.min(...slots))
  }
  return undefined
}

function fallsOn(cron: Cron, day: Temporal.PlainDate): boolean {
  if (!cron.months.values.has(day.month)) return false
  const byDay = cron.days.values.has(day.day)
  const byWeekday = cron.weekdays.values.has(day.dayOfWeek)
  // Cron's own rule: when both are given, either one is enough.
  return cron.days.any || cron.weekdays.any ? byDay && byWeekday : byDay || byWeekday
}

function* slotsOf(cron: Cron, day: Temporal.PlainDate, zone: string): Generator<number> {
  for (const hour of sorted(cron.hours)) {
    for (const minute of sorted(cron.minutes)) {
      yield day.toZonedDateTime({ timeZone: zone, plainTime: { hour, minute } }).epochMilliseconds
    }
  }
}

function sorted(field: Field): number[] {
  return [...field.values].sort((a, b) => a - b)
}

function parseField(text: string, least: number, most: number): Field | undefined {
  const values = new Set<number>()
  for (const part of text.split(',')) {
    const match = /^(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:\/(\d{1,2}))?$/.exec(part)
    if (!match) return undefined
    const from = match[1] === undefined ? least : Number(match[1])
    const openEnded = match[1] === undefined || (match[3] !== undefined && match[2] === undefined)
    const to = match[2] !== undefined ? Number(match[2]) : openEnded ? most : from
    const step = Number(match[3] ?? 1)
    if (from < least || to > most || from > to || step < 1) return undefined
    for (let value = from; value <= to; value += step) values.add(value)
  }
  return { values, any: text === '*' }
}

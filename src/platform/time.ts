import { Temporal } from 'temporal-polyfill/implementation'
import { invariant } from './invariant.ts'

/** A calendar day such as `'2026-03-05'`, in whatever zone its owner lives. Days compare as plain strings. */
export type Day = string

/** A length of time by the calendar and the clock; `addDuration` gives it meaning in a zone. */
export type Duration = Temporal.Duration

/**
 * Writes an instant as its zone's clocks show it, always with a numeric offset:
 * `2026-12-14T09:30:00.000+09:00`.
 *
 * RFC 3339 has no seconds in an offset, but many zones had some before 1972 (Seoul +08:27:52 until 1908). Such an
 * offset is rounded to the nearest minute and the local time moves with it, so the text names the same instant.
 */
export function renderInstant(date: Date, zone: string): string {
  if (zone === 'UTC') return `${date.toISOString().slice(0, -1)}+00:00`

  const offsetMinutes = Math.round(offsetMsAt(date.getTime(), zone) / msPerMinute)
  const local = new Date(date.getTime() + offsetMinutes * msPerMinute)
  return local.toISOString().slice(0, -1) + renderOffset(offsetMinutes)
}

/**
 * Reads an instant with any UTC offset (`Z`, `+09:00`, `+0900`, `+09`). Seconds may be left out, digits past the
 * millisecond are cut off. No offset, a date or time that does not exist, or a year outside 0001–9999: undefined.
 */
export function parseInstant(text: string): Date | undefined {
  const match = instantPattern.exec(text)
  if (!match) return undefined
  const [, day = '', hour, minute, second = '0', fraction = '', sign, offsetHour = '0', offsetMinute = '0'] =
    match
  if (!isDay(day)) return undefined

  const ms = Number(fraction.slice(0, 3).padEnd(3, '0'))
  const clockMs = Number(hour) * msPerHour + Number(minute) * msPerMinute + Number(second) * 1000 + ms
  const offsetMs = Number(offsetHour) * msPerHour + Number(offsetMinute) * msPerMinute
  return inRange(startOfUtcDay(day) + clockMs + (sign === '-' ? offsetMs : -offsetMs))
}

/** Tells whether this names an IANA zone, canonical or alias; an offset like `+09:00` is no zone. */
export function isZone(text: string): boolean {
  if (!zoneShape.test(text) || foreignZoneNames.test(text)) return false
  try {
    zoneOf(text)
    return true
  } catch {
    return false
  }
}

/** Reads a calendar day that exists, in the one form we write: `2026-03-05`. */
export function parseDay(text: string): Day | undefined {
  return isDay(text) ? text : undefined
}

/** The calendar day that a zone's clocks show at an instant. */
export function dayOf(instant: Date, zone: string): Day {
  const offsetMs = zone === 'UTC' ? 0 : offsetMsAt(instant.getTime(), zone)
  return dayOfUtcMs(instant.getTime() + offsetMs)
}

/**
 * When a zone's clocks show a time of a day, `24:00` being the next midnight. A time that is skipped is the one after the
 * gap, and of one that comes twice the first is meant.
 */
export function instantAt(day: Day, time: string, zone: string): Date {
  const [hours, minutes] = time.split(':').map(Number) as [number, number]
  const date = Temporal.PlainDate.from(day).add({ days: hours === 24 ? 1 : 0 })
  const local = date.toPlainDateTime({ hour: hours % 24, minute: minutes })
  return new Date(local.toZonedDateTime(zone).epochMilliseconds)
}

export function addDays(day: Day, days: number): Day {
  return dayOfUtcMs(startOfUtcDay(day) + days * msPerDay)
}

/** Days to go from one day to another; negative when `to` is the earlier one. */
export function daysBetween(from: Day, to: Day): number {
  return (startOfUtcDay(to) - startOfUtcDay(from)) / msPerDay
}

export function daysInMonth(year: number, month: number): number {
  if (month !== 2) return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28
}

/** Reads an ISO 8601 duration: `P1M`, `P30D`, `PT1H`, `P2W`, `P1Y2M3DT4H5M6S`; a sign is understood. */
export function parseDuration(text: string): Duration | undefined {
  try {
    return Temporal.Duration.from(text)
  } catch {
    return undefined
  }
}

/**
 * Adds years, months, weeks and days by the zone's calendar (31 January + P1M is the last of February, at the
 * same time of day) and hours, minutes and seconds exactly. Past the year 9999 there is no answer.
 */
export function addDuration(instant: Date, duration: Duration, zone: string): Date | undefined {
  try {
    const start = Temporal.Instant.fromEpochMilliseconds(instant.getTime()).toZonedDateTimeISO(zone)
    return inRange(start.add(duration).epochMilliseconds)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

const msPerMinute = 60_000
const msPerHour = 60 * msPerMinute
const msPerDay = 24 * msPerHour

// Leap seconds and 24:00 are refused: neither has a place on the POSIX clock that the database keeps.
const instantPattern =
  /^(\d{4}-\d\d-\d\d)[Tt]([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:[.,](\d+))?)?(?:[Zz]|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)$/

const firstMs = Date.parse('0001-01-01T00:00:00.000Z')
const lastMs = Date.parse('9999-12-31T23:59:59.999Z')

/** Keeps to the years that four digits and the database can hold. */
function inRange(ms: number): Date | undefined {
  return ms >= firstMs && ms <= lastMs ? new Date(ms) : undefined
}

const dayPattern = /^(\d{4})-(\d\d)-(\d\d)$/

function isDay(text: string): boolean {
  const match = dayPattern.exec(text)
  if (!match) return false
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])]
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth(year, month)
}

function startOfUtcDay(day: Day): number {
  const ms = Date.parse(`${day}T00:00:00.000Z`)
  invariant(!Number.isNaN(ms), `a day reads YYYY-MM-DD, not ${day}`)
  return ms
}

function dayOfUtcMs(ms: number): Day {
  invariant(ms >= firstMs && ms <= lastMs, 'a day lies in the years 0001 to 9999')
  return new Date(ms).toISOString().slice(0, 10)
}

function renderOffset(minutes: number): string {
  const size = Math.abs(minutes)
  const hour = String(Math.floor(size / 60)).padStart(2, '0')
  return `${minutes < 0 ? '-' : '+'}${hour}:${String(size % 60).padStart(2, '0')}`
}

// Every IANA name starts with a letter; Intl of a newer Node would also take `+09:00`.
const zoneShape = /^[A-Za-z][A-Za-z0-9_+/-]{1,63}$/

// Intl also knows names that are not IANA's: three-letter ones that mean several zones, and System V's.
const foreignZoneNames =
  /^(?:(?:AC|AE|AG|AR|AS|BE|BS|CA|CN|CS|CT|EA|EC|IE|IS|JS|MI|NE|NS|PL|PN|PR|PS|SS|VS)T$|SystemV\/)/i

type Zone = {
  readonly format: Intl.DateTimeFormat
  /** Offset of each UTC day asked for so far; NaN on the days on which the zone changes its offset. */
  readonly offsetMsByDay: Map<number, number>
}

const zones = new Map<string, Zone>()

/** Names are case-insensitive, so callers could spell one zone many ways: both caches start over when full. */
function zoneOf(name: string): Zone {
  const known = zones.get(name)
  if (known) return known

  const format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' })
  const zone = { format, offsetMsByDay: new Map<number, number>() }
  if (zones.size >= 1000) zones.clear()
  zones.set(name, zone)
  return zone
}

/** A day that begins and ends on the same offset keeps it throughout: no zone has changed twice in one day. */
function offsetMsAt(ms: number, zoneName: string): number {
  const zone = zoneOf(zoneName)
  const day = Math.floor(ms / msPerDay)
  let offsetMs = zone.offsetMsByDay.get(day)
  if (offsetMs === undefined) {
    offsetMs = askOffsetMs(zone, day * msPerDay)
    if (offsetMs !== askOffsetMs(zone, (day + 1) * msPerDay)) offsetMs = Number.NaN
    if (zone.offsetMsByDay.size >= 4000) zone.offsetMsByDay.clear()
    zone.offsetMsByDay.set(day, offsetMs)
  }
  return Number.isNaN(offsetMs) ? askOffsetMs(zone, ms) : offsetMs
}

// The offset ends the formatted date: `12/7/1874, GMT-07:52:58`; plain `GMT` is zero.
const offsetPattern = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/

function askOffsetMs(zone: Zone, ms: number): number {
  const match = offsetPattern.exec(zone.format.format(ms))
  invariant(match, 'Intl names an offset for every instant')
  const [, sign, hour = '0', minute = '0', second = '0'] = match
  const size = Number(hour) * msPerHour + Number(minute) * msPerMinute + Number(second) * 1000
  return sign === '-' ? -size : size
}

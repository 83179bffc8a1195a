/**
 * What a zone's clocks show, worked out anew from the zone's offsets alone. Where they skip a time of day it moves forward
 * by what was skipped; where they show it twice the first time counts.
 */
export function addLocal(
  instant: number,
  zone: string,
  unit: 'day' | 'week' | 'month' | 'year',
  count: number,
): number {
  const shown = instant + offsetAt(instant, zone)
  return instantOf(later(shown, unit, count), zone)
}

const day = 86_400_000

/** A date's numbers as if they were universal time: it never skips and never doubles. */
function later(shown: number, unit: 'day' | 'week' | 'month' | 'year', count: number): number {
  if (unit === 'day' || unit === 'week') return shown + count * (unit === 'day' ? day : 7 * day)
  const date = new Date(shown)
  const month = date.getUTCMonth() + count * (unit === 'month' ? 1 : 12)
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), month + 1, 0)).getUTCDate()
  const timeOfDay = shown - Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate())
  return Date.UTC(date.getUTCFullYear(), month, Math.min(date.getUTCDate(), lastDay)) + timeOfDay
}

function instantOf(shown: number, zone: string): number {
  // Clocks are moved at most once within two days, so these are the offset before and the one after.
  const before = offsetAt(shown - day, zone)
  const after = offsetAt(shown + day, zone)
  const fitting = [shown - before, shown - after].filter(
    (instant) => instant + offsetAt(instant, zone) === shown,
  )
  return fitting.length > 0 ? Math.min(...fitting) : shown - before
}

const formats = new Map<string, Intl.DateTimeFormat>()

/** How far a zone's clocks are ahead of universal time. */
function offsetAt(instant: number, zone: string): number {
  let format = formats.get(zone)
  if (!format) {
    const parts = { year: 'numeric', month: 'numeric', day: 'numeric' } as const
    const time = { hour: 'numeric', minute: 'numeric', second: 'numeric', hourCycle: 'h23' } as const
    format = new Intl.DateTimeFormat('en-US', { timeZone: zone, ...parts, ...time })
    formats.set(zone, format)
  }
  const of: Record<string, number> = {}
  for (const { type, value } of format.formatToParts(instant)) of[type] = Number(value)
  const shown = Date.UTC(of['year']!, of['month']! - 1, of['day']!, of['hour']!, of['minute']!, of['second']!)
  return shown - Math.floor(instant / 1_000) * 1_000
}

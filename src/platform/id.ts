import { randomFillSync } from 'node:crypto'
import { invariant } from './invariant.ts'

/** What an id starts with, underscore included: `sub_`, `inv_`, `req_`. */
export type IdPrefix = `${string}_`

/** Ids that callers choose: accounts, workspaces, plans. */
export const callerIdPattern = /^[A-Za-z0-9_.:-]{1,64}$/

/**
 * Makes an id such as `sub_1h3kq9w2v05t8mz4c7xj0r6yde`: a prefix, ten characters of time and sixteen of chance.
 * Plain byte order is the order of making, within one process also inside a millisecond.
 */
export function newId(prefix: IdPrefix, now: Date = new Date()): string {
  return prefix + renderTick(nextTick(prefix, now.getTime())) + randomCharacters()
}

/** No id made at or after an instant stands before this one, so that a list by id need not read what is older. */
export function lowestId(prefix: IdPrefix, from: Date): string {
  return prefix + renderTick(Math.min(Math.max(from.getTime(), 0), 2 ** 45 - 1) * ticksPerMs)
}

/** No id made before an instant stands at or behind this one. */
export function highestId(prefix: IdPrefix, to: Date): string {
  return lowestId(prefix, new Date(to.getTime() + mostAheadMs))
}

/** Tells whether this could be one of our ids; one of the wrong shape is answered as one that does not exist. */
export function isId(prefix: IdPrefix, text: unknown): text is string {
  return (
    typeof text === 'string' &&
    text.length === prefix.length + tickLength + randomLength &&
    text.startsWith(prefix) &&
    bodyPattern.test(text.slice(prefix.length))
  )
}

// Crockford's base 32 in lower case: no i, l, o, u, and the characters ascend in byte order.
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const bodyPattern = /^[0-9a-hjkmnp-tv-z]{26}$/
const tickLength = 10
const randomLength = 16

// A millisecond has 32 ticks, so the last of the ten characters counts the ids made within one. Fifty bits of
// ticks last until the year 3084.
const ticksPerMs = 32
const mostAheadMs = 1000
const lastTicks = new Map<IdPrefix, number>()

/**
 * More than 32 ids in a millisecond, or a clock that steps back by less than a second, run a little ahead of the
 * clock instead of losing their order. A clock that was turned further is believed.
 */
function nextTick(prefix: IdPrefix, ms: number): number {
  invariant(ms >= 0 && ms < 2 ** 45, `an id needs a time between 1970 and 3084, not ${ms}`)
  const earliest = ms * ticksPerMs
  const last = lastTicks.get(prefix) ?? -1
  const tick = last >= earliest && last < earliest + mostAheadMs * ticksPerMs ? last + 1 : earliest
  lastTicks.set(prefix, tick)
  return tick
}

function renderTick(tick: number): string {
  let text = ''
  let rest = tick
  for (let i = 0; i < tickLength; i++) {
    text = alphabet.charAt(rest % 32) + text
    rest = Math.floor(rest / 32)
  }
  return text
}

// The operating system is asked for chance once per 256 ids; one call costs more than the rest of an id.
const pool = new Uint8Array(randomLength * 256)
let poolUsed = pool.length

function randomCharacters(): string {
  if (poolUsed === pool.length) {
    randomFillSync(pool)
    poolUsed = 0
  }
  let text = ''
  for (const end = poolUsed + randomLength; poolUsed < end; poolUsed++) {
    // Five of each byte's eight bits: 256 is a multiple of 32, so every character is equally likely.
    text += alphabet.charAt(pool[poolUsed]! & 31)
  }
  return text
}

import type { Refusal } from '../platform/refusal.ts'
import { invalid } from './refusals.ts'

/** A cursor of the right form whose values no list of ours would have written. */
export function foreignCursor(): Refusal {
  return invalid('cursor', 'invalid_cursor', 'This cursor was not made by this list; start without one.')
}

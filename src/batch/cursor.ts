import { type Refusal, refuseRequest } from '../platform/refusal.ts'

/** A cursor of the right form whose values no list of ours would have written. */
export function foreignCursor(): Refusal {
  return refuseRequest('validation_failed', {
    details: [
      {
        path: 'cursor',
        code: 'invalid_cursor',
        message: 'This cursor was not made by this list; start without one.',
      },
    ],
  })
}

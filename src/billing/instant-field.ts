import Type from 'typebox'
import { refuseRequest } from '../platform/refusal.ts'
import { parseInstant } from '../platform/time.ts'

/** An instant in a query: ISO 8601 with any offset. */
export const InstantField = Type.String({ maxLength: 64, description: 'ISO 8601 with an offset or Z' })

export function readInstant(path: string, text: string): Date {
  const instant = parseInstant(text)
  if (instant) return instant
  throw refuseRequest('validation_failed', {
    details: [{ path, code: 'wrong_form', message: 'This value is no instant with an offset.' }],
  })
}

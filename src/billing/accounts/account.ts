import Type from 'typebox'
import { lineOf, unseen } from '../../platform/http/fields.ts'
import { refuseRequest } from '../../platform/refusal.ts'
import { isZone } from '../../platform/time.ts'

/** What a caller may tell about the person behind an account. */
export const ContactBody = Type.Object(
  {
    email: Type.Optional(
      Type.String({ minLength: 3, maxLength: 320, pattern: `^[^\\s@${unseen}]+@[^\\s@${unseen}]+$` }),
    ),
    name: Type.Optional(lineOf(200)),
  },
  { title: 'Contact', additionalProperties: false },
)

export const TimeZone = Type.String({ maxLength: 64, description: 'An IANA zone such as Asia/Seoul' })

/** Refuses a zone that no clock shows. */
export function requireZone(timeZone: string | undefined): void {
  if (timeZone === undefined || isZone(timeZone)) return
  throw refuseRequest('validation_failed', {
    details: [{ path: 'timezone', code: 'unknown_zone', message: 'This is no IANA time zone.' }],
  })
}

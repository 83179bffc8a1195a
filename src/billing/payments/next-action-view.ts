import Type from 'typebox'
import { nullable } from '../../platform/http/answers.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { type KeptAction, openNextAction } from './next-action-rows.ts'

/** What the customer has to do before money moves, as the API shows it. */
export const NextActionView = nullable(
  Type.Object({
    type: Type.Enum(['authenticate']),
    client_secret: Type.Optional(Type.String({ description: "For the provider's browser SDK" })),
    url: Type.Optional(Type.String({ description: 'Where the customer confirms' })),
    expires_at: Type.String(),
  }),
  { title: 'NextAction' },
)

export function nextActionView(app: BillingApp, kept: KeptAction | undefined | null, timeZone: string) {
  const action = openNextAction(app, kept)
  return (
    action && {
      type: action.type,
      ...(action.clientSecret !== null && { client_secret: action.clientSecret }),
      ...(action.url !== null && { url: action.url }),
      expires_at: renderInstant(action.expiresAt, timeZone),
    }
  )
}

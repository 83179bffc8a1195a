import Type from 'typebox'
import { answerOnce } from '../../platform/http/answer-once.ts'
import { success } from '../../platform/http/answers.ts'
import { AccountId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import type { BillingApp } from '../app.ts'
import { onceContext } from '../once-context.ts'
import { refuse } from '../refusals.ts'
import { setUpPaymentMethod } from './set-up-payment-method.ts'

const SetupView = Type.Object(
  {
    setup_id: Type.String(),
    provider: Type.String({ description: 'Whose browser SDK collects the card' }),
    client: Type.Record(Type.String(), Type.String(), {
      description: "What the provider's browser SDK needs; see docs/providers.md",
    }),
  },
  { title: 'PaymentMethodSetup' },
)

export function setupRoutes(http: Http, app: BillingApp): void {
  http.post(
    '/api/billing/setup',
    {
      config: { access: 'billing:write', once: true },
      schema: {
        operationId: 'setUpPaymentMethod',
        summary: "Prepare the collecting of a card by the provider's browser SDK",
        tags: ['billing'],
        body: Type.Object({ account_id: AccountId }, { additionalProperties: false }),
        errors: refuse.may('billing_key_invalid', 'provider_unavailable', 'provider_error'),
        response: { 201: success(SetupView) },
      },
    },
    async (request, reply) => {
      const asked = { accountId: request.body.account_id, actor: request.principal.tokenId }
      await answerOnce(onceContext(app), request, reply, setUpPaymentMethod(app, asked), {
        done: 201,
        view: ({ setupId, provider, client }) => ({ setup_id: setupId, provider, client }),
      })
    },
  )
}

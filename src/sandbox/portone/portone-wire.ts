import Type from 'typebox'
import type { Http } from '../../platform/http/http.ts'
import { adminRoutes } from '../admin-routes.ts'
import type { BookPayment } from '../book-payment.ts'
import { type ProviderEvent, signed } from '../notifier.ts'
import type { ProviderContext } from '../provider-context.ts'
import { refuse } from '../refusals.ts'
import { requireSomeCredentials } from '../secret-key.ts'
import type { Wire } from '../wire.ts'
import { issueInBrowser } from './portone-billing-keys.ts'
import { defaultStoreId, transactionIdOf } from './portone-objects.ts'
import { portoneRoutes } from './portone-routes.ts'

/** PortOne V2 as its documentation shows it, with a channel that leads to Toss's test environment. */
export const portoneWire: Wire = {
  name: 'portone',
  keyWindowMs: 3 * 3_600_000,
  routes(http, context) {
    portoneRoutes(http, context)
    http.register(async (staff: Http) => {
      staff.addHook('onRequest', requireSomeCredentials)
      adminRoutes(staff, context)
      browserRoutes(staff, context)
    })
  },
  async notification(event, secret, context) {
    const told = await dataOf(event, context)
    if (!told) return undefined
    const body = JSON.stringify({
      type: told.type,
      timestamp: event.happenedAt.toISOString(),
      data: {
        paymentId: event.reference,
        storeId: defaultStoreId,
        transactionId: transactionIdOf(event.reference),
        ...(told.cancellationId !== undefined && { cancellationId: told.cancellationId }),
      },
    })
    return { headers: signed(event.id, body, secret), body }
  },
}

const Name = Type.String({ minLength: 1, maxLength: 255 })

/** What a merchant's customer does in the browser: a card becomes a billing key, under the names that the page gives. */
function browserRoutes(http: Http, context: ProviderContext): void {
  http.post(
    '/__sandbox/billing-keys',
    {
      schema: {
        body: Type.Object(
          { card: Name, issue_id: Type.Optional(Name), customer_id: Type.Optional(Name) },
          { additionalProperties: false },
        ),
      },
    },
    async ({ body }) => {
      const billingKey = await issueInBrowser(context, body.card, {
        customerId: body.customer_id ?? null,
        ...(body.issue_id !== undefined && { issueId: body.issue_id }),
      })
      if (billingKey === undefined) throw refuse('billing_key_invalid')
      return { billing_key: billingKey }
    },
  )
}

const types: Readonly<Record<string, string>> = {
  'payment.paid': 'Transaction.Paid',
  'payment.declined': 'Transaction.Failed',
  'payment.disputed': 'Transaction.DisputeCreated',
  'payment.dispute_closed': 'Transaction.DisputeResolved',
}

type Told = { type: string; cancellationId?: string }

async function dataOf(event: ProviderEvent, context: ProviderContext): Promise<Told | undefined> {
  const type = types[event.type]
  if (type !== undefined) return { type }
  const found = await context.book.find(event.reference)
  if (!found) return undefined
  const payment: BookPayment = JSON.parse(found.payment)
  const refund = payment.refunds.find(({ reference }) => reference === event.refundReference)
  if (!refund) return undefined
  const isAll = payment.amount === payment.amount_refunded
  return { type: isAll ? 'Transaction.Cancelled' : 'Transaction.PartialCancelled', cancellationId: refund.id }
}

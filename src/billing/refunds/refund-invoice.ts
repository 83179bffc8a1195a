import type { Finished, Intent } from '../../platform/idempotency.ts'
import type { Refusal } from '../../platform/refusal.ts'
import { answerWithin } from '../answer-within.ts'
import type { BillingApp } from '../app.ts'
import type { MoneyRequest } from '../money-request.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { refuse } from '../refusals.ts'
import type { Refund } from './refund.ts'
import { findRefund } from './refund-rows.ts'
import { type RefundAsked, requestRefund } from './request-refund.ts'
import { sendRefundInTurn } from './send-refund.ts'

/** `first`: of the request that asked for it, which may still be told that nothing was sent. */
type RefundIntent = Intent & { readonly kind: 'refund'; readonly first?: true }

/** Gives back all or a part of what an invoice took; pending while the provider has not answered. */
export function refundInvoice(app: BillingApp, asked: RefundAsked): MoneyRequest<RefundIntent, Refund> {
  return {
    begin: async (tx) => {
      const refundId = await requestRefund(tx, app.clock(), asked, sendingLeaseMs(app.terms))
      return { kind: 'refund', id: refundId, subject: refundId, first: true }
    },
    finish: (intent) => finishRefund(app, intent),
  }
}

async function finishRefund(
  app: BillingApp,
  { id: refundId, first }: RefundIntent,
): Promise<Finished<Refund>> {
  await answerWithin(app.terms, ({ gone, stays }) => sendRefundInTurn(app, refundId, gone, first && stays))
  const refund = (await findRefund(app.db, refundId))!
  if (refund.status === 'failed') throw refusalOf(refund)
  return { state: refund.status === 'succeeded' ? 'done' : 'pending', result: refund }
}

function refusalOf(refund: Refund): Refusal {
  switch (refund.code) {
    case 'payment_disputed':
      return refuse('payment_disputed')
    case 'provider_unavailable':
      return refuse('provider_unavailable', { headers: { 'retry-after': '5' } })
    case 'never_arrived':
      return refuse('provider_error')
    default:
      return refuse('refund_declined')
  }
}

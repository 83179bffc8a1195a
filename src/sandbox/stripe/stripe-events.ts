import type { BookDispute, BookPayment } from '../book-payment.ts'
import { renderDispute } from './stripe-dispute.ts'
import { type Intent, renderEvent, seconds } from './stripe-objects.ts'
import type { StripeStore } from './stripe-store.ts'

/** Everything that came to a payment, as events, told with what it looks like now. */
export async function eventsOf(store: StripeStore, intent: Intent, payment: BookPayment) {
  const shown = await store.show(intent)
  const charge = await store.chargeOf(intent, payment, false)
  const refunds = await store.refundsOf(intent, payment)
  const dispute = renderDispute(intent, payment)
  const event = (n: number | string, type: string, at: string, object: object) =>
    renderEvent({ id: `evt_${payment.id.slice(3)}_${n}`, type, created: seconds(at), key: null }, object)
  return [
    event(
      0,
      payment.status === 'paid' ? 'payment_intent.succeeded' : 'payment_intent.payment_failed',
      payment.created_at,
      shown,
    ),
    ...refunds.flatMap((refund) => [
      event(`${refund.id.slice(3)}_1`, 'refund.created', secondsText(refund.created), refund),
      event(`${refund.id.slice(3)}_2`, 'charge.refunded', secondsText(refund.created), charge),
      ...(refund.status === 'failed'
        ? [event(`${refund.id.slice(3)}_3`, 'refund.failed', secondsText(refund.created), refund)]
        : []),
    ]),
    ...(dispute ? disputeEvents(payment.dispute!) : []).map(([name, at], n) =>
      event(`dp_${n + 1}`, `charge.dispute.${name}`, at, dispute!),
    ),
  ]
}

/** The money goes when it is opened, and comes back when it is won. */
function disputeEvents({ status, opened_at, closed_at }: BookDispute): [name: string, at: string][] {
  const opened: [string, string][] = [
    ['created', opened_at],
    ['funds_withdrawn', opened_at],
  ]
  if (closed_at === null) return opened
  if (status === 'lost') return [...opened, ['closed', closed_at]]
  return [...opened, ['closed', closed_at], ['funds_reinstated', closed_at]]
}

function secondsText(at: number): string {
  return new Date(at * 1000).toISOString()
}

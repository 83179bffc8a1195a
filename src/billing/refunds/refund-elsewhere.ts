import type { BillingTx } from '../app.ts'
import type { NewEvent } from '../events/event-rows.ts'
import type { Currency, Money } from '../money.ts'
import type { ProviderPayment } from '../providers/port.ts'
import { bookRefund } from './book-refund.ts'
import { findForgottenRefunds, insertForeignRefund, type SettledRefund } from './refund-rows.ts'

type RefundedPayment = Omit<SettledRefund, 'refundId' | 'amount'> & { readonly currency: Currency }

/**
 * Records what the provider gave back of a payment though none of our refunds stands for it: by hand in its console, by a
 * request of ours that arrived after we had given it up, or asked for by a database since lost. Says what we then know to
 * have gone back in all. The caller holds the payment's lock and tells of the events.
 */
export async function recordRefundsElsewhere(
  tx: BillingTx,
  now: Date,
  payment: RefundedPayment,
  record: ProviderPayment,
): Promise<{ refunded: bigint; events: NewEvent[] }> {
  const { currency, captured, refundPending } = payment
  const events: NewEvent[] = []
  let { refunded } = payment
  const note = async (amount: Money, asked?: Asked) => {
    events.push(await recordElsewhere(tx, now, { ...payment, refunded }, amount, asked))
    refunded += amount.minor
  }
  for (const { amount, ...asked } of await findForgotten(tx, payment.paymentId, record)) {
    // While one of ours sets so much aside that it has no room, that one cannot succeed; its end makes room.
    if (refunded + refundPending + amount.minor <= captured) await note(amount, asked)
  }
  // While a refund of ours is on its way the total may already hold it, so nothing is concluded from the total.
  const rest = refundPending === 0n ? record.refunded.minor - refunded : 0n
  if (rest > 0n) await note({ minor: rest, currency })
  return { refunded, events }
}

type Asked = { readonly n: number; readonly reference: string }

/** Refunds that carry a name of ours and are not here were asked for by a database since lost. */
async function findForgotten(
  tx: BillingTx,
  paymentId: string,
  record: ProviderPayment,
): Promise<(Asked & { amount: Money })[]> {
  const done = record.refunds.filter(({ reference, status }) => reference !== null && status === 'succeeded')
  const found = await findForgottenRefunds(
    tx,
    paymentId,
    done.map(({ reference }) => reference!),
  )
  return found.map((one) => ({
    ...one,
    amount: done.find(({ reference }) => reference === one.reference)!.amount,
  }))
}

async function recordElsewhere(
  tx: BillingTx,
  now: Date,
  payment: RefundedPayment,
  amount: Money,
  asked?: Asked,
): Promise<NewEvent> {
  const refundId = await insertForeignRefund(tx, now, { ...payment, amount, asked })
  return bookRefund(tx, now, { ...payment, refundId, amount, refunded: payment.refunded + amount.minor })
}

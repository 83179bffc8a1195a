import type { BillingTx } from '../app.ts'
import type { NewEvent } from '../events/event-rows.ts'
import type { Currency, Money } from '../money.ts'
import type { ProviderPayment } from '../providers/port.ts'
import { bookRefund, bookReversal } from './book-refund.ts'
import { findRefundElsewhere, listNamedRefunds } from './refund-elsewhere-rows.ts'
import { findForgottenRefunds, insertForeignRefund, type SettledRefund, undoRefund } from './refund-rows.ts'

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

/**
 * Takes back what was recorded as given back by somebody else and failed after all: the provider's record tells of less than we
 * know. The caller has read that record by the provider's id after all of it was recorded here, and holds the payment's
 * lock. Says what is then known to have gone back; what was taken back too much, `recordRefundsElsewhere` records anew.
 */
export async function reverseRefundsElsewhere(
  tx: BillingTx,
  now: Date,
  { paymentId, refunded: knew, refundPending }: RefundedPayment,
  record: ProviderPayment,
): Promise<{ refunded: bigint; events: NewEvent[] }> {
  const events: NewEvent[] = []
  let refunded = knew
  // A record without one of ours that went through is older than that, or none to conclude from.
  const isWhole = async () => {
    const told = new Set(record.refunds.map(({ reference }) => reference))
    return (await listNamedRefunds(tx, paymentId)).every((reference) => told.has(reference))
  }
  if (refundPending > 0n || record.refunded.minor >= refunded || !(await isWhole()))
    return { refunded, events }
  while (record.refunded.minor < refunded) {
    const refundId = await findRefundElsewhere(tx, paymentId, refunded - record.refunded.minor)
    const undone = refundId !== undefined && (await undoRefund(tx, now, { refundId }))
    if (!undone) break
    events.push(await bookReversal(tx, now, undone))
    refunded = undone.refunded
  }
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

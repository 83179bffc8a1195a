import { enqueue } from '../../platform/queue/queue.ts'
import type { BillingTx } from '../app.ts'
import { insertEvents } from '../events/event-rows.ts'
import { scheduleDunning } from '../invoices/dunning-rows.ts'
import { closeInvoice, listOwed } from '../invoices/invoice-rows.ts'
import { postTransfers } from '../ledger/ledger-rows.ts'
import {
  type ChargeRefused,
  chargeRefused,
  raiseChargeRefused,
  subjectOf,
} from '../payments/charge-refused-alarm.ts'
import type { DecidedOutcome } from '../payments/payment.ts'
import { dropMethod } from '../payments/payment-method-rows.ts'
import { markUnmatched } from '../payments/payment-rows.ts'
import { insertRefund } from '../refunds/refund-rows.ts'
import { endSubscription } from '../subscriptions/end-subscription.ts'
import { afterFailure } from '../subscriptions/subscription.ts'
import { lockSubscriptionsOf, setSubscriptionStatus } from '../subscriptions/subscription-rows.ts'
import { type AttemptFailure, endDoubts, failAttempt } from './fail-attempt.ts'
import { isOpen, type LockedPayment, readLockedPayments } from './locked-payment-rows.ts'
import type { Paid } from './paid-rows.ts'
import { paymentEvent } from './payment-event.ts'
import { settlePaid } from './settle-paid.ts'

/** Locks, reads where everything stands, and writes what follows. */
export async function settleDecided(
  tx: BillingTx,
  now: Date,
  decided: readonly { readonly paymentId: string; readonly outcome: DecidedOutcome }[],
  dunningDays: readonly number[],
): Promise<void> {
  const ids = decided.map(({ paymentId }) => paymentId)
  await lockSubscriptionsOf(tx, ids)
  const lockedById = new Map((await readLockedPayments(tx, ids)).map((one) => [one.paymentId, one]))

  await endDoubts(tx, [...lockedById.values()])

  const paid: Paid[] = []
  const refusals = new Map<string, ChargeRefused>()
  for (const { paymentId, outcome } of decided) {
    const locked = lockedById.get(paymentId)
    if (!locked || locked.paymentStatus === 'succeeded') continue
    if (outcome.kind === 'failed') {
      if (!isOpen(locked)) continue
      await settleFailed(tx, now, locked, outcome, dunningDays)
      const refused = chargeRefused(locked, outcome)
      if (refused) refusals.set(subjectOf(refused), refused)
    } else if (isOpen(locked) && locked.invoiceStatus === 'open') {
      paid.push({ locked, providerId: outcome.providerId, card: outcome.card })
    } else {
      await settleUnmatched(tx, locked, outcome.providerId, now)
    }
  }
  await settlePaid(tx, paid, now)
  // Last, because every settlement of a wave meets in these rows, and in one order.
  for (const [, refused] of [...refusals].sort(([a], [b]) => (a < b ? -1 : 1)))
    await raiseChargeRefused(tx, refused, now)
}

async function settleFailed(
  tx: BillingTx,
  now: Date,
  locked: LockedPayment,
  failure: AttemptFailure,
  dunningDays: readonly number[],
): Promise<void> {
  const { invoiceId, subscriptionId } = locked
  const events = await failAttempt(tx, now, locked, failure)
  if (locked.invoiceStatus === 'open' && !locked.held) {
    // One that was ended so that the next try can begin fails just before that.
    const failedAt = locked.awaitedUntil ? earlier(new Date(locked.awaitedUntil.getTime() - 1), now) : now
    const ownMethod = locked.methodId === locked.ownMethodId
    const verdict = afterFailure({ ...locked, code: failure.code, ownMethod }, failedAt, dunningDays)
    if (verdict.kind === 'ends') {
      events.push(
        paymentEvent(verdict.invoice === 'void' ? 'invoice.voided' : 'invoice.uncollectible', locked),
      )
      for (const owed of await closeOwed(tx, subscriptionId, invoiceId, verdict.invoice))
        events.push({ ...paymentEvent('invoice.uncollectible', locked), data: { invoice_id: owed } })
      await insertEvents(tx, now, events)
      await endSubscription(tx, subscriptionId, { code: verdict.cancelCode, at: now, now })
      return
    }
    await scheduleDunning(tx, invoiceId, verdict.firstFailedAt, verdict.step)
    if (locked.status !== 'past_due') {
      await setSubscriptionStatus(tx, subscriptionId, 'past_due')
      events.push(paymentEvent('subscription.past_due', locked))
    }
  }
  await insertEvents(tx, now, events)
}

function earlier(one: Date, other: Date): Date {
  return one < other ? one : other
}

/** Closes the invoice that failed and with it whatever else is owed; says which others those were. */
async function closeOwed(
  tx: BillingTx,
  subscriptionId: string,
  invoiceId: string,
  status: 'void' | 'uncollectible',
): Promise<string[]> {
  await closeInvoice(tx, invoiceId, status)
  const others = (await listOwed(tx, subscriptionId)).map((owed) => owed.invoiceId)
  for (const other of others) await closeInvoice(tx, other, 'uncollectible')
  return others
}

/** Money that pays for nothing: the invoice was withdrawn, or the attempt had been given up. It goes back in full. */
async function settleUnmatched(
  tx: BillingTx,
  locked: LockedPayment,
  providerId: string,
  now: Date,
): Promise<void> {
  const { paymentId, invoiceId, accountId } = locked
  const amount = { minor: locked.amount, currency: locked.currency }
  await markUnmatched(tx, now, { paymentId, providerId })
  await postTransfers(tx, now, [
    { cause: `payment:${paymentId}`, accountId, amount, from: 'unclaimed', to: 'provider' },
  ])
  const refund = {
    paymentId,
    invoiceId,
    accountId,
    amount,
    reason: null,
    note: null,
    origin: 'unmatched',
  } as const
  const refundId = await insertRefund(tx, now, refund, 0)
  if (locked.methodPending) await dropMethod(tx, locked.methodId, 'withdrawn', now)
  await insertEvents(tx, now, [paymentEvent('payment.found_later', locked)])
  await enqueue(tx, 'billing.send-refund', { refundId })
}

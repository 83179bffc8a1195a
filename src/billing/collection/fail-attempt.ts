import type { BillingTx } from '../app.ts'
import type { NewEvent } from '../events/event-rows.ts'
import { clearContradictions } from '../payments/contradiction.ts'
import { deleteNextActions } from '../payments/next-action-rows.ts'
import type { PaymentOutcome } from '../payments/payment.ts'
import { dropMethod, wakePendingMethods } from '../payments/payment-method-rows.ts'
import { markFailed } from '../payments/payment-rows.ts'
import type { LockedPayment } from './locked-payment-rows.ts'
import { paymentEvent } from './payment-event.ts'

export type AttemptFailure = Omit<Extract<PaymentOutcome, { kind: 'failed' }>, 'kind'>

/** What was kept only as long as nobody could say what became of these payments goes, and what waited for that goes on. */
export async function endDoubts(tx: BillingTx, locked: readonly LockedPayment[]): Promise<void> {
  const inDoubt = locked.filter(({ paymentStatus }) => paymentStatus === 'unknown')
  await wakePendingMethods(
    tx,
    inDoubt.map((one) => one.subscriptionId),
  )
  await clearContradictions(
    tx,
    inDoubt.map((one) => one.paymentId),
  )
  await deleteNextActions(
    tx,
    inDoubt.filter(({ awaitedUntil }) => awaitedUntil !== null).map((one) => one.paymentId),
  )
}

/** The attempt failed, and with it the payment method that was offered for it. What follows for its invoice is the caller's. */
export async function failAttempt(
  tx: BillingTx,
  now: Date,
  locked: LockedPayment,
  { code, raw }: AttemptFailure,
): Promise<NewEvent[]> {
  await markFailed(tx, now, locked.paymentId, code, raw)
  const failed = paymentEvent('payment.failed', locked, code)
  if (!locked.methodPending) return [failed]
  await dropMethod(tx, locked.methodId, code, now)
  const wasOffered = locked.methodId !== locked.ownMethodId
  return wasOffered ? [failed, paymentEvent('payment_method.dropped', locked, code)] : [failed]
}

import type { BillingTx } from '../app.ts'
import type { NewEvent } from '../events/event-rows.ts'
import { reviveRetries } from '../invoices/dunning-rows.ts'
import { clearLostInRestore } from '../payments/lost-in-restore-alarm.ts'
import { type KeptMethod, retireMethods } from '../payments/payment-method-rows.ts'
import { type SubscriptionStatus, statusAfterPaid } from '../subscriptions/subscription.ts'
import type { LockedPayment } from './locked-payment-rows.ts'
import { type Paid, writePaid } from './paid-rows.ts'
import { paymentEvent } from './payment-event.ts'

/** Payment, invoice, payment method, ledger, subscription and events of many, in one statement. */
export async function settlePaid(tx: BillingTx, paid: readonly Paid[], now: Date): Promise<void> {
  if (paid.length === 0) return
  const moves = paid.map(moveOf)
  const replaced = moves.filter(({ newMethod }) => newMethod).map(({ locked }) => locked.ownMethodId)
  await retireMethods(
    tx,
    replaced.filter((id) => id !== null),
    now,
  )
  await writePaid(tx, now, {
    paid,
    kept: keptMethods(paid),
    transfers: paid.map(({ locked }) => ({
      cause: `payment:${locked.paymentId}`,
      accountId: locked.accountId,
      amount: { minor: locked.amount, currency: locked.currency },
      from: 'revenue',
      to: 'provider',
    })),
    events: moves.flatMap(paidEvents),
    moved: moves
      .filter(({ locked, status, newMethod }) => newMethod || status !== locked.status)
      .map(({ locked, status, newMethod }) => ({
        subscriptionId: locked.subscriptionId,
        status,
        newMethodId: newMethod ? locked.methodId : null,
      })),
  })
  for (const { locked, newMethod } of moves) {
    if (!newMethod) continue
    await reviveRetries(tx, locked.subscriptionId, now)
    await clearLostInRestore(tx, locked.subscriptionId)
  }
}

type Move = {
  readonly locked: LockedPayment
  readonly status: SubscriptionStatus
  /** The payment method that paid takes the place of the subscription's own. */
  readonly newMethod: boolean
}

function moveOf({ locked }: Paid): Move {
  return {
    locked,
    status: statusAfterPaid(locked.status, locked.owesMore),
    // Only an offered one takes the place of another; one that was replaced while it paid does not come back.
    newMethod: locked.methodPending && locked.methodId !== locked.ownMethodId && locked.status !== 'canceled',
  }
}

function keptMethods(paid: readonly Paid[]): KeptMethod[] {
  return paid
    .filter(({ locked, card }) => locked.methodPending || (card && !locked.methodDescribed))
    .map(({ locked, card }) => ({ methodId: locked.methodId, card: locked.methodDescribed ? null : card }))
}

function paidEvents({ locked, status, newMethod }: Move): NewEvent[] {
  const arrived = locked.status === 'incomplete' ? 'subscription.activated' : 'subscription.recovered'
  return [
    paymentEvent('invoice.paid', locked),
    ...(newMethod ? [changedEvent(locked)] : []),
    ...(status !== locked.status ? [paymentEvent(arrived, locked)] : []),
  ]
}

function changedEvent(locked: LockedPayment): NewEvent {
  const event = paymentEvent('payment_method.changed', locked)
  return { ...event, data: { ...event.data, payment_method_id: locked.methodId } }
}

import { sql } from 'kysely'
import type { BillingTx } from '../app.ts'
import { eventInsert, type NewEvent } from '../events/event-rows.ts'
import { paidUpdate, reviveRetries } from '../invoices/invoice-rows.ts'
import { postingCtes } from '../ledger/ledger-rows.ts'
import { keptUpdate, retireMethods } from '../payments/payment-method-rows.ts'
import { succeededUpdate } from '../payments/payment-rows.ts'
import type { Card } from '../providers/port.ts'
import { type SubscriptionStatus, statusAfterPaid } from '../subscriptions/subscription.ts'
import type { LockedPayment } from './locked-payment-rows.ts'
import { paymentEvent } from './payment-event.ts'

/** A payment that pays its open invoice. */
export type Paid = { readonly locked: LockedPayment; readonly providerId: string; readonly card: Card | null }

/** Payment, invoice, card, ledger, subscription and events of many, in one statement. */
export async function settlePaid(tx: BillingTx, paid: readonly Paid[], now: Date): Promise<void> {
  if (paid.length === 0) return
  const moves = paid.map(({ locked }) => ({
    locked,
    status: statusAfterPaid(locked.status, locked.owesMore),
    // Only an offered card takes the place of another; one that was replaced while it paid does not come back.
    newMethod: locked.methodPending && locked.methodId !== locked.ownMethodId && locked.status !== 'canceled',
  }))
  const moved = moves.filter(({ locked, status, newMethod }) => newMethod || status !== locked.status)
  const taken = paid.map(({ locked, providerId }) => ({
    paymentId: locked.paymentId,
    providerId,
    unmatched: false,
  }))
  const kept = paid
    .filter(({ locked, card }) => locked.methodPending || (card && !locked.methodDescribed))
    .map(({ locked, card }) => ({
      methodId: locked.methodId,
      card: locked.methodDescribed ? null : card,
    }))
  const transfers = paid.map(({ locked }) => ({
    cause: `payment:${locked.paymentId}`,
    accountId: locked.accountId,
    amount: { minor: locked.amount, currency: locked.currency },
    from: 'revenue' as const,
    to: 'provider' as const,
  }))
  await sql`
    with taken as (${succeededUpdate(now, taken)}),
    invoiced as (${paidUpdate(
      now,
      paid.map(({ locked }) => locked.invoiceId),
    )}),
    kept as (${keptUpdate(kept)}),
    ${postingCtes(now, transfers)},
    noted as (${eventInsert(now, moves.flatMap(paidEvents))})
    -- A renewal that is paid leaves its subscription as it is; a first, recovering or newly carded one moves.
    update billing.subscription s
    set status = g.status, payment_method_id = coalesce(g.method_id, s.payment_method_id)
    from unnest(
      ${moved.map(({ locked }) => locked.subscriptionId)}::text[],
      ${moved.map(({ status }) => status)}::text[],
      ${moved.map(({ locked, newMethod }) => (newMethod ? locked.methodId : null))}::text[]
    ) as g (id, status, method_id)
    where s.id = g.id`.execute(tx)
  const replaced = moves.filter(({ newMethod }) => newMethod).map(({ locked }) => locked.ownMethodId)
  await retireMethods(
    tx,
    replaced.filter((id) => id !== null),
    now,
  )
  for (const { locked, newMethod } of moves)
    if (newMethod) await reviveRetries(tx, locked.subscriptionId, now)
}

function paidEvents(move: {
  locked: LockedPayment
  status: SubscriptionStatus
  newMethod: boolean
}): NewEvent[] {
  const { locked, status, newMethod } = move
  const arrived = locked.status === 'incomplete' ? 'subscription.activated' : 'subscription.recovered'
  return [
    paymentEvent('invoice.paid', locked),
    ...(newMethod ? [paymentEvent('payment_method.changed', locked)] : []),
    ...(status !== locked.status ? [paymentEvent(arrived, locked)] : []),
  ]
}

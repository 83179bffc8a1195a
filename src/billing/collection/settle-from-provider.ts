import type { BillingApp, BillingTx } from '../app.ts'
import { insertEvents, type NewEvent } from '../events/event-rows.ts'
import { closeInvoice, listOwed } from '../invoices/invoice-rows.ts'
import { clearContradictions, raiseContradiction } from '../payments/contradiction.ts'
import { isAsAsked, outcomeOfPayment, type PaymentOutcome } from '../payments/payment.ts'
import { recordDispute } from '../payments/record-dispute.ts'
import { lostIn, type ProviderDispute, type ProviderPayment } from '../providers/port.ts'
import { bookReversal } from '../refunds/book-refund.ts'
import { recordRefundsElsewhere, reverseRefundsElsewhere } from '../refunds/refund-elsewhere.ts'
import { listSentRefunds, undoRefund } from '../refunds/refund-rows.ts'
import { sendRefund } from '../refunds/send-refund.ts'
import { refundUnmatched, watchUnmatched } from '../refunds/unmatched-rows.ts'
import { endSubscription } from '../subscriptions/end-subscription.ts'
import { lockSubscription } from '../subscriptions/subscription-rows.ts'
import { endGivenUp } from './end-given-up.ts'
import { settleDecided } from './settle-decided.ts'
import {
  findByReference,
  type KnownPayment,
  lockTakenPayment,
  type TakenPayment,
} from './taken-payment-rows.ts'

export type ProviderVerdict =
  | 'settled'
  | 'not_ours'
  | 'not_known'
  /** The provider itself does not know yet whether the money is taken: look again. */
  | 'undecided'
  /** A refund of ours is on its way, or went through or failed meanwhile, so what else went back cannot be told yet: look again. */
  | 'in_motion'

/**
 * Looks a payment up by our reference and records whatever is true by now: paid, declined, taken after we had given it
 * up, refunded more than we know, a refund that failed after all, disputed. Safe to run any number of times.
 */
export async function settleFromProvider(app: BillingApp, reference: string): Promise<ProviderVerdict> {
  const known = await findByReference(app.db, reference)
  if (!known) return 'not_ours'
  const { paymentId } = known
  // What of ours is on its way comes first: it may move money, and a record from before that would tell of too little.
  const sent = await listSentRefunds(app.db, paymentId)
  for (const refundId of sent) await sendRefund(app, refundId)
  const ours = (sent.length > 0 && (await findByReference(app.db, reference))) || known
  const lookup = await app.providers.named(ours.provider).findPayment(reference, ours.providerId)
  const differs = lookup.kind === 'found' ? !isAsAsked(lookup.payment, ours) : lookup.kind === 'mismatch'
  // Whoever sends it is told the same and says so; an alarm from here might outlive a settlement that knows of none.
  if (differs && !ours.isBeingSent) await raiseContradiction(app.db, 'amount_differs', paymentId, app.clock())
  if (differs || lookup.kind !== 'found') return 'not_known'
  await clearContradictions(app.db, [paymentId])
  const outcome = outcomeOfPayment(lookup.payment, ours)
  if (outcome.kind === 'paid') return settleTaken(app, ours, outcome, lookup.payment)
  await settleNotTaken(app, ours, outcome)
  return outcome.kind === 'unknown' ? 'undecided' : 'settled'
}

async function settleNotTaken(app: BillingApp, ours: KnownPayment, outcome: PaymentOutcome): Promise<void> {
  const { paymentId } = ours
  if (outcome.kind === 'awaiting' && ours.isFailed) return endGivenUp(app, ours, outcome.providerId)
  if (outcome.kind !== 'failed') return
  await app.db.transaction().execute(async (tx) => {
    await settleDecided(tx, app.clock(), [{ paymentId, outcome }], app.terms.dunningDays)
  })
}

/**
 * Records that the money was taken and what happened to it afterwards, together: whoever takes a payment out of doubt is
 * the last to ask about it, and nobody may ever tell us the rest. A sender that is still at it records the same truth; the
 * row lock makes either of them the first. `in_motion`: the record cannot be told apart from a refund of ours, or may be older
 * than what we know by now. `not_known`: nothing of ours is on its way, and yet it tells of less than went back.
 */
export async function settleTaken(
  app: BillingApp,
  { paymentId, knew }: Pick<KnownPayment, 'paymentId' | 'knew'>,
  outcome: Extract<PaymentOutcome, { kind: 'paid' }>,
  record: ProviderPayment,
): Promise<ProviderVerdict> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    // It takes the subscription's lock first, as whoever ends one must.
    await settleDecided(tx, now, [{ paymentId, outcome }], app.terms.dunningDays)
    const payment = await lockTakenPayment(tx, paymentId)
    // Since we asked, a refund went through or failed, or a dispute or its money moved: the record may be from before that.
    if (payment.refunded !== knew.refunded || payment.dispute.status !== knew.dispute) return 'in_motion'
    if (payment.dispute.lost !== knew.lost) return 'in_motion'
    const events: NewEvent[] = []
    const dispute = disputeIn(record, payment)
    const ends = app.terms.disputePolicy === 'cancel' && dispute !== null && dispute.status !== 'won'
    const isNews = dispute !== null && disputeDiffers(payment.dispute, dispute)
    if (isNews) events.push(...(await recordDispute(tx, now, payment.dispute, dispute)))
    // One that was lost long ago ends nobody who stayed.
    if (ends && !payment.unmatched && (isNews || dispute.status === 'open'))
      await endDisputed(tx, now, payment.subscriptionId)
    const ours = await reverseFailed(tx, now, payment, record)
    const theirs = await reverseRefundsElsewhere(tx, now, { ...payment, refunded: ours.refunded }, record)
    const { refunded } = theirs
    const elsewhere = await recordRefundsElsewhere(tx, now, { ...payment, refunded }, record)
    events.push(...ours.events, ...theirs.events, ...elsewhere.events)
    await insertEvents(tx, now, events)
    if (payment.unmatched) {
      // The bank decided for us, or gave back what it had taken, so what paid for nothing can go back at last.
      const wonNow = dispute?.status === 'won' && isNews
      if (wonNow) await refundUnmatched(tx, now, paymentId)
      await watchUnmatched(tx, now, paymentId)
    }
    if (record.refunded.minor === elsewhere.refunded) return 'settled'
    // More than we know, while one of ours is on its way, may be that one or somebody else's of the same amount.
    return payment.refundPending > 0n ? 'in_motion' : 'not_known'
  })
}

/** Whoever has the bank take a payment back does not want to go on: the subscription ends at once, and owes nothing. */
async function endDisputed(tx: BillingTx, now: Date, subscriptionId: string): Promise<void> {
  const subscription = await lockSubscription(tx, subscriptionId)
  if (!subscription || subscription.status === 'canceled') return
  const { accountId } = subscription
  for (const { invoiceId } of await listOwed(tx, subscriptionId)) {
    await closeInvoice(tx, invoiceId, 'void')
    await insertEvents(tx, now, [
      { type: 'invoice.voided', accountId, subscriptionId, data: { invoice_id: invoiceId } },
    ])
  }
  await endSubscription(tx, subscriptionId, { code: 'payment_disputed', at: now, now })
}

/**
 * What a record says of a dispute, together with what we know of it. Where money went back and disputes are shown no more, one that
 * was open is over: we knew of it while nothing had gone back, so that it was ended by giving back. Nothing was lost by it, and
 * what the bank takes all the same is shown, though not when that dispute was opened.
 */
function disputeIn(
  { dispute, disputesHiddenSince: since }: ProviderPayment,
  { dispute: ours, currency }: TakenPayment,
): ProviderDispute | null {
  const { status, amount, openedAt, lost } = ours
  if (since === undefined || openedAt === null || amount === null) return dispute
  if (dispute) return { ...dispute, openedAt }
  if (status !== 'open' || lost > 0n) return null
  const closedAt = since > openedAt ? since : openedAt
  return { status: 'won', amount: { minor: amount, currency }, openedAt, closedAt }
}

function disputeDiffers(ours: TakenPayment['dispute'], theirs: ProviderDispute): boolean {
  return (
    ours.status !== theirs.status ||
    ours.amount !== theirs.amount.minor ||
    ours.lost !== lostIn(theirs) ||
    ours.closedAt?.getTime() !== theirs.closedAt?.getTime()
  )
}

/** Refunds that we hold for done and the provider calls failed. Says what has then gone back in all. */
async function reverseFailed(
  tx: BillingTx,
  now: Date,
  payment: TakenPayment,
  record: ProviderPayment,
): Promise<{ refunded: bigint; events: NewEvent[] }> {
  const events: NewEvent[] = []
  let { refunded } = payment
  for (const { reference, status } of record.refunds) {
    if (status !== 'failed' || reference === null) continue
    const undone = await undoRefund(tx, now, { reference })
    if (!undone) continue
    events.push(await bookReversal(tx, now, undone))
    refunded = undone.refunded
  }
  return { refunded, events }
}

import { setTimeout as sleep } from 'node:timers/promises'
import { nobodyWaits } from '../answer-within.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { insertEvents, type NewEvent } from '../events/event-rows.ts'
import type { Money } from '../money.ts'
import { clearContradictions, raiseContradiction } from '../payments/contradiction.ts'
import { markDisputed } from '../payments/dispute-rows.ts'
import {
  comesLate,
  endsLongSilence,
  lookupAgainAfterMs,
  nextLookupBy,
  type ResendDeclines,
  verdictOfNotFound,
  verdictOfResend,
} from '../payments/doubt.ts'
import { isAsAsked } from '../payments/payment.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import type { ProviderPayment, RefundOutcome } from '../providers/port.ts'
import { wakeUnsettled } from '../unsettled-rows.ts'
import { bookRefund } from './book-refund.ts'
import { type RefundFailure, refundOnRecord } from './refund.ts'
import { recordRefundsElsewhere } from './refund-elsewhere.ts'
import { refundEvent } from './refund-event.ts'
import { endRefund, insertRefund, type SettledRefund } from './refund-rows.ts'
import { type LeasedRefund, parkRefund, requeueRefund, type Turn, takeTurn } from './refund-turn-rows.ts'
import { watchUnmatched } from './unmatched-rows.ts'

export type Sent = 'settled' | 'pending' | 'waits'

/**
 * Sends a refund, or finds out what became of it; safe to run any number of times. `waits`: another refund of the same
 * payment is on its way. `mayGiveUp`: whether somebody is there to be told that the provider cannot be reached.
 */
export async function sendRefund(
  app: BillingApp,
  refundId: string,
  mayGiveUp: () => boolean = nobodyWaits,
): Promise<Sent> {
  const now = app.clock()
  const turn = await takeTurnOf(app, refundId, now)
  if (turn.kind === 'settled') return 'settled'
  if (turn.kind === 'wait') return turn.inDoubt ? 'pending' : 'waits'

  const { refund } = turn
  const outcome = refund.sentAt === null ? await sendFirst(app, refund, now) : await pursue(app, refund, now)
  return record(app, refund, outcome, mayGiveUp)
}

/**
 * Only one refund of a payment is on its way at a time: a unique index says so, and whoever finds it taken in the very
 * moment waits like one who came later.
 */
async function takeTurnOf(app: BillingApp, refundId: string, now: Date): Promise<Turn> {
  try {
    return await app.db.transaction().execute((tx) => takeTurn(tx, refundId, now, sendingLeaseMs(app.terms)))
  } catch (error) {
    if ((error as { constraint?: string }).constraint === 'refund_one_sent')
      return { kind: 'wait', inDoubt: false }
    throw error
  }
}

const pollMs = 40

/** Sends a refund as soon as those before it are through. */
export async function sendRefundInTurn(
  app: BillingApp,
  refundId: string,
  gone: AbortSignal,
  mayGiveUp?: () => boolean,
): Promise<void> {
  while (!gone.aborted && (await sendRefund(app, refundId, mayGiveUp)) === 'waits') await sleep(pollMs)
}

type Found =
  | Exclude<RefundOutcome, { kind: 'done' | 'remaining_differs' | 'credentials_refused' | 'unknown' }>
  /** `on`: the provider's record of the payment, where it was looked up. */
  | { kind: 'done'; on?: ProviderPayment }
  /** `answered`: the provider was asked about it and answered, only not with what became of it. */
  | { kind: 'unknown'; answered?: true }
  /** Refused for certain, because money went back meanwhile that no refund of ours stands for. */
  | { kind: 'overtaken'; on: ProviderPayment }
  | { kind: 'none_yet'; count: number; since: Date; lookupBy: Date }
  /** Turned down again, which proves nothing about an earlier send. */
  | { kind: 'declined_again'; declines: ResendDeclines & { code: string }; lookupBy: Date }
  /** `on`: the provider's record of the payment, in which it is not. */
  | { kind: 'never_arrived'; on: ProviderPayment }

/**
 * A first send; where no clear answer comes it looks once. One that comes late, or that a database since lost may have
 * sent, is looked up first.
 */
async function sendFirst(app: BillingApp, refund: LeasedRefund, now: Date): Promise<Found> {
  if (refund.maybeSentBefore || comesLate(refund.askedAt, now)) {
    const known = await look(app, refund)
    if (known.kind === 'unknown') return { kind: 'not_sent' }
    if (known.kind !== 'none') return known
  }
  const outcome = await ask(app, refund)
  if (outcome.kind === 'remaining_differs') return explain(app, refund)
  if (refund.maybeSentBefore && isUnproven(outcome)) return weighDecline(app, refund, outcome, now)
  if (outcome.kind !== 'unknown') return outcome
  const found = await look(app, refund)
  return found.kind === 'none' ? { ...outcome, answered: true } : found
}

/** Something may have been sent before: look first, and send again only under the key's protection. */
async function pursue(app: BillingApp, refund: LeasedRefund, now: Date): Promise<Found> {
  const found = await look(app, refund)
  if (found.kind !== 'none') return found

  const doubt = {
    sentAt: refund.sentAt!,
    notFoundCount: refund.notFoundCount,
    notFoundSince: refund.notFoundSince,
  }
  const verdict = verdictOfNotFound(doubt, now, app.providers.named(refund.provider).guards.keyWindowMs)
  if (verdict.kind === 'never_arrived') return { ...verdict, on: found.on }
  if (verdict.kind === 'wait') {
    return {
      kind: 'none_yet',
      count: verdict.notFoundCount,
      since: verdict.notFoundSince,
      lookupBy: verdict.lookupBy,
    }
  }
  const again = await ask(app, refund)
  if (again.kind === 'remaining_differs') return explain(app, refund)
  if (isUnproven(again)) return weighDecline(app, refund, again, now)
  // An earlier send may still arrive, so that this one did not leave proves nothing.
  if (again.kind === 'not_sent' || again.kind === 'unknown') return { kind: 'unknown', answered: true }
  if (endsLongSilence(refund.lookupCount)) await wakeUnsettled(app.db, 'sent', refund.provider)
  return again
}

type Unproven = { kind: 'declined' } | { kind: 'disputed' }

/** A "no" that the provider does not call its first answer. */
function isUnproven(outcome: RefundOutcome): outcome is Unproven {
  return (outcome.kind === 'declined' && !outcome.replayed) || outcome.kind === 'disputed'
}

/** A "no" to a re-send: an earlier one may be running, so it counts once it was said often and long enough. */
async function weighDecline(
  app: BillingApp,
  refund: LeasedRefund,
  again: Unproven,
  now: Date,
): Promise<Found> {
  const found = await look(app, refund)
  if (found.kind !== 'none') return found
  const code = again.kind
  const before = refund.resendDeclines?.code === code ? refund.resendDeclines : null
  const verdict = verdictOfResend(before, now)
  if (verdict.kind === 'believe') return again
  return { kind: 'declined_again', declines: { ...verdict.declines, code }, lookupBy: verdict.lookupBy }
}

/**
 * Another remainder is left than we expected. Where the record names our refunds and this one is not among them, it was
 * refused: the payment's own record, read by the provider's id, is up to date also where a search lags. What we owe by
 * ourselves is not given up so soon.
 */
async function explain(app: BillingApp, refund: LeasedRefund): Promise<Found> {
  const found = await look(app, refund)
  if (found.kind !== 'none') return found
  const { namesRefunds } = app.providers.named(refund.provider).guards
  const isCertain = namesRefunds && refund.origin === 'request'
  return isCertain ? { kind: 'overtaken', on: found.on } : { kind: 'unknown', answered: true }
}

async function ask(
  app: BillingApp,
  refund: LeasedRefund,
): Promise<Exclude<RefundOutcome, { kind: 'credentials_refused' }>> {
  const outcome = await app.providers.named(refund.provider).refund({
    key: refund.reference,
    payment: refund.payment,
    amount: refund.amount,
    remaining: refund.remaining,
    reason: refund.reason ?? 'other',
  })
  // Whose credentials are refused has sent nothing.
  return outcome.kind === 'credentials_refused' ? { kind: 'not_sent' } : outcome
}

type Looked = Found | { kind: 'none'; on: ProviderPayment }

async function look(app: BillingApp, refund: LeasedRefund): Promise<Looked> {
  const { reference, providerId } = refund.payment
  const lookup = await app.providers.named(refund.provider).findPayment(reference, providerId)
  if (lookup.kind === 'mismatch') return lookup
  if (lookup.kind !== 'found') return { kind: 'unknown' }
  if (!isAsAsked(lookup.payment, refund.payment)) return { kind: 'mismatch' }
  const { guards } = app.providers.named(refund.provider)
  const found = refundOnRecord(lookup.payment, refund, refund.refunded, guards)
  // A refund of the lost database has our number, so ours can never be taken; the next one has the next.
  if (found.kind === 'mismatch' && refund.maybeSentBefore) return { kind: 'declined' }
  // It is not there, and what is leaves no room for it: sent or not, it cannot be taken any more.
  if (found.kind === 'none' && guards.namesRefunds && !hasRoom(lookup.payment, refund.amount))
    return { kind: 'overtaken', on: lookup.payment }
  return found.kind === 'none' || found.kind === 'done' ? { ...found, on: lookup.payment } : found
}

function hasRoom({ amount, refunded }: ProviderPayment, { minor }: Money): boolean {
  return refunded.minor + minor <= amount.minor
}

async function record(
  app: BillingApp,
  refund: LeasedRefund,
  outcome: Found,
  mayGiveUp: () => boolean,
): Promise<Sent> {
  const now = app.clock()
  const { refundId } = refund
  const nextLookupAfterMs = lookupAgainAfterMs(refund.lookupCount + 1)
  const sentAt = refund.sentAt ?? now
  // A lookup without an answer takes nothing back that the provider has said; others may be on their way meanwhile.
  const doubtful = refund.accepted ? 'accepted' : 'unknown'
  switch (outcome.kind) {
    case 'done':
      await succeed(app, refund, now, outcome.on)
      return 'settled'
    case 'declined':
      await fail(app, refund, 'refund_declined', now)
      return 'settled'
    case 'disputed':
      await fail(app, refund, 'payment_disputed', now)
      return 'settled'
    case 'overtaken':
      await fail(app, refund, 'refund_declined', now, outcome.on)
      return 'settled'
    case 'never_arrived':
      await fail(app, refund, 'never_arrived', now, outcome.on)
      return 'settled'
    case 'not_sent':
      // Whoever still waits is told, and asks again. What was promised or is owed by ourselves stays in line, and so does
      // what this process only did not get to before its end.
      if (!app.stopping?.aborted && mayGiveUp()) {
        await fail(app, refund, 'provider_unavailable', now)
        return 'settled'
      }
      await requeueRefund(app.db, refundId, nextLookupAfterMs)
      return 'pending'
    case 'mismatch':
    case 'key_used_otherwise':
      await raiseContradiction(
        app.db,
        outcome.kind === 'mismatch' ? 'amount_differs' : outcome.kind,
        refundId,
        now,
      )
      await parkRefund(app.db, refundId, doubtful, {
        nextLookupAfterMs,
        unanswered: false,
        lookupBy: nextLookupBy(sentAt, now, app.providers.named(refund.provider).guards.keyWindowMs),
      })
      return 'pending'
    case 'declined_again':
      await parkRefund(app.db, refundId, doubtful, {
        nextLookupAfterMs,
        unanswered: false,
        lookupBy: outcome.lookupBy,
        resendDeclines: outcome.declines,
      })
      return 'pending'
    case 'pending':
    case 'unknown':
      await parkRefund(app.db, refundId, outcome.kind === 'pending' ? 'accepted' : doubtful, {
        nextLookupAfterMs,
        unanswered: outcome.kind === 'unknown' && !outcome.answered,
        lookupBy: nextLookupBy(sentAt, now, app.providers.named(refund.provider).guards.keyWindowMs),
      })
      return 'pending'
    case 'none_yet':
      await parkRefund(app.db, refundId, doubtful, {
        nextLookupAfterMs,
        unanswered: false,
        lookupBy: outcome.lookupBy,
        none: { count: outcome.count, since: outcome.since },
      })
      return 'pending'
  }
}

/** Refund, invoice totals, payment, ledger and event change together, and with them whatever else went back by then. */
async function succeed(
  app: BillingApp,
  { refundId, sentAt, amount, settled }: LeasedRefund,
  now: Date,
  on: ProviderPayment | undefined,
): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    const refund = await endRefund(tx, now, refundId, { status: 'succeeded' })
    if (!refund) return
    if (sentAt !== null) await clearContradictions(tx, [refundId])
    const booked = await bookRefund(tx, now, refund)
    const others = on && (await recordOthers(tx, now, refund, on, settled + amount.minor))
    await insertEvents(tx, now, [booked, ...(others?.events ?? [])])
    if (refund.unmatched) await watchUnmatched(tx, now, refund.paymentId)
  })
}

async function fail(
  app: BillingApp,
  { refundId, settled }: LeasedRefund,
  code: RefundFailure,
  now: Date,
  on?: ProviderPayment,
): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    const refund = await endRefund(tx, now, refundId, { status: 'failed', code })
    if (!refund) return
    await clearContradictions(tx, [refundId])
    const newDispute = code === 'payment_disputed' && (await markDisputed(tx, refund.paymentId, now))
    const gone = on === undefined ? [] : await recordGone(tx, now, refund, on, settled)
    await insertEvents(tx, now, [
      refundEvent('refund.failed', refund, code),
      ...(newDispute ? [refundEvent('payment.disputed', refund)] : []),
      ...gone,
    ])
    if (refund.unmatched) await watchUnmatched(tx, now, refund.paymentId)
  })
}

/**
 * What went back of the payment without any refund of ours is recorded. Nobody asks again for money that was taken for
 * nothing, so the rest of that is sent anew, now that a new key may exist.
 */
async function recordGone(
  tx: BillingTx,
  now: Date,
  refund: SettledRefund,
  on: ProviderPayment,
  settled: bigint,
): Promise<NewEvent[]> {
  const { currency, minor } = refund.amount
  const { refunded, events } = await recordOthers(tx, now, refund, on, settled)
  const left = { minor: minor - (refunded - refund.refunded), currency }
  if (refund.unmatched && left.minor > 0n)
    await insertRefund(tx, now, { ...refund, amount: left, reason: null, note: null, origin: 'unmatched' }, 0)
  return events
}

/** Once less has gone back than we knew, another refund failed since the provider was asked: its record is older than ours. */
async function recordOthers(
  tx: BillingTx,
  now: Date,
  refund: SettledRefund,
  on: ProviderPayment,
  knew: bigint,
): ReturnType<typeof recordRefundsElsewhere> {
  if (refund.refunded < knew) return { refunded: refund.refunded, events: [] }
  return recordRefundsElsewhere(tx, now, { ...refund, currency: refund.amount.currency }, on)
}

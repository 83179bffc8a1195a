import { newId } from '../../platform/id.ts'
import type { BillingApp, BillingTerms, BillingTx } from '../app.ts'
import { isCalendarStopped } from '../charging-stop-rows.ts'
import { openAttempt } from '../collection/attempt-rows.ts'
import { type AttemptFailure, endDoubts, failAttempt } from '../collection/fail-attempt.ts'
import { readLockedPayments } from '../collection/locked-payment-rows.ts'
import { settleDecided } from '../collection/settle-decided.ts'
import { settleFromProvider } from '../collection/settle-from-provider.ts'
import { insertEvents } from '../events/event-rows.ts'
import { reopenDays } from '../ledger/day-total-rows.ts'
import { raiseLostInRestore } from '../payments/lost-in-restore-alarm.ts'
import { type MethodInUse, outcomeOfPayment, type PaymentOutcome } from '../payments/payment.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import type { Provider, ProviderPayment } from '../providers/port.ts'
import { period } from '../subscriptions/period.ts'
import { openPeriods } from '../subscriptions/period-rows.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import { lockSubscription, setPaymentMethod } from '../subscriptions/subscription-rows.ts'
import {
  findOpenInvoice,
  insertLostMethod,
  listInDoubt,
  listKnownReferences,
  listReferences,
  listWithOpenPeriods,
  moveToPeriod,
  noteFailedInvoice,
  type OpenPeriod,
} from './adoption-rows.ts'
import { type Failed, isolate } from './isolate.ts'
import { BookUnreadable, readBook } from './read-book.ts'

export type Adoption = {
  /** Payments of the provider that were taken over. */
  readonly adopted: number
  readonly subscriptions: number
  /** Subscriptions of which not everything could be taken over; once they are put right the next run goes on there. */
  readonly failed: readonly Failed[]
}

/** Taking payments over while others are made would mix up what was and what is. */
export class ChargingNotStopped extends Error {
  override name = 'ChargingNotStopped'
}

/**
 * Takes over what the provider took between two instants and a restored database has forgotten. A reference follows from
 * subscription, period and attempt, so each is found by working out those that may have been used. Periods are opened in
 * order, which gives their invoices the numbers they had. What fits no place is left for `reconcilePayments` to list.
 */
export async function adoptPayments(
  app: BillingApp,
  from: Date,
  to: Date,
  onProgress: (adopted: number) => void = () => {},
): Promise<Adoption> {
  if (!(await isCalendarStopped(app.db)))
    throw new ChargingNotStopped('Charging is not stopped; run `rankledger db stop-charging` first.')
  const forgotten = await readForgotten(app, from, to)
  const failed: Failed[] = []
  let adopted = 0
  let subscriptions = 0
  for await (const { subscription, open } of listPlaces(app)) {
    if (forgotten.size === 0) break
    const { subscriptionId: subject, accountId: account } = subscription
    const adoptOne = async () => {
      const placed = await placesOf(app, subscription, open, to, forgotten)
      if (placed.length > 0) subscriptions++
      for await (const { reference } of adoptAll(app, subject, placed)) {
        forgotten.delete(reference)
        onProgress(++adopted)
      }
    }
    await isolate(app, subject, adoptOne, (reason) => failed.push({ subject, account, reason }))
  }
  return { adopted, subscriptions, failed }
}

/** What is adopted of one subscription, in the order of periods and attempts. */
async function placesOf(
  app: BillingApp,
  subscription: Subscription,
  open: readonly OpenPeriod[],
  to: Date,
  forgotten: ReadonlyMap<string, Forgotten>,
): Promise<Placed[]> {
  const found = await findPlaced(app, subscription, open, to, forgotten)
  if (found.length === 0) return []
  const placed = [...(await findInDoubt(app, subscription)), ...found].sort((a, b) => a.k - b.k || a.n - b.n)
  // Periods that it went on with say that it began; what came of that charge has to be known first.
  return subscription.status === 'incomplete' && placed[0]!.k > 0 ? [] : placed
}

/** All of one subscription; tells what has found its place. */
async function* adoptAll(
  app: BillingApp,
  subscriptionId: string,
  placed: readonly Placed[],
): AsyncGenerator<Forgotten> {
  const failed: FailedLast[] = []
  for (const one of placed) {
    const taken = await adopt(app, subscriptionId, one, roleOf(one, placed))
    if (taken.kind === 'failed_last') failed.push(taken)
    if (taken.kind !== 'settled') continue
    await settleFromProvider(app, one.payment.reference)
    yield one.payment
  }
  // Such a failure may end the subscription, which closes everything that is owed: all of that has to be there.
  for (const { paymentId, outcome, payment } of failed.sort((a, b) => +a.payment.at - +b.payment.at)) {
    await app.db
      .transaction()
      .execute((tx) => settleDecided(tx, payment.at, [{ paymentId, outcome }], app.terms.dunningDays))
    await settleFromProvider(app, payment.reference)
    yield payment
  }
}

/** What the provider knows and we do not. */
async function readForgotten(app: BillingApp, from: Date, to: Date): Promise<Map<string, Forgotten>> {
  const forgotten = new Map<string, Forgotten>()
  for (const provider of app.providers.all) await readForgottenAt(app, provider, from, to, forgotten)
  return forgotten
}

/** A payment, and in whose book it stands. */
type Forgotten = ProviderPayment & { readonly provider: string }

async function readForgottenAt(
  app: BillingApp,
  { name, listPayments }: Provider,
  from: Date,
  to: Date,
  forgotten: Map<string, Forgotten>,
): Promise<void> {
  for await (const page of readBook(name, from, to, listPayments)) {
    const known = await listKnownReferences(
      app.db,
      page.map(({ reference }) => reference),
    )
    for (const payment of page)
      if (!known.has(payment.reference) && isDecided(payment))
        forgotten.set(payment.reference, { ...payment, provider: name })
  }
}

/** Every subscription with the periods of it that are open; what is not open takes no payment. */
async function* listPlaces(
  app: BillingApp,
): AsyncGenerator<{ subscription: Subscription; open: readonly OpenPeriod[] }> {
  for (let after = ''; ; ) {
    const page = await listWithOpenPeriods(app.db, after, 200)
    if (page.length === 0) return
    yield* page
    after = page.at(-1)!.subscription.subscriptionId
  }
}

type Placed = { readonly k: number; readonly n: number; readonly payment: Forgotten }

// More often than dunning and a few new payment methods try an invoice.
const mostAttempts = 24
const mostPeriods = 1_000

/** The forgotten payments of one subscription. */
async function findPlaced(
  app: BillingApp,
  subscription: Subscription,
  open: readonly OpenPeriod[],
  to: Date,
  forgotten: ReadonlyMap<string, Forgotten>,
): Promise<Placed[]> {
  const { subscriptionId, anchor, timeZone, interval, lastK } = subscription
  const periods = open.map(({ k, attempts }) => ({ k, firstAttempt: attempts + 1 }))
  for (let k = lastK + 1; k <= lastK + mostPeriods; k++) {
    if (period(anchor, timeZone, interval, k).start >= to) break
    periods.push({ k, firstAttempt: 1 })
  }
  if (periods.length === 0) return []
  const references = await listReferences(app.db, subscriptionId, periods, mostAttempts)
  return references.flatMap(({ k, n, reference }) => {
    const payment = forgotten.get(reference)
    return payment && isOf(subscription, payment) ? [{ k, n, payment }] : []
  })
}

/** What the backup knew without an outcome, where the provider has one by now: whatever came later came after that. */
async function findInDoubt(app: BillingApp, subscription: Subscription): Promise<Placed[]> {
  const placed: Placed[] = []
  for (const { k, n, reference, provider, providerId } of await listInDoubt(
    app.db,
    subscription.subscriptionId,
  )) {
    const adapter = app.providers.all.find(({ name }) => name === provider)
    const lookup = await adapter?.findPayment(reference, providerId)
    if (lookup?.kind === 'unknown' || lookup?.kind === 'credentials_refused')
      throw new BookUnreadable(
        `The provider "${provider}" cannot be asked about ${reference} just now; run it again.`,
      )
    if (lookup?.kind !== 'found' || !isOf(subscription, lookup.payment)) continue
    if (isDecided(lookup.payment)) placed.push({ k, n, payment: { ...lookup.payment, provider } })
  }
  return placed
}

function isDecided({ status }: ProviderPayment): boolean {
  return status !== 'pending'
}

/** Another amount than the terms say is for a person to look at. */
function isOf({ price }: Subscription, { amount }: ProviderPayment): boolean {
  return amount.minor === price.minor && amount.currency === price.currency
}

type Role = {
  /** What came of the invoice, the last attempt decides. */
  readonly isLast: boolean
  /** There is no attempt after one that paid, unless it had been given up: its money came later and pays for nothing. */
  readonly cameLater: boolean
}

function roleOf({ k, n }: Placed, found: readonly Placed[]): Role {
  const after = found.filter((one) => one.k === k && one.n > n)
  return { isLast: after.length === 0, cameLater: after.some(({ payment }) => payment.status === 'paid') }
}

/** A failure that decides what comes of its invoice, and that is not recorded yet. */
type FailedLast = {
  readonly kind: 'failed_last'
  readonly paymentId: string
  readonly outcome: Extract<PaymentOutcome, { kind: 'failed' }>
  readonly payment: Forgotten
}

type Adopted = { readonly kind: 'no_place' | 'settled' } | FailedLast

/** Opens the period and the attempt, as of the time at which the money was asked for, and records what became of it. */
async function adopt(
  app: BillingApp,
  subscriptionId: string,
  { k, n, payment }: Placed,
  { isLast, cameLater }: Role,
): Promise<Adopted> {
  const at = payment.at
  return app.db.transaction().execute(async (tx) => {
    const subscription = await lockSubscription(tx, subscriptionId)
    if (!subscription) return { kind: 'no_place' }
    const method = await methodOf(tx, app.clock(), subscription, payment.provider)
    for (let next = subscription.lastK + 1; next <= k; next++)
      await openPeriod(tx, at, { subscription, k: next, held: next < k, method }, app.terms)

    const place = { subscriptionId, k, n }
    const paymentId = await openAttemptNumber(tx, at, place, method, sendingLeaseMs(app.terms))
    if (paymentId === undefined) return { kind: 'no_place' }
    const outcome = outcomeOfPayment(payment, { reference: payment.reference, amount: subscription.price })
    // What is about to end is not dunned: its cancellation closes the invoice.
    const isEnding = subscription.status === 'canceling' || subscription.status === 'canceled'
    if (outcome.kind === 'failed') {
      if (isLast && !isEnding) return { kind: 'failed_last', paymentId, outcome, payment }
      await failInPassing(tx, at, paymentId, outcome)
    } else if (outcome.kind === 'paid') {
      if (cameLater) await failInPassing(tx, at, paymentId, { code: 'never_arrived' })
      await settleDecided(tx, at, [{ paymentId, outcome }], app.terms.dunningDays)
      await reopenDays(tx, at)
    }
    return { kind: 'settled' }
  })
}

/** The payment method it has; without one, a place for the one that was lost. The payment was made where it was found. */
async function methodOf(
  tx: BillingTx,
  now: Date,
  subscription: Subscription,
  provider: string,
): Promise<MethodInUse> {
  const { subscriptionId, accountId, methodId } = subscription
  if (methodId !== null) return { methodId, provider, sealed: null, exchanged: true }
  const made = newId('pm_', now)
  await insertLostMethod(tx, { methodId: made, accountId, subscriptionId, provider }, now)
  await setPaymentMethod(tx, subscriptionId, made)
  const what = 'It was paid for after the backup with a payment method that is lost.'
  await raiseLostInRestore(tx, subscriptionId, what, now)
  return { methodId: made, provider, sealed: null, exchanged: true }
}

async function openPeriod(
  tx: BillingTx,
  at: Date,
  {
    subscription,
    k,
    held,
    method,
  }: { subscription: Subscription; k: number; held: boolean; method: MethodInUse },
  terms: BillingTerms,
): Promise<void> {
  const { subscriptionId, accountId, anchor, timeZone, interval } = subscription
  const due = { k, period: period(anchor, timeZone, interval, k), held }
  await openPeriods(tx, at, [{ subscription, due, method }], terms, [])
  if (held)
    await insertEvents(tx, at, [
      { type: 'invoice.held', accountId, subscriptionId, data: { period: k, hold: 'missed' } },
    ])
  await moveToPeriod(tx, subscriptionId, k, due.period)
}

/** The n-th attempt on the period's invoice. Those before it that left no trace at the provider never arrived. */
async function openAttemptNumber(
  tx: BillingTx,
  at: Date,
  { subscriptionId, k, n }: { subscriptionId: string; k: number; n: number },
  method: MethodInUse,
  leaseMs: number,
): Promise<string | undefined> {
  const open = await findOpenInvoice(tx, subscriptionId, k)
  if (!open) return undefined
  let { paymentId } = open
  for (let { attempt } = open; attempt < n; attempt++) {
    if (paymentId !== null) await failInPassing(tx, at, paymentId, { code: 'never_arrived' })
    paymentId = (await openAttempt(tx, at, open.invoiceId, method, leaseMs))?.paymentId ?? null
    if (paymentId === null) return undefined
  }
  return paymentId ?? undefined
}

/** A failure that another attempt followed: dunning, or the operator whose invoice it is, went on from that one. */
async function failInPassing(
  tx: BillingTx,
  at: Date,
  paymentId: string,
  failure: AttemptFailure,
): Promise<void> {
  const [locked] = await readLockedPayments(tx, [paymentId])
  await endDoubts(tx, [locked!])
  await insertEvents(tx, at, await failAttempt(tx, at, locked!, failure))
  await noteFailedInvoice(tx, locked!.invoiceId, at)
}

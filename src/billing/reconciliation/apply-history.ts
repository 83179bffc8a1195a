import { compareTexts } from '../../platform/compare-texts.ts'
import { lockAccount } from '../accounts/account-rows.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import type { HistoryLine } from '../audit/export-history.ts'
import { insertEvents } from '../events/event-rows.ts'
import { stopDunning } from '../invoices/dunning-rows.ts'
import { eraseTraces } from '../lifecycle/erase-account.ts'
import { raiseLostInRestore } from '../payments/lost-in-restore-alarm.ts'
import { dropMethod } from '../payments/payment-method-rows.ts'
import { noteCancellation, takeBackCancellation } from '../subscriptions/cancellation-rows.ts'
import { lockSubscription, lockSubscriptions, setTerms } from '../subscriptions/subscription-rows.ts'
import { insertTrialGrant } from '../subscriptions/trial-grant-rows.ts'
import {
  insertApplied,
  listKnownLines,
  listOffersOfOtherPlans,
  markMethodLost,
  replaceTokenAgain,
  revokeTokenAgain,
} from './applied-history-rows.ts'
import { type Failed, isolate } from './isolate.ts'

export type AppliedHistory = {
  readonly cancellations: number
  readonly resumptions: number
  readonly erasures: number
  readonly trials: number
  /** Those that were revoked, or that end because another took their place. */
  readonly tokens: number
  /** Subscriptions whose payment method was changed after the backup: the old one is not charged, and the new one is lost. */
  readonly lostMethods: readonly string[]
  /** Subscriptions that began after the backup; what was taken for them is found by adopting, and stays unplaced. */
  readonly lost: readonly { subscription: string; account: string }[]
  /** Subscriptions and single facts that could not be applied; the same file brings them back once they are put right. */
  readonly failed: readonly Failed[]
}

/**
 * Brings back what a restored database has forgotten, as an exported history tells it. What it already knows is left alone,
 * and applying a file twice is applying it once. Invoices are not touched: what was paid is for `adoptPayments` to find.
 */
export async function applyHistory(
  app: BillingApp,
  lines: readonly HistoryLine[],
  actor: Actor,
  onProgress: (done: number) => void = () => {},
): Promise<AppliedHistory> {
  // Instants are written in one form and in UTC, so their text sorts as they do.
  const inOrder = [...lines].sort((a, b) => compareTexts(a.at, b.at) || compareTexts(a.key, b.key))
  const forgotten = await listForgotten(app, inOrder)
  const done = { cancellations: 0, resumptions: 0, erasures: 0, trials: 0, tokens: 0 }
  const lostMethods: string[] = []
  const lost: { subscription: string; account: string }[] = []
  const failed: Failed[] = []
  let count = 0
  for (const about of groupBySubject(forgotten)) {
    const [first] = about.lines as [HistoryLine]
    const subject = about.subscription ?? first.key
    const applyOne = async () => {
      const outcome = await applyTo(app, about, actor)
      for (const name of Object.keys(done) as (keyof typeof done)[]) if (outcome[name]) done[name]++
      if (outcome.methodLost) lostMethods.push(subject)
      if (outcome.lost) lost.push({ subscription: subject, account: first.account! })
    }
    await isolate(app, subject, applyOne, (reason) =>
      failed.push({ subject, account: first.account ?? null, reason }),
    )
    count += about.lines.length
    onProgress(count)
  }
  return { ...done, lostMethods, lost, failed }
}

/** Events that stand in the database happened before the backup. */
async function listForgotten(app: BillingApp, lines: readonly HistoryLine[]): Promise<HistoryLine[]> {
  const forgotten: HistoryLine[] = []
  for (let at = 0; at < lines.length; at += 2_000) {
    const some = lines.slice(at, at + 2_000)
    const known = await listKnownLines(
      app.db,
      some.map(({ key }) => key),
    )
    forgotten.push(...some.filter(({ key }) => !known.has(key)))
  }
  return forgotten
}

type About = { readonly subscription: string | undefined; readonly lines: HistoryLine[] }

/** What concerns one subscription, in the order in which it happened; the rest one by one. */
function groupBySubject(lines: readonly HistoryLine[]): About[] {
  const groups = new Map<string, About>()
  for (const line of lines) {
    const ofSubscription = line.subscription !== undefined && line.kind !== 'trial.granted'
    const subject = ofSubscription ? line.subscription! : line.key
    const group = groups.get(subject)
    if (group) group.lines.push(line)
    else groups.set(subject, { subscription: ofSubscription ? subject : undefined, lines: [line] })
  }
  return [...groups.values()]
}

type Outcome = Partial<
  Record<'cancellations' | 'resumptions' | 'erasures' | 'trials' | 'tokens' | 'methodLost' | 'lost', boolean>
>

async function applyTo(app: BillingApp, { subscription, lines }: About, actor: Actor): Promise<Outcome> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    const outcome =
      subscription === undefined
        ? await applyAlone(tx, now, lines[0]!, actor)
        : await applyToSubscription(tx, now, subscription, lines, actor)
    await insertApplied(
      tx,
      lines.map(({ key }) => key),
      now,
    )
    return outcome
  })
}

async function applyAlone(tx: BillingTx, now: Date, line: HistoryLine, actor: Actor): Promise<Outcome> {
  const at = new Date(line.at)
  if (line.kind === 'trial.granted') {
    const [accountId, subscriptionId, planId] = [line.account!, line.subscription!, line.plan!]
    return { trials: await insertTrialGrant(tx, { accountId, subscriptionId, planId, grantedAt: at }) }
  }
  if (line.kind === 'token.revoked') return { tokens: await revokeTokenAgain(tx, line.token!, at) }
  if (line.kind === 'token.replaced')
    return { tokens: await replaceTokenAgain(tx, line.token!, { by: line.replaced_by!, until: at }) }
  if (line.kind !== 'account.erased') return {}
  const accountId = line.account!
  // Subscriptions before the account, as everywhere.
  await lockSubscriptions(tx, accountId)
  if (!(await lockAccount(tx, accountId))) return {}
  await eraseTraces(tx, accountId, at)
  await insertAudit(tx, { at: now, actor, action: 'restore.erase', accountId, target: accountId })
  await insertEvents(tx, now, [{ type: 'account.erased', accountId, subscriptionId: null }])
  return { erasures: true }
}

async function applyToSubscription(
  tx: BillingTx,
  now: Date,
  subscriptionId: string,
  lines: readonly HistoryLine[],
  actor: Actor,
): Promise<Outcome> {
  const subscription = await lockSubscription(tx, subscriptionId)
  if (!subscription) return { lost: true }
  const { accountId, status } = subscription
  const audit = (action: string) =>
    insertAudit(tx, { at: now, actor, action, accountId, target: subscriptionId })
  const change = lines.findLast(({ kind }) => kind === 'payment_method.changed')
  // One that the backup had as offered may be in use by now.
  const methodLost =
    change !== undefined && (change.method === undefined || change.method !== subscription.methodId)
  if (methodLost) await loseMethod(tx, now, subscriptionId, subscription.methodId)
  const terms = lines.findLast((line) => line.terms)?.terms
  // A trial that has not been billed yet; whoever pays, pays by the terms they agreed on.
  if (terms && subscription.lastK < 0) await setTerms(tx, subscriptionId, terms)
  if (change) await dropOffers(tx, subscriptionId, terms?.plan_id ?? subscription.planId, now)

  const last = lines.findLast(
    ({ kind }) => kind.startsWith('subscription.') && kind !== 'subscription.created',
  )
  if (!last || status === 'canceled') return { methodLost }
  if (last.kind === 'subscription.resumed') {
    if (status !== 'canceling') return { methodLost }
    await takeBackCancellation(tx, subscription)
    await audit('restore.resume')
    await insertEvents(tx, now, [{ type: 'subscription.resumed', accountId, subscriptionId }])
    return { methodLost, resumptions: true }
  }
  // It ends by the sweep once charging resumes, after what was paid in the meantime has been adopted.
  const endsAt = last.ends_at ?? last.at
  const code = last.kind === 'subscription.canceled' ? (last.reason ?? 'requested') : 'requested'
  await noteCancellation(tx, subscriptionId, { code, cancelAt: new Date(endsAt) })
  await stopDunning(tx, subscriptionId)
  await audit('restore.cancel')
  if (status !== 'canceling')
    await insertEvents(tx, now, [
      { type: 'subscription.canceling', accountId, subscriptionId, data: { cancel_at: endsAt } },
    ])
  return { methodLost, cancellations: true }
}

/** What the backup has still pending with another plan is not what the customer chose in the end. */
async function dropOffers(tx: BillingTx, subscriptionId: string, planId: string, now: Date): Promise<void> {
  for (const methodId of await listOffersOfOtherPlans(tx, subscriptionId, planId))
    await dropMethod(tx, methodId, 'subscription_exists', now)
}

/** The customer replaced this one, so it is not charged any more; the new one was sealed in the lost database. */
async function loseMethod(
  tx: BillingTx,
  now: Date,
  subscriptionId: string,
  methodId: string | null,
): Promise<void> {
  if (methodId !== null) await markMethodLost(tx, methodId)
  await raiseLostInRestore(
    tx,
    subscriptionId,
    'Its payment method was changed after the backup and is lost.',
    now,
  )
}

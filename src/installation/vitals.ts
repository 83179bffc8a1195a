import type { App } from '../app.ts'
import { readSourceVitals } from '../batch/tracking/source-vital-rows.ts'
import { overdueSeconds } from '../billing/due.ts'
import { measureUnmatched } from '../billing/refunds/unmatched-rows.ts'
import { readVitals } from '../billing/summary/vitals-rows.ts'
import { countSweepFailures } from '../billing/sweeps/sweep-failure-rows.ts'
import { countAlarms } from '../platform/alarm.ts'
import { openDb } from '../platform/database/db.ts'
import { queueVitals } from '../platform/queue/queue.ts'

const underWay = new WeakMap<App, Promise<void>>()

/** Brings the numbers that live in the database up to date. Many who ask at once cost one look. */
export function measure(app: App): Promise<void> {
  const known = underWay.get(app)
  if (known) return known
  const looking = look(app).finally(() => underWay.delete(app))
  underWay.set(app, looking)
  return looking
}

async function look(app: App): Promise<void> {
  const { metrics, pool } = app
  metrics.pool.set({ state: 'open' }, pool.totalCount)
  metrics.pool.set({ state: 'idle' }, pool.idleCount)
  metrics.pool.set({ state: 'waited_for' }, pool.waitingCount)
  if (app.replica) {
    metrics.replica.reset()
    metrics.replica.set({ state: app.replica.state() }, 1)
    metrics.replicaLag.set(app.replica.lagMs() / 1000)
  }
  try {
    await lookAtQueue(app)
    await lookAtBilling(app)
    await lookAtSources(app)
    metrics.databaseReached.set(1)
  } catch {
    // The other numbers matter most just when the database is away.
    metrics.databaseReached.set(0)
  }
}

async function lookAtQueue({ metrics, pool }: App): Promise<void> {
  const queue = await queueVitals(openDb(pool))
  metrics.waitingJobs.set(queue.waiting)
  metrics.deadJobs.set(queue.dead)
  metrics.oldestJob.set(queue.oldestSeconds)
  metrics.workers.set(queue.workers)
}

async function lookAtSources({ metrics, batch }: App): Promise<void> {
  const gauges = [metrics.sourceCalls, metrics.sourceAnswers, metrics.sourceState, metrics.sourceNextCheck]
  for (const gauge of gauges) gauge.reset()
  for (const vitals of await readSourceVitals(batch)) {
    const { source } = vitals
    metrics.sourceCalls.set({ source, kind: 'spent' }, vitals.spentToday)
    metrics.sourceCalls.set({ source, kind: 'lost' }, vitals.lostToday)
    metrics.sourceCalls.set({ source, kind: 'budget' }, vitals.budgetPerDay)
    metrics.sourceAnswers.set({ source, outcome: 'good' }, vitals.recentGood)
    metrics.sourceAnswers.set({ source, outcome: 'failed' }, vitals.recentFailed)
    metrics.sourceState.set({ source, state: vitals.state }, 1)
    if (vitals.nextCheckSeconds !== null) metrics.sourceNextCheck.set({ source }, vitals.nextCheckSeconds)
  }
}

async function lookAtBilling({ metrics, billing }: App): Promise<void> {
  for (const [kind, seconds] of Object.entries(await overdueSeconds(billing)))
    metrics.overdue.set({ kind }, seconds)
  const vitals = await readVitals(billing.db, billing.clock())
  metrics.unknownPayments.set(vitals.unknownPayments)
  metrics.unknownPaymentAge.set(vitals.unknownPaymentAge)
  metrics.unknownRefunds.set(vitals.unknownRefunds)
  metrics.unknownRefundAge.set(vitals.unknownRefundAge)
  metrics.webhooks.set({ state: 'waiting' }, vitals.webhooksWaiting)
  metrics.webhooks.set({ state: 'failed' }, vitals.webhooksFailed)
  metrics.webhookLag.set(vitals.webhookLag)
  metrics.chargingStopped.set(vitals.chargingStopped ? 1 : 0)
  // What was there before and is gone now must not go on being told.
  metrics.unmatchedPayments.reset()
  metrics.unmatchedAmount.reset()
  for (const { currency, payments, amount } of vitals.unmatched) {
    metrics.unmatchedPayments.set({ currency }, payments)
    metrics.unmatchedAmount.set({ currency }, Number(amount))
  }
  const stuck = await measureUnmatched(billing.db, billing.clock())
  for (const [reason, count] of Object.entries(stuck.counts)) metrics.unmatchedMoney.set({ reason }, count)
  metrics.unmatchedMoneyAge.set(stuck.oldestSeconds)
  metrics.sweepFailures.reset()
  for (const [sweep, count] of Object.entries(await countSweepFailures(billing.db)))
    metrics.sweepFailures.set({ sweep }, count)
  metrics.alarms.reset()
  for (const [kind, count] of Object.entries(await countAlarms(billing.db)))
    metrics.alarms.set({ kind }, count)
}

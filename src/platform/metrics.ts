import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/** The numbers an operator watches. One registry per process; names are stable, because dashboards depend on them. */
export type Metrics = ReturnType<typeof openMetrics>

export function openMetrics() {
  const registry = new Registry()
  const registers = [registry]
  return {
    registry,
    answers: new Counter({
      name: 'rankledger_http_answers_total',
      help: 'Answers by route pattern and status',
      labelNames: ['route', 'status'] as const,
      registers,
    }),
    answerSeconds: new Histogram({
      name: 'rankledger_http_answer_seconds',
      help: 'Time to answer by route pattern',
      labelNames: ['route'] as const,
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15],
      registers,
    }),
    jobs: new Counter({
      name: 'rankledger_jobs_total',
      help: 'Jobs by name and outcome (done, failed, dead)',
      labelNames: ['job', 'outcome'] as const,
      registers,
    }),
    deadJobs: new Gauge({ name: 'rankledger_jobs_dead', help: 'Jobs that ran out of attempts', registers }),
    waitingJobs: new Gauge({
      name: 'rankledger_jobs_waiting',
      help: 'Jobs that wait for a worker',
      registers,
    }),
    databaseRestarts: new Counter({
      name: 'rankledger_embedded_restarts_total',
      help: 'Times the embedded PostgreSQL died and was started again',
      registers,
    }),
    providerCircuit: new Gauge({
      name: 'rankledger_provider_circuit',
      help: 'The circuit to the payment provider: 0 closed, 1 half open, 2 open',
      labelNames: ['provider'] as const,
      registers,
    }),
    providerCalls: new Gauge({
      name: 'rankledger_provider_calls',
      help: 'Calls to the payment provider, in flight and waiting for a place',
      labelNames: ['provider', 'state'] as const,
      registers,
    }),
    alarms: new Gauge({
      name: 'rankledger_alarms',
      help: 'Alarms that wait for a person, by kind; alert above 0',
      labelNames: ['kind'] as const,
      registers,
    }),
    sweepFailures: new Gauge({
      name: 'rankledger_sweep_failures',
      help: 'Rows that a sweep cannot work on, by sweep; alert above 0',
      labelNames: ['sweep'] as const,
      registers,
    }),
    oldestJob: new Gauge({
      name: 'rankledger_jobs_oldest_seconds',
      help: 'How long the oldest job that could run has waited',
      registers,
    }),
    workers: new Gauge({
      name: 'rankledger_workers_live',
      help: 'Workers whose heart beat within the last 10 seconds',
      registers,
    }),
    sweepRoundsFailed: new Counter({
      name: 'rankledger_sweep_rounds_failed_total',
      help: 'Rounds of a sweep that failed; the next round tries again',
      labelNames: ['sweep'] as const,
      registers,
    }),
    providerAnswers: new Counter({
      name: 'rankledger_provider_answers_total',
      help: 'Calls to the payment provider by what came of them',
      labelNames: ['provider', 'call', 'outcome'] as const,
      registers,
    }),
    providerSeconds: new Histogram({
      name: 'rankledger_provider_seconds',
      help: 'Time the payment provider took to answer',
      labelNames: ['provider', 'call'] as const,
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    }),
    unknownPayments: new Gauge({
      name: 'rankledger_payments_unknown',
      help: 'Charges that got no clear answer so far',
      registers,
    }),
    unknownPaymentAge: new Gauge({
      name: 'rankledger_payments_unknown_age_seconds',
      help: 'Age of the oldest charge without a clear answer',
      registers,
    }),
    unknownRefunds: new Gauge({
      name: 'rankledger_refunds_unknown',
      help: 'Refunds that got no clear answer so far',
      registers,
    }),
    unknownRefundAge: new Gauge({
      name: 'rankledger_refunds_unknown_age_seconds',
      help: 'Age of the oldest refund without a clear answer',
      registers,
    }),
    webhooks: new Gauge({
      name: 'rankledger_webhooks',
      help: 'Stored notifications that had no effect so far, by state',
      labelNames: ['state'] as const,
      registers,
    }),
    webhookLag: new Gauge({
      name: 'rankledger_webhook_lag_seconds',
      help: 'Age of the oldest notification that waits',
      registers,
    }),
    chargingStopped: new Gauge({
      name: 'rankledger_charging_stopped',
      help: '1 while charging is stopped, at one provider or at all, until an operator has looked',
      registers,
    }),
    sourceCalls: new Gauge({
      name: 'rankledger_source_calls_today',
      help: 'Paid calls to a source today: spent, lost of those to a crash, and the budget',
      labelNames: ['source', 'kind'] as const,
      registers,
    }),
    sourceAnswers: new Gauge({
      name: 'rankledger_source_recent_answers',
      help: 'What came of the latest calls to a source, by which its breaker judges',
      labelNames: ['source', 'outcome'] as const,
      registers,
    }),
    sourceState: new Gauge({
      name: 'rankledger_source_state',
      help: '1 for the state that a source is in: ready, resting or refused',
      labelNames: ['source', 'state'] as const,
      registers,
    }),
    sourceNextCheck: new Gauge({
      name: 'rankledger_source_next_check_seconds',
      help: 'Until the next check at a source; below zero: it is overdue',
      labelNames: ['source'] as const,
      registers,
    }),
    unmatchedPayments: new Gauge({
      name: 'rankledger_unmatched_payments',
      help: 'Payments that pay for nothing and are not given back in full',
      labelNames: ['currency'] as const,
      registers,
    }),
    unmatchedAmount: new Gauge({
      name: 'rankledger_unmatched_amount',
      help: 'What of them is still to be given back, in minor units',
      labelNames: ['currency'] as const,
      registers,
    }),
    pool: new Gauge({
      name: 'rankledger_pool_connections',
      help: 'Database connections of this process: open, idle, and requests that wait for one',
      labelNames: ['state'] as const,
      registers,
    }),
    databaseReached: new Gauge({
      name: 'rankledger_database_reached',
      help: '1 if the last look at the database succeeded',
      registers,
    }),
    lagReads: new Counter({
      name: 'rankledger_reads_that_may_lag_total',
      help: 'Requests that may read the replica, by what answered: replica, or why the primary did',
      labelNames: ['source'] as const,
      registers,
    }),
    replica: new Gauge({
      name: 'rankledger_replica',
      help: '1 for the state that the replica of DATABASE_URL_READ is in; only `ready` is read',
      labelNames: ['state'] as const,
      registers,
    }),
    replicaLag: new Gauge({
      name: 'rankledger_replica_lag_seconds',
      help: 'How far the replica is behind the primary; 0 without one',
      registers,
    }),
    build: new Gauge({
      name: 'rankledger_build_info',
      help: 'Always 1; the labels tell what runs',
      labelNames: ['version', 'node'] as const,
      registers,
    }),
    unmatchedMoney: new Gauge({
      name: 'rankledger_unmatched_money',
      help: 'Payments whose money pays for nothing and did not go back, by reason; alert above 0',
      labelNames: ['reason'] as const,
      registers,
    }),
    unmatchedMoneyAge: new Gauge({
      name: 'rankledger_unmatched_money_oldest_seconds',
      help: 'Age of the oldest money that pays for nothing and did not go back',
      registers,
    }),
    overdue: new Gauge({
      name: 'rankledger_overdue_seconds',
      help: 'Age of the oldest work that is due and not done, by kind; alert above 900',
      labelNames: ['kind'] as const,
      registers,
    }),
  }
}

/** Adds what concerns the process itself: memory, event loop, garbage, file handles. For processes that live long. */
export function watchProcess(metrics: Metrics, version: string): void {
  metrics.build.set({ version, node: process.version }, 1)
  collectDefaultMetrics({ register: metrics.registry })
}

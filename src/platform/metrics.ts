import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/**
 * The numbers an operator watches. One registry per process, to which each area adds its own; names are stable, because
 * dashboards depend on them.
 */
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
    alarms: new Gauge({
      name: 'rankledger_alarms',
      help: 'Alarms that wait for a person, by kind; alert above 0',
      labelNames: ['kind'] as const,
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
      help: 'Rounds of a sweep that failed as a whole; the next round tries again',
      labelNames: ['sweep'] as const,
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
  }
}

/** Adds what concerns the process itself: memory, event loop, garbage, file handles. For processes that live long. */
export function watchProcess(metrics: Metrics, version: string): void {
  metrics.build.set({ version, node: process.version }, 1)
  collectDefaultMetrics({ register: metrics.registry })
}

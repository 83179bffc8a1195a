import { Counter, Gauge, Histogram, Registry } from 'prom-client'

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
      registers,
    }),
    providerCalls: new Gauge({
      name: 'rankledger_provider_calls',
      help: 'Calls to the payment provider, in flight and waiting for a place',
      labelNames: ['state'] as const,
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
    overdue: new Gauge({
      name: 'rankledger_overdue_seconds',
      help: 'Age of the oldest work that is due and not done, by kind; alert above 900',
      labelNames: ['kind'] as const,
      registers,
    }),
  }
}

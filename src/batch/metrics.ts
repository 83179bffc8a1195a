import { Gauge, type Registry } from 'prom-client'

/** What an operator watches of batch: the sources of ranks and volumes. */
export function openBatchMetrics(registry: Registry) {
  const registers = [registry]
  return {
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
  }
}

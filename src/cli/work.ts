import { openOperationsServer } from '../installation/operations-server.ts'
import { openReadiness } from '../platform/http/readiness.ts'
import { watchProcess } from '../platform/metrics.ts'
import { release } from '../platform/release.ts'
import { endOf, endWithin, mostAfterCallsMs } from '../platform/shutdown.ts'
import { startUpkeep, startWorker } from '../worker.ts'
import { type Command, parseOnlyFlags } from './command.ts'
import { runService } from './run-service.ts'

export const work: Command = {
  summary: 'Work jobs without answering the API',
  usage: `rankledger work [--charging-stopped] [--json]

Runs until SIGINT or SIGTERM, then finishes the jobs in hand. What it says is lines of JSON, with --json or without. Run as many as you like against one database. With
METRICS_PORT set, /healthz, /readyz and /metrics answer there.
--charging-stopped (or CHARGING=stopped) stops charging before anything else, as for a restored database.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, {
      'charging-stopped': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    })
    const chargingStopped = values['charging-stopped']
    return runService(
      { name: 'work', chargingStopped },
      async ({ app, startedAt, stopSignal, onFailure }) => {
        const readiness = openReadiness()
        const operations = await openOperationsServer(app, readiness)
        onFailure(() => operations?.close())
        watchProcess(app.metrics, release)
        const upkeep = startUpkeep(app)
        onFailure(() => upkeep.stop())
        const worker = startWorker(app)
        onFailure(() => worker.stop())
        readiness.open()
        app.log.info('service.started', {
          mode: app.config.mode,
          ...(operations && { port: operations.port }),
          worker: true,
          ms: Math.round(performance.now() - startedAt),
        })
        const signal = await stopSignal
        const stoppingAt = performance.now()
        app.log.info('service.stopping', { signal })
        const left = endWithin(app.config.provider.timeoutMs + mostAfterCallsMs)
        app.providerGuard.shut()
        await endOf([worker.stop(), upkeep.stop(), app.providerGuard.idle()], left())
        await operations?.close()
        app.log.info('service.stopped', { ms: Math.round(performance.now() - stoppingAt) })
        return 0
      },
    )
  },
}

import { loadConfig } from '../config.ts'
import { openOperationsServer } from '../installation/operations-server.ts'
import { openReadiness } from '../platform/http/readiness.ts'
import { watchProcess } from '../platform/metrics.ts'
import { release } from '../platform/release.ts'
import { endOf, endWithin, mostAfterCallsMs, untilAskedToStop } from '../platform/shutdown.ts'
import { startUpkeep, startWorker } from '../worker.ts'
import { type Command, parseOnlyFlags, underGuard } from './command.ts'
import { openUnlessStopped } from './open-unless-stopped.ts'
import { stopIfAsked } from './stop-if-asked.ts'

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
    const startedAt = performance.now()
    const config = loadConfig()
    const stopSignal = untilAskedToStop()
    return underGuard(config, {}, async () => {
      const app = await openUnlessStopped(
        config,
        { name: 'work', role: 'service', keepAlive: true },
        stopSignal,
      )
      if (!app) return 0
      try {
        await stopIfAsked(app, values['charging-stopped'])
        const readiness = openReadiness()
        const operations = await openOperationsServer(app, readiness)
        watchProcess(app.metrics, release)
        const [upkeep, worker] = [startUpkeep(app), startWorker(app)]
        readiness.open()
        app.log.info('service.started', {
          mode: config.mode,
          ...(operations && { port: operations.port }),
          worker: true,
          ms: Math.round(performance.now() - startedAt),
        })
        const signal = await stopSignal
        const stoppingAt = performance.now()
        app.log.info('service.stopping', { signal })
        const left = endWithin(config.provider.timeoutMs + mostAfterCallsMs)
        app.providerGuard.shut()
        await endOf([worker.stop(), upkeep.stop(), app.providerGuard.idle()], left())
        await operations?.close()
        app.log.info('service.stopped', { ms: Math.round(performance.now() - stoppingAt) })
        return 0
      } finally {
        await app.close()
      }
    })
  },
}

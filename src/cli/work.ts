import { openLog } from '../app.ts'
import { loadConfig } from '../config.ts'
import { guardProcessOutput } from '../platform/log/guard-process-output.ts'
import { untilAskedToStop } from '../platform/shutdown.ts'
import { startUpkeep, startWorker } from '../worker.ts'
import { type Command, parseFlags } from './command.ts'
import { openUnlessStopped } from './open-unless-stopped.ts'

export const work: Command = {
  summary: 'Work jobs without answering the API',
  usage: `rankledger work

Runs until SIGINT or SIGTERM, then finishes the jobs in hand. Run as many as you like against one database.`,

  async run(args) {
    parseFlags(args, {})
    const startedAt = performance.now()
    const config = loadConfig()
    const stopSignal = untilAskedToStop()
    const guard = guardProcessOutput(openLog(config).log)
    try {
      const app = await openUnlessStopped(config, { name: 'work', keepAlive: true }, stopSignal)
      if (!app) return 0
      try {
        const workers = [startUpkeep(app), startWorker(app)]
        app.log.info('service.started', {
          mode: config.mode,
          worker: true,
          ms: Math.round(performance.now() - startedAt),
        })
        const signal = await stopSignal
        app.log.info('service.stopping', { signal })
        await Promise.all(workers.map((worker) => worker.stop()))
        return 0
      } finally {
        await app.close()
      }
    } finally {
      guard.uninstall()
    }
  },
}

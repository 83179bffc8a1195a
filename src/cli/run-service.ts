import { setTimeout as sleep } from 'node:timers/promises'
import { type App, type AppOptions, openApp } from '../app.ts'
import { stopCharging } from '../billing/charging-stop.ts'
import { type Config, loadConfig } from '../config.ts'
import { endOf, endWithin, mostAfterCallsMs, untilAskedToStop } from '../platform/shutdown.ts'
import { underGuard } from './command.ts'

export type Service = {
  readonly app: App
  /** By the clock of this process. */
  readonly startedAt: number
  /** The signal that asks it to stop. */
  readonly stopSignal: Promise<string>
  /** Says how to close what was opened, should the work fail later: whatever listens or works on keeps a process alive. */
  onFailure(close: () => Promise<unknown> | undefined): void
}

/**
 * Runs a long-lived process until its work is done: opens the app, stops charging if that is asked for, and closes after;
 * if the work fails, what that has opened as well.
 */
export function runService(
  { name, chargingStopped }: { name: 'serve' | 'work'; chargingStopped: boolean },
  work: (service: Service) => Promise<number>,
): Promise<number> {
  const startedAt = performance.now()
  const config = loadConfig()
  const stopSignal = untilAskedToStop()
  return underGuard(config, {}, async () => {
    const options: AppOptions = {
      name,
      role: 'service',
      keepAlive: true,
      takesSandboxPort: name === 'serve',
    }
    const app = await openUnlessStopped(config, options, stopSignal)
    if (!app) return 0
    const opened: (() => Promise<unknown> | undefined)[] = []
    const onFailure: Service['onFailure'] = (close) => void opened.push(close)
    try {
      await stopIfAsked(app, chargingStopped)
      return await work({ app, startedAt, stopSignal, onFailure })
    } catch (error) {
      const left = endWithin(app.config.provider.timeoutMs + mostAfterCallsMs, 1)
      app.providerGuard.shut()
      await endOf([...opened.map((close) => close()), app.providerGuard.idle()], left())
      throw error
    } finally {
      await app.close()
    }
  })
}

/**
 * Opens the app of a long-lived process. Asked to stop meanwhile, it closes what it has and gives back nothing; a start
 * that hangs on a silent database is not waited for.
 */
async function openUnlessStopped(
  config: Config,
  options: AppOptions,
  stopSignal: Promise<string>,
): Promise<App | undefined> {
  const opening = openApp(config, options)
  opening.catch(() => {})
  const stopped = stopSignal.then(() => undefined)
  const app = await Promise.race([opening, stopped])
  if (app) return app
  // A database of our own comes up within moments and must not be left running; a foreign one owes us nothing.
  const patienceMs = config.databaseUrl ? 500 : 30_000
  const late = await Promise.race([opening.catch(() => undefined), sleep(patienceMs, undefined)])
  await late?.close()
  if (!late) setTimeout(() => process.exit(0), 50).unref()
  return undefined
}

/** Stops charging before the first sweep, for a database that has just been restored. */
async function stopIfAsked({ billing, config }: App, byFlag: boolean): Promise<void> {
  if (!byFlag && config.charging !== 'stopped') return
  await stopCharging(billing.db, 'started_stopped', billing.clock(), { stopsCalendar: true })
}

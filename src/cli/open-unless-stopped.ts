import { setTimeout as sleep } from 'node:timers/promises'
import { type App, openApp } from '../app.ts'
import type { Config } from '../config.ts'

/**
 * Opens the app of a long-lived process. Asked to stop meanwhile, it closes what it has and gives back nothing; a start
 * that hangs on a silent database is not waited for.
 */
export async function openUnlessStopped(
  config: Config,
  options: Parameters<typeof openApp>[1],
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

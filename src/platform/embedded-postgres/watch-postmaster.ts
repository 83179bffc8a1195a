import type { Postmaster } from './postmaster.ts'
import { isAlive } from './process-mark.ts'
import { boundServerLog } from './server-log.ts'

type Watch = {
  readonly dataDir: string
  /** Brings the postmaster back, or joins the one another process has started. `onStart` is called if it starts one. */
  readonly restart: (onStart: () => void) => Promise<Postmaster>
  readonly onRestart: (attempt: number) => void
  readonly warn: (sentence: string) => void
}

/** Restarts the postmaster whenever it dies, until told to stop, and keeps the server log bounded meanwhile. */
export function watchPostmaster(first: Postmaster, watch: Watch): { stop(): Promise<void> } {
  let postmaster = first
  let attempt = 0
  let logBoundedAt = Date.now()
  let stopped = false
  let timer: NodeJS.Timeout | undefined
  let look = Promise.resolve()

  const lookOnce = async () => {
    if (!(await isAlive(postmaster.process))) {
      attempt += 1
      postmaster = await watch.restart(() => watch.onRestart(attempt))
      attempt = 0
    }
    if (Date.now() - logBoundedAt < boundLogEveryMs) return
    logBoundedAt = Date.now()
    await boundServerLog(watch.dataDir)
  }
  const lookIn = (ms: number) => {
    if (stopped) return
    timer = setTimeout(() => {
      look = lookOnce().then(
        () => lookIn(lookEveryMs),
        (error: Error) => {
          watch.warn(error.message)
          lookIn(retryAfterMs)
        },
      )
    }, ms)
    // Watching alone is no reason for the process to go on.
    timer.unref()
  }
  lookIn(lookEveryMs)

  return {
    async stop() {
      stopped = true
      clearTimeout(timer)
      await look
    },
  }
}

const lookEveryMs = 200
const retryAfterMs = 2_000
const boundLogEveryMs = 10_000

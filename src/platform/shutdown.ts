import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Waits for the first SIGINT or SIGTERM. A signal to a process group arrives twice within a millisecond (from the
 * terminal and from npm), so repeats are ignored for two seconds; one after that means "now".
 */
export function untilAskedToStop(): Promise<string> {
  return new Promise((resolve) => {
    let askedAt: number | undefined
    const ask = (signal: NodeJS.Signals) => {
      if (askedAt === undefined) {
        askedAt = performance.now()
        resolve(signal)
      } else if (performance.now() - askedAt > 2_000) {
        process.exit(1)
      }
    }
    process.on('SIGINT', ask)
    process.on('SIGTERM', ask)
  })
}

// The longest call that is on its way may end at the last moment; then its outcome is recorded.
export const mostAfterCallsMs = 4_000
// By then everything is closed, or the process ends without.
const hardEndMs = 500

/**
 * How much of the time given is left. A process that is still there after it ends: whatever was in hand stands in the
 * database as it would after a power cut, and somebody else goes on with it.
 */
export function endWithin(ms: number, exitCode = 0): () => number {
  const endAt = performance.now() + ms
  setTimeout(() => process.exit(exitCode), ms + hardEndMs).unref()
  return () => Math.max(0, endAt - performance.now())
}

/** Waits for works to end, but no longer than that. */
export async function endOf(works: readonly (Promise<unknown> | undefined)[], ms: number): Promise<void> {
  await Promise.race([Promise.allSettled(works), sleep(ms, undefined, { ref: false })])
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { BatchDb } from '../app.ts'
import { holdCalls, takePlaces } from './source-rows.ts'

/** Lets calls to a source leave at its rate, counted over all processes. */
export type Pacer = {
  /** Resolves when the next call may leave. */
  turn(): Promise<void>
  /** Lets no call leave for a while. */
  hold(ms: number): Promise<void>
}

// Calls leave a little slower than allowed, so that some that are late do not crowd those after them.
const slowness = 1.02
// A place is given up when its time has passed by more than this: the place after it belongs to another process.
const mostLateMs = 100
const aheadMs = 500

export function openPacer(db: BatchDb, source: string, ratePerSecond: number): Pacer {
  const spacingMs = (1000 / ratePerSecond) * slowness
  const waiting: { go: () => void; fail: (error: unknown) => void }[] = []
  let serving = false

  async function serve(): Promise<void> {
    serving = true
    try {
      while (waiting.length > 0) {
        const count = Math.max(1, Math.min(waiting.length, Math.floor(aheadMs / spacingMs)))
        const askedAt = performance.now()
        const firstAfter = await takePlaces(db, source, count, spacingMs)
        const answeredAt = performance.now()
        for (let n = 0; n < count && waiting.length > 0; n++) {
          // The line was read somewhere between asking and the answer: no call leaves before its place for sure.
          const waitMs = answeredAt + firstAfter + n * spacingMs - performance.now()
          if (waitMs > 1) await sleep(waitMs)
          const lateMs = performance.now() - (askedAt + firstAfter + n * spacingMs)
          if (lateMs > mostLateMs) break
          waiting.shift()!.go()
        }
      }
    } catch (error) {
      for (const { fail } of waiting.splice(0)) fail(error)
    } finally {
      serving = false
    }
  }

  return {
    turn: () =>
      new Promise((go, fail) => {
        waiting.push({ go, fail })
        if (!serving) void serve()
      }),
    hold: (ms) => holdCalls(db, source, ms),
  }
}

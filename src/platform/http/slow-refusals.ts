import { setTimeout as sleep } from 'node:timers/promises'

const patientPerMinute = 300
const longestMs = 1_000
const mostSources = 50_000

export type SlowRefusals = { slowDown(source: string): Promise<void> }

/**
 * Counts refusals per socket address. Many of them in a minute make further ones slow; whoever has a good token or
 * signature is never slowed. The first slow one of each minute is told to `onFlood`.
 */
export function openSlowRefusals(onFlood: (source: string) => void): SlowRefusals {
  let minute = 0
  let counts = new Map<string, number>()
  return {
    async slowDown(source) {
      const now = Math.floor(Date.now() / 60_000)
      if (now !== minute || counts.size >= mostSources) {
        minute = now
        counts = new Map()
      }
      const count = (counts.get(source) ?? 0) + 1
      counts.set(source, count)
      if (count <= patientPerMinute) return
      if (count === patientPerMinute + 1) onFlood(source)
      await sleep(Math.min(longestMs, count - patientPerMinute))
    },
  }
}

import { setTimeout as sleep } from 'node:timers/promises'

/** Whether this process may take traffic, and whether somebody is asking. */
export type Readiness = {
  /** The probe's question. */
  ask(): boolean
  open(): void
  /** Says "no" from now on, and gives whoever asks the time to notice. */
  turnAway(): Promise<void>
}

const noticedWithinMs = 5_000

/**
 * A proxy that follows `/readyz` must see the "no" before the door closes. If nobody asks again and again, nobody
 * follows, and stopping is immediate, as on a laptop.
 */
export function openReadiness(): Readiness {
  let ready = false
  let askedAt = Number.NEGATIVE_INFINITY
  let gapMs = Number.POSITIVE_INFINITY
  let refusals = 0
  return {
    ask() {
      const now = performance.now()
      gapMs = now - askedAt
      askedAt = now
      if (!ready) refusals++
      return ready
    },
    open() {
      ready = true
    },
    async turnAway() {
      const followed = performance.now() - askedAt < Math.min(30_000, 3 * gapMs + 1_000) && gapMs < 30_000
      ready = false
      refusals = 0
      if (!followed) return
      const until = performance.now() + noticedWithinMs
      // Two refusals and a moment more: a proxy that wants a second opinion has had it.
      while (refusals < 2 && performance.now() < until) await sleep(20)
      await sleep(200)
    },
  }
}

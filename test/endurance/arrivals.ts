import { setTimeout as sleep } from 'node:timers/promises'

export type Arrivals = { stop(): Promise<void> }

/** Starts work at a steady pace, however long each takes. Stopping waits for what has begun, and tells a failure. */
export function arrive(everyMs: number, work: () => Promise<unknown>): Arrivals {
  const underWay = new Set<Promise<void>>()
  const failures: unknown[] = []
  const timer = setInterval(() => {
    const going = work()
      .then(
        () => {},
        (error) => void failures.push(error),
      )
      .finally(() => underWay.delete(going))
    underWay.add(going)
  }, everyMs)
  return {
    async stop() {
      clearInterval(timer)
      await Promise.all(underWay)
      if (failures.length > 0) throw failures[0]
    },
  }
}

/** Pauses, works, and so on, never twice at once. A failure ends it and is told by stopping. */
export function again(pauseMs: number, work: (turn: number) => Promise<unknown>): Arrivals {
  const stopping = new AbortController()
  const { signal } = stopping
  const running = (async () => {
    for (let turn = 1; !signal.aborted; turn++) {
      await sleep(pauseMs, undefined, { signal }).catch(() => {})
      if (!signal.aborted) await work(turn)
    }
  })()
  running.catch(() => {})
  return {
    async stop() {
      stopping.abort()
      await running
    },
  }
}

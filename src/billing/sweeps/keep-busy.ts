import { setTimeout as sleep } from 'node:timers/promises'

export type Busy<T> = {
  /** How many are worked on at once. */
  readonly most: number
  readonly stopping?: AbortSignal | undefined
  /** Takes up to so many. An empty list: none for now; `over`: there is no use in asking again. */
  readonly claim: (limit: number) => Promise<readonly T[] | 'over'>
  /** Never rejects for a reason that concerns this one alone. */
  readonly work: (one: T) => Promise<void>
}

// While some are still on their way, what falls due meanwhile waits no longer than this for its claim.
const askAgainMs = 1_000

/**
 * Works on what can be claimed until there is no more of it: as soon as half of the hands are free, the next are claimed,
 * so that one slow answer holds up nobody else. Says how many it was. The first failure is told when all are through.
 */
export async function keepBusy<T>({ most, stopping, claim, work }: Busy<T>): Promise<number> {
  const inHand = new Set<Promise<void>>()
  const failures: unknown[] = []
  let taken = 0
  let isOver = false
  const fail = (error: unknown) => {
    failures.push(error)
    return 'over' as const
  }
  for (;;) {
    while (inHand.size > most / 2) await Promise.race(inHand)
    isOver ||= stopping?.aborted === true || failures.length > 0
    const answer: readonly T[] | 'over' = isOver ? 'over' : await claim(most - inHand.size).catch(fail)
    isOver ||= answer === 'over'
    const claimed = answer === 'over' ? [] : answer
    taken += claimed.length
    for (const one of claimed) {
      const working: Promise<void> = work(one)
        .catch((error: unknown) => void fail(error))
        .finally(() => inHand.delete(working))
      inHand.add(working)
    }
    if (claimed.length > 0) continue
    if (inHand.size === 0) break
    const all = Promise.all(inHand)
    await (isOver ? all : firstOf(all, askAgainMs))
    if (inHand.size === 0) break
  }
  if (failures.length > 0) throw failures[0]
  return taken
}

async function firstOf(all: Promise<unknown>, ms: number): Promise<void> {
  const timer = new AbortController()
  try {
    await Promise.race([all, sleep(ms, undefined, { signal: timer.signal }).catch(() => {})])
  } finally {
    timer.abort()
  }
}

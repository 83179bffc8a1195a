/**
 * A name's turns: so many at a time, and beyond a number nobody waits. The kinds of a name take turns with each other;
 * within one it goes by who came first.
 */
export type Turns = {
  /** True if there was room at once. */
  tryTake(name: string): boolean
  /** Waits for a turn. False: too many wait already, or it took too long. Should the caller leave meanwhile, `leave` frees its place. */
  wait(name: string, kind: string, onPlace: (leave: () => void) => void, withinMs?: number): Promise<boolean>
  give(name: string): void
}

type Line = { working: number; waiting: number; isPausing: boolean; kinds: Map<string, Set<() => void>> }

// Whoever has so few waiting behind what is worked is no flood.
const fewWaiting = 8

export function openTurns({
  atOnce,
  pauseMs = () => 0,
  waiting,
  waitMs,
}: {
  atOnce: () => number
  /** How long nobody of a name is called after somebody of it was done, if many wait. */
  pauseMs?: () => number
  waiting: number
  waitMs: number
}): Turns {
  const lines = new Map<string, Line>()

  function callWaiting(name: string, line: Line): void {
    while (line.waiting > 0 && line.working < atOnce()) {
      const pause = line.waiting > fewWaiting ? pauseMs() : 0
      if (pause > 0) {
        callLater(name, line, pause)
        return
      }
      line.working++
      callNext(line)
    }
    if (line.working === 0 && !line.isPausing) lines.delete(name)
  }

  function callLater(name: string, line: Line, ms: number): void {
    if (line.isPausing) return
    line.isPausing = true
    setTimeout(() => {
      line.isPausing = false
      if (line.waiting > 0 && line.working < atOnce()) {
        line.working++
        callNext(line)
      }
      callWaiting(name, line)
    }, ms)
  }

  return {
    tryTake(name) {
      const line = lines.get(name)
      if (!line) {
        lines.set(name, { working: 1, waiting: 0, isPausing: false, kinds: new Map() })
        return true
      }
      if (line.working >= atOnce() || line.waiting > 0) return false
      line.working++
      return true
    },
    wait(name, kind, onPlace, withinMs = waitMs) {
      const line = lines.get(name)!
      if (line.waiting >= waiting) return Promise.resolve(false)
      const waiters = line.kinds.get(kind) ?? new Set()
      line.kinds.set(kind, waiters)
      line.waiting++
      return new Promise((resolve) => {
        const call = () => {
          clearTimeout(timer)
          resolve(true)
        }
        const leave = () => {
          clearTimeout(timer)
          if (waiters.delete(call)) line.waiting--
          if (waiters.size === 0 && line.kinds.get(kind) === waiters) line.kinds.delete(kind)
          resolve(false)
        }
        const timer = setTimeout(leave, withinMs)
        waiters.add(call)
        onPlace(leave)
      })
    },
    give(name) {
      const line = lines.get(name)!
      line.working--
      callWaiting(name, line)
    },
  }
}

/** Calls the first of the kind whose turn it is, which then stands behind the other kinds. */
function callNext(line: Line): void {
  for (const [kind, waiters] of line.kinds) {
    line.kinds.delete(kind)
    for (const call of waiters) {
      waiters.delete(call)
      line.waiting--
      if (waiters.size > 0) line.kinds.set(kind, waiters)
      call()
      return
    }
  }
}

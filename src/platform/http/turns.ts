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

type Line = { working: number; waiting: number; kinds: Map<string, Set<() => void>> }

export function openTurns({
  atOnce,
  waiting,
  waitMs,
}: {
  atOnce: () => number
  waiting: number
  waitMs: number
}): Turns {
  const lines = new Map<string, Line>()

  return {
    tryTake(name) {
      const line = lines.get(name)
      if (!line) {
        lines.set(name, { working: 1, waiting: 0, kinds: new Map() })
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
      while (line.waiting > 0 && line.working < atOnce()) {
        line.working++
        callNext(line)
      }
      if (line.working === 0) lines.delete(name)
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

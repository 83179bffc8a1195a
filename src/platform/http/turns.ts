/** A name's turns: so many at a time, the others in the order they came, and beyond that nobody waits. */
export type Turns = {
  /** True if there was room at once. */
  tryTake(name: string): boolean
  /** Waits for a turn. False: too many wait already. Should the caller leave meanwhile, `leave` frees its place. */
  wait(name: string, onPlace: (leave: () => void) => void): Promise<boolean>
  give(name: string): void
}

type Line = { working: number; waiting: Set<() => void> }

export function openTurns({ atOnce, waiting }: { atOnce: number; waiting: number }): Turns {
  const lines = new Map<string, Line>()

  return {
    tryTake(name) {
      const line = lines.get(name)
      if (!line) {
        lines.set(name, { working: 1, waiting: new Set() })
        return true
      }
      if (line.working >= atOnce) return false
      line.working++
      return true
    },
    wait(name, onPlace) {
      const line = lines.get(name)!
      if (line.waiting.size >= waiting) return Promise.resolve(false)
      return new Promise((resolve) => {
        const call = () => resolve(true)
        line.waiting.add(call)
        onPlace(() => line.waiting.delete(call) && resolve(false))
      })
    },
    give(name) {
      const line = lines.get(name)!
      // The turn passes on without becoming free in between, so that nobody overtakes.
      for (const next of line.waiting) {
        line.waiting.delete(next)
        next()
        return
      }
      if (--line.working === 0) lines.delete(name)
    },
  }
}

import type { Order } from './orders.ts'
import type { Run } from './run-order.ts'
import type { SideName } from './stepper.ts'

export type PathMemory = {
  /** Whether this order is known to come down, step by step, to one that has been run. */
  knows(order: Order): boolean
  learn(run: Run): void
}

/**
 * Remembers who could move when. A turn given to a side that is over or blocked changes nothing, so many orders are the
 * same in effect; since every step waits for its release, the same turns always lead to the same place.
 */
export function openPathMemory(): PathMemory {
  // For each sequence of moves made, whether a side could make the next one.
  const canMove = new Map<string, Partial<Record<SideName, boolean>>>()
  const completed = new Set<string>()

  /** Where giving a side so many turns leads; undefined where nobody has been. */
  function follow(from: string, side: SideName, steps: number): string | undefined {
    let moves = from
    for (let done = 0; done < steps; done++) {
      const moved = canMove.get(moves)?.[side]
      if (moved === undefined) return undefined
      if (!moved) return moves
      moves += side
    }
    return moves
  }

  return {
    knows(order) {
      let moves: string | undefined = ''
      for (const { side, steps } of order.turns) {
        moves = follow(moves, side, steps)
        if (moves === undefined) return false
      }
      // What is left runs to its end, A first.
      for (;;) {
        if (completed.has(moves)) return true
        const afterA = follow(moves, 'A', Number.POSITIVE_INFINITY)
        const afterB: string | undefined =
          afterA === undefined ? undefined : follow(afterA, 'B', Number.POSITIVE_INFINITY)
        if (afterB === undefined || afterB === moves) return afterB !== undefined && completed.has(afterB)
        moves = afterB
      }
    },
    learn({ path }) {
      let moves = ''
      for (const { side, moved } of path) {
        canMove.set(moves, { ...canMove.get(moves), [side]: moved })
        if (moved) moves += side
      }
      completed.add(moves)
    },
  }
}

import { sized } from './size.ts'

/** One measured promise: what we cost, what the floor costs, and the goal we hold ourselves to. */
export type BenchResult = {
  readonly promise: string
  readonly unit: string
  readonly ours: number
  readonly floor: number
  readonly ratio: number
  readonly goal: string
}

type Interleaved = { readonly ours: number; readonly floor: number; readonly ratio: number }

/**
 * Runs both in turn, so that whatever else the machine does falls on both, and takes medians. Each function does its
 * work once and returns the cost in the unit of the result; the ratio is the median of the rounds' own ratios.
 */
export async function interleave(options: {
  readonly ours: () => number | Promise<number>
  readonly floor: () => number | Promise<number>
  readonly rounds: number
  /** Rounds that are run before and not counted, for processes that have only just started. */
  readonly warmUp?: number
}): Promise<Interleaved> {
  for (let round = 0; round < sized(options.warmUp ?? 0, 0); round++) {
    await options.ours()
    await options.floor()
  }
  const ours: number[] = []
  const floor: number[] = []
  const rounds = sized(options.rounds, 2)
  for (let round = 0; round < rounds; round++) {
    // Who goes first changes with each round: the second finds warmer caches.
    if (round % 2 === 0) ours.push(await options.ours())
    floor.push(await options.floor())
    if (round % 2 === 1) ours.push(await options.ours())
  }
  return { ours: median(ours), floor: median(floor), ratio: median(ours.map((cost, i) => cost / floor[i]!)) }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

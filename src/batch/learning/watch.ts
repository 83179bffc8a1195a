/** How a caller follows a long training, and ends it. Both are asked between rounds, never inside one. */
export type Watch = {
  /** Told the share of the work that is done, from 0 to 1. */
  onProgress?: ((fraction: number) => void) | undefined
  /** True ends the training with `TrainingStopped`. */
  shouldStop?: (() => boolean) | undefined
}

export class TrainingStopped extends Error {}

export function stopIfAsked(watch: Watch): void {
  if (watch.shouldStop?.()) throw new TrainingStopped('training was stopped')
}

/** The watch of one part of a longer work, which takes the given share of it. */
export function partOf(watch: Watch, from: number, to: number): Watch {
  return {
    onProgress: (fraction) => watch.onProgress?.(from + (to - from) * fraction),
    shouldStop: watch.shouldStop,
  }
}

/** Progress that never goes back, whatever the parts report. */
export function forwardOnly(watch: Watch): Watch {
  let reached = 0
  return {
    ...watch,
    onProgress: (fraction) => {
      if (fraction <= reached) return
      reached = fraction
      watch.onProgress?.(fraction)
    },
  }
}

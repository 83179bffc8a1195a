/** Chance that a seed decides: the same seed gives the same answers in the same order. */
export type Random = {
  /** From 0 up to, not including, 1. */
  next(): number
  chance(probability: number): boolean
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number
  pick<T>(list: readonly T[]): T
  shuffled<T>(list: readonly T[]): T[]
  /** A name, as often as its weight says. */
  weighted<N extends string>(weights: Readonly<Record<N, number>>): N
}

export function seededRandom(seed: number): Random {
  // mulberry32: small, quick, and good enough to pick faults with. The first step keeps neighbouring seeds apart.
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1))
  const pick = <T>(list: readonly T[]): T => list[between(0, list.length - 1)]!

  return {
    next,
    between,
    pick,
    chance: (probability) => next() < probability,
    shuffled(list) {
      const mixed = [...list]
      for (let at = mixed.length - 1; at > 0; at--) {
        const other = between(0, at)
        ;[mixed[at], mixed[other]] = [mixed[other]!, mixed[at]!]
      }
      return mixed
    },
    weighted<N extends string>(weights: Readonly<Record<N, number>>): N {
      const names = Object.keys(weights) as N[]
      let rest = next() * names.reduce((sum, name) => sum + weights[name], 0)
      for (const name of names) {
        rest -= weights[name]
        if (rest < 0) return name
      }
      return names.at(-1)!
    },
  }
}

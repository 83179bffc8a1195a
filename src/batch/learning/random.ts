/** A seeded stream of numbers: the same seed gives the same stream on every machine. */
export type Random = {
  /** A float in [0, 1). */
  float: () => number
  /** An integer in [0, limit). */
  below: (limit: number) => number
}

/** xoshiro128** by Blackman and Vigna, its state filled from the seed by splitmix32. */
export function createRandom(seed: number): Random {
  const seeds = splitmix32(seed)
  let a = seeds()
  let b = seeds()
  let c = seeds()
  let d = seeds()

  function float(): number {
    const result = Math.imul(rotate(Math.imul(b, 5), 7), 9)
    const shifted = b << 9
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = rotate(d, 11)
    return (result >>> 0) / 4294967296
  }
  return { float, below: (limit) => Math.floor(float() * limit) }
}

/** Takes `count` of the numbers 0 … size − 1 without repeats, in ascending order. */
export function sampleSorted(random: Random, size: number, count: number): Int32Array {
  const all = Int32Array.from({ length: size }, (_, index) => index)
  for (let i = 0; i < count; i++) {
    const j = i + random.below(size - i)
    const picked = all[j]!
    all[j] = all[i]!
    all[i] = picked
  }
  return all.slice(0, count).sort()
}

function splitmix32(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x9e3779b9) | 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return mixed ^ (mixed >>> 15)
  }
}

function rotate(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits))
}

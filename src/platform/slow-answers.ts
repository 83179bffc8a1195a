export type Patience = {
  /** So long an answer is given to whoever asks the same. */
  readonly believedForMs: number
  /** What took longer to make is slow. */
  readonly slowMs: number
  /** A slow answer is shown up to this age while the next is made. */
  readonly oldestShownMs: number
}

const usualPatience: Patience = { believedForMs: 15_000, slowMs: 500, oldestShownMs: 60_000 }
const mostRemembered = 50

type Remembered<T> = { readonly answer: T; readonly madeAt: number; readonly isSlow: boolean }

/**
 * Answers that cost a pass over much. However many ask, one process makes them once in a while and not once a question; where
 * making is slow, whoever asks is given the last one, up to a minute old, while the next is made. With `freshWhileQuick` each
 * question has its own answer as long as that takes no time. Only for what is counted to be looked at: an answer says when it
 * was made, and holds no state that anybody acts on.
 */
export function openSlowAnswers<T>(
  { freshWhileQuick }: { freshWhileQuick: boolean },
  { believedForMs, slowMs, oldestShownMs }: Patience = usualPatience,
): (key: string, make: () => Promise<T>) => Promise<T> {
  const known = new Map<string, Remembered<T>>()
  const underWay = new Map<string, Promise<T>>()
  const begin = (key: string, make: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now()
    const making = make()
    const keep = (answer: T) => {
      const madeAt = performance.now()
      const isSlow = madeAt - startedAt >= slowMs
      known.delete(key)
      if (freshWhileQuick && !isSlow) return
      if (known.size >= mostRemembered) known.clear()
      known.set(key, { answer, madeAt, isSlow })
    }
    // Whoever waits for it hears of a failure; the next question tries again.
    making.then(keep, () => {}).finally(() => underWay.delete(key))
    underWay.set(key, making)
    return making
  }
  return (key, make) => {
    const last = known.get(key)
    if (freshWhileQuick && !last?.isSlow) return begin(key, make)
    const age = last ? performance.now() - last.madeAt : Number.POSITIVE_INFINITY
    if (last && age < believedForMs) return Promise.resolve(last.answer)
    const next = underWay.get(key) ?? begin(key, make)
    return last?.isSlow && age < oldestShownMs ? Promise.resolve(last.answer) : next
  }
}

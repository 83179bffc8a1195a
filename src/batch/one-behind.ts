/** Work of which one piece is done while the caller prepares the next; more than these two are never held. */
export type OneBehind<T> = {
  /** Begins a piece once the one before has ended, and tells what that came to; undefined of the first. */
  begin(work: () => Promise<T>): Promise<T | undefined>
  /** What the last one came to. */
  ended(): Promise<T | undefined>
}

export function oneBehind<T>(): OneBehind<T> {
  let underWay: Promise<T | undefined> = Promise.resolve(undefined)
  return {
    async begin(work) {
      const before = await underWay
      underWay = work()
      // Whoever begins the next one, or asks for the end, is told of a failure; until then it is nobody's.
      underWay.catch(() => {})
      return before
    },
    ended: () => underWay,
  }
}

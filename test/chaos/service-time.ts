/**
 * What is known from outside of the service's clock. While it is being moved nobody can say what time it is, only that
 * it is no earlier than it once was and no later than where it is going.
 */
export type ServiceTime = {
  /** The earliest that it can be now, or could be so long ago. */
  earliest(agoMs?: number): number
  latest(): number
  /** The service said that it is so late. */
  heard(now: number): void
  /** The service was asked to go there, and may be there at any moment. */
  aims(target: number): void
}

export function openServiceTime(): ServiceTime {
  const heard = [{ since: 0, offset: 0 }]
  let mostOffset = 0
  return {
    earliest(agoMs = 0) {
      const then = Date.now() - agoMs
      return then + heard.findLast(({ since }) => since <= then)!.offset
    },
    latest: () => Date.now() + mostOffset,
    heard(now) {
      const offset = now - Date.now()
      if (offset > heard.at(-1)!.offset) heard.push({ since: Date.now(), offset })
    },
    aims(target) {
      mostOffset = Math.max(mostOffset, target - Date.now())
    },
  }
}

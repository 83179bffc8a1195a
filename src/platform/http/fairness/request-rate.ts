export type RequestRate = {
  /** Counts one and answers 0, or says after how many whole seconds there is room again. */
  admit(name: string): number
}

const windowMs = 60_000

/**
 * At most so many in any minute per name, counted in this process: enough to stop one caller from crowding out the
 * others, without asking the database. Quiet names are forgotten.
 */
export function openRequestRate(perMinute: number, now: () => number = () => performance.now()): RequestRate {
  // The instants of the last minute, as a ring: its oldest entry tells whether there is room.
  const rings = new Map<string, { times: number[]; next: number }>()
  let forgetAt = 0

  function forgetQuiet(at: number): void {
    forgetAt = at + windowMs
    for (const [name, { times, next }] of rings)
      if (times.length === 0 || at - times[(next - 1 + times.length) % times.length]! > windowMs)
        rings.delete(name)
  }

  return {
    admit(name) {
      const at = now()
      if (at >= forgetAt) forgetQuiet(at)
      const ring = rings.get(name) ?? { times: [], next: 0 }
      if (ring.times.length === 0) rings.set(name, ring)
      if (ring.times.length < perMinute) {
        ring.times.push(at)
        ring.next = ring.times.length % perMinute
        return 0
      }
      const freeIn = ring.times[ring.next]! + windowMs - at
      if (freeIn > 0) return Math.ceil(freeIn / 1000)
      ring.times[ring.next] = at
      ring.next = (ring.next + 1) % perMinute
      return 0
    },
  }
}

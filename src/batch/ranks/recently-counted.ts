type Kept<T> = { readonly value: T; readonly at: number; readonly weight: number }

/** What was counted lately, by name. Bounded by number and by weight; what was counted longest ago goes first. */
export function openRecentlyCounted<T>({
  keptMs,
  most,
  mostWeight,
  weigh,
}: {
  readonly keptMs: number
  readonly most: number
  readonly mostWeight: number
  readonly weigh: (value: T) => number
}) {
  const kept = new Map<string, Kept<T>>()
  let weight = 0

  const forget = (name: string): void => {
    weight -= kept.get(name)?.weight ?? 0
    kept.delete(name)
  }

  return {
    recall(name: string, now: number): T | undefined {
      const found = kept.get(name)
      return found && now - found.at < keptMs ? found.value : undefined
    },

    remember(name: string, value: T, now: number): void {
      // What is counted anew becomes the newest.
      forget(name)
      const entry = { value, at: now, weight: weigh(value) }
      kept.set(name, entry)
      weight += entry.weight
      while (kept.size > most || weight > mostWeight) forget(kept.keys().next().value!)
    },
  }
}

/** Counts calls, and tells the most of them that came within any second and any minute. */
export type Busiest = {
  count(atMs: number): void
  readonly mostInASecond: number
  readonly mostInAMinute: number
}

// What has passed is dropped in large pieces: moving the rest costs more than keeping some.
const droppedTogether = 10_000

export function openBusiest(): Busiest {
  const times: number[] = []
  let [second, minute] = [0, 0]
  const most = { second: 0, minute: 0 }
  return {
    count(at) {
      times.push(at)
      while (times[second]! <= at - 1_000) second++
      while (times[minute]! <= at - 60_000) minute++
      most.second = Math.max(most.second, times.length - second)
      most.minute = Math.max(most.minute, times.length - minute)
      if (minute < droppedTogether) return
      times.splice(0, minute)
      second -= minute
      minute = 0
    },
    get mostInASecond() {
      return most.second
    },
    get mostInAMinute() {
      return most.minute
    },
  }
}

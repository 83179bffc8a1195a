/** Sums over a few points of time from which a line's slope and spread follow. */
type Moments = {
  count: number
  sum: number
  squares: number
  times: number
  timeSquares: number
  products: number
}

export function openMoments(): Moments {
  return { count: 0, sum: 0, squares: 0, times: 0, timeSquares: 0, products: 0 }
}

export function addMoment(moments: Moments, time: number, value: number): void {
  moments.count++
  moments.sum += value
  moments.squares += value * value
  moments.times += time
  moments.timeSquares += time * time
  moments.products += time * value
}

/** Change per day along the least-squares line. */
export function slopeOf({ count, sum, times, timeSquares, products }: Moments): number {
  const spread = count * timeSquares - times * times
  return spread === 0 ? Number.NaN : (count * products - times * sum) / spread
}

export function spreadOf({ count, sum, squares }: Moments): number {
  return count < 2 ? Number.NaN : Math.sqrt(Math.max(0, squares - (sum * sum) / count) / (count - 1))
}

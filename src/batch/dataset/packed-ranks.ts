import type { History } from './history.ts'

/** The ranks of some series, as a history has them. */
export type Ranks = Pick<History, 'starts' | 'days' | 'places' | 'depths' | 'urls'>

/** Day, place (negative: not found), depth and the first bytes of the page's hash. */
const bytesPerRank = 12

/** A series in day order. Days are unique in it, so there is one such order. */
export function sortDays(packed: Buffer): Buffer {
  const order = new Int32Array(packed.length / bytesPerRank)
  let isSorted = true
  for (let row = 0; row < order.length; row++) {
    order[row] = row
    isSorted &&= row === 0 || dayAt(packed, row) > dayAt(packed, row - 1)
  }
  if (isSorted) return packed
  order.sort((a, b) => dayAt(packed, a) - dayAt(packed, b))
  return Buffer.concat(
    Array.from(order, (row) => packed.subarray(row * bytesPerRank, (row + 1) * bytesPerRank)),
  )
}

function dayAt(packed: Buffer, row: number): number {
  return packed.readInt32BE(row * bytesPerRank)
}

export function unpack(packed: readonly Buffer[]): Ranks {
  const ranks = roomFor(
    packed.length,
    packed.reduce((sum, bytes) => sum + bytes.length / bytesPerRank, 0),
  )
  const { starts, days, places, depths, urls } = ranks
  let row = 0
  for (const [series, bytes] of packed.entries()) {
    for (let at = 0; at < bytes.length; at += bytesPerRank, row++) {
      days[row] = bytes.readInt32BE(at)
      places[row] = bytes.readInt16BE(at + 4)
      depths[row] = bytes.readInt16BE(at + 6)
      urls[row] = bytes.readInt32BE(at + 8)
    }
    starts[series + 1] = row
  }
  return ranks
}

/** Puts parts behind each other and lets go of each as soon as it is copied: all of them are never there twice. */
export function joinRanks(parts: Ranks[]): Ranks {
  const all = roomFor(
    parts.reduce((sum, { starts }) => sum + starts.length - 1, 0),
    parts.reduce((sum, { days }) => sum + days.length, 0),
  )
  let [series, row] = [0, 0]
  for (let part = parts.shift(); part; part = parts.shift()) {
    for (let at = 1; at < part.starts.length; at++) all.starts[++series] = row + part.starts[at]!
    all.days.set(part.days, row)
    all.places.set(part.places, row)
    all.depths.set(part.depths, row)
    all.urls.set(part.urls, row)
    row += part.days.length
  }
  return all
}

function roomFor(series: number, ranks: number): Ranks {
  return {
    starts: new Int32Array(series + 1),
    days: new Int32Array(ranks),
    places: new Int16Array(ranks),
    depths: new Int16Array(ranks),
    urls: new Int32Array(ranks),
  }
}

import type { History } from '../../src/batch/dataset/history.ts'

/** A rank written small: day, place (negative: not found), perhaps the page and how deep the search went. */
export type SmallRank = readonly [day: number, place: number, url?: number, depth?: number]

/** A month's volume: month and value. */
export type SmallVolume = readonly [month: number, volume: number]

/** A history from series of ranks, with the volumes of each keyword by source; every keyword is its own, and so is every site unless said otherwise. */
export function historyOf(
  series: readonly (readonly SmallRank[])[],
  {
    sites = series.map(() => 0),
    volumes = series.map(() => []),
  }: { sites?: number[]; volumes?: SmallVolume[][][] } = {},
): History {
  const ranks = series.flat()
  return {
    starts: startsOf(series),
    days: Int32Array.from(ranks, ([day]) => day),
    places: Int16Array.from(ranks, ([, place]) => place),
    depths: Int16Array.from(
      ranks,
      ([, place, , depth]) => depth ?? (place < 0 ? -place - 1 : Math.max(100, place)),
    ),
    urls: Int32Array.from(ranks, ([, , url]) => url ?? 0),
    sites: Int32Array.from(sites),
    keywords: Int32Array.from(series, (_, at) => at),
    sourceStarts: startsOf(volumes),
    volumeStarts: startsOf(volumes.flat()),
    volumeMonths: Int32Array.from(volumes.flat(2), ([month]) => month),
    volumes: Float64Array.from(volumes.flat(2), ([, volume]) => volume),
  }
}

function startsOf(lists: readonly (readonly unknown[])[]): Int32Array<ArrayBuffer> {
  const starts = new Int32Array(lists.length + 1)
  lists.forEach((list, at) => {
    starts[at + 1] = starts[at]! + list.length
  })
  return starts
}

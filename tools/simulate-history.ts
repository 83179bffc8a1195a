import type { History } from '../src/batch/dataset/history.ts'
import { dayOrdinal } from '../src/batch/dataset/history.ts'
import { simulateRanks } from '../src/demo/demo-batch.ts'

const keywordsPerSite = 250
const lastDay = '2026-09-30'
const depth = 100

/** A history of many sites, each simulated as the demonstration's one is. The same seed gives the same history. */
export function simulateHistory({
  keywords,
  days,
  seed,
}: {
  keywords: number
  days: number
  seed: number
}): History {
  const [starts, allDays, places, urls, sites, ids]: number[][] = [[0], [], [], [], [], []]
  for (let site = 0, from = 0; from < keywords; site++, from += keywordsPerSite) {
    const names = Array.from(
      { length: Math.min(keywordsPerSite, keywords - from) },
      (_, at) => `${from + at}`,
    )
    const series = new Map(names.map((name) => [name, [] as [number, number, number][]]))
    for (const rank of simulateRanks(names, { days, lastDay, seed: seed * 1000 + site })) {
      if (rank.status === 'failed') continue
      const place = rank.status === 'ranked' ? rank.position! : -(depth + 1)
      const page = rank.status === 'ranked' ? Number(rank.url!.slice(-1)) : 0
      series.get(String(rank.keyword))!.push([dayOrdinal(rank.day), place, page])
    }
    for (const [name, ranks] of series) {
      for (const [day, place, page] of ranks) {
        allDays!.push(day)
        places!.push(place)
        urls!.push(page)
      }
      starts!.push(allDays!.length)
      sites!.push(site)
      ids!.push(Number(name))
    }
  }
  return {
    starts: Int32Array.from(starts!),
    days: Int32Array.from(allDays!),
    places: Int16Array.from(places!),
    depths: new Int16Array(places!.length).fill(depth),
    urls: Int32Array.from(urls!),
    sites: Int32Array.from(sites!),
    keywords: Int32Array.from(ids!),
    sourceStarts: new Int32Array(keywords + 1),
    volumeStarts: new Int32Array(1),
    volumeMonths: new Int32Array(),
    volumes: new Float64Array(),
  }
}

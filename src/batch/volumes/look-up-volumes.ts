import type { BatchApp } from '../app.ts'
import { cleanOne } from '../keywords/clean-keywords.ts'
import { invalid, refuse } from '../refusals.ts'
import { counts } from './monthly-volume.ts'
import { findMonthlyVolumes, type StoredMonth, type StoredMonths } from './volume-rows.ts'
import { summarise, type VolumeSummary } from './volume-summary.ts'

export type VolumeQuery = { from?: string; to?: string; source?: string }

export type KeywordVolumes = VolumeSummary &
  StoredMonths & {
    readonly keyword: string
    /** The source that the summary speaks of: figures of different sources do not mix. */
    readonly summarySource: string
  }

/** The stored monthly volumes of a keyword, oldest month first, and what they come to. */
export async function lookUpVolumes(app: BatchApp, raw: string, query: VolumeQuery): Promise<KeywordVolumes> {
  const { display, key } = cleanOne(raw, 'keyword')
  if (query.from !== undefined && query.to !== undefined && query.from > query.to)
    throw invalid('from', 'out_of_order', 'The first month lies after the last.')
  const stored = await findMonthlyVolumes(app.db, key, query)
  if (!stored) throw refuse('volume_not_found')
  const { months } = stored

  const summarySource = leadingSource(months)
  return {
    keyword: display,
    ...stored,
    summarySource,
    ...summarise(months.filter(({ source }) => source === summarySource)),
  }
}

/** The source that reaches furthest; of several, the one with most months, then the first by name. */
function leadingSource(all: readonly StoredMonth[]): string {
  const counted = all.filter(counts)
  const months = counted.length > 0 ? counted : all
  const newest = months.at(-1)!.month
  const reported = new Map<string, number>()
  for (const { source } of months) reported.set(source, (reported.get(source) ?? 0) + 1)
  const current = months.filter(({ month }) => month === newest).map(({ source }) => source)
  return current
    .sort()
    .reduce((best, source) => (reported.get(source)! > reported.get(best)! ? source : best))
}

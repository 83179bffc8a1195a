import { type Day, dayOf } from '../../../platform/time.ts'
import type { BatchApp } from '../../app.ts'
import {
  type ReportedVolume,
  type Source,
  type SourceFailure,
  type SourceName,
  type TrendSource,
  trendMonthOn,
  type VolumeSource,
  volumeMonthOn,
} from '../../sources/port.ts'
import { putTrend } from '../../trends/put-trend.ts'
import { recordVolumes } from '../../volumes/record-volumes.ts'
import type { DueKeyword } from './volume-check-rows.ts'

/** Keywords that a source spells alike: it is asked once for all of them. */
export type Spelled = { readonly spelling: string; readonly keywords: readonly DueKeyword[] }

/** What a source is asked of every keyword once a month, and what is done with its answers. */
export type KeywordReader = {
  /** The month whose turn it is. */
  readonly month: Day
  readonly mostPerCall: number
  spell(keyword: string): string | undefined
  ask(group: readonly Spelled[], now: Date): Promise<Answered | SourceFailure>
}

/** A good answer. Storing it twice is the same as once. */
type Answered = {
  readonly kind: 'answered'
  /** The spellings that it has something about. */
  readonly found: ReadonlySet<string>
  /** Those that it knows nothing about, and says so. */
  readonly without: ReadonlySet<string>
  store(app: BatchApp): Promise<void>
}

export function readersOf({ settings, volumes, trends }: Source, today: Day): KeywordReader[] {
  return [
    ...(volumes ? [volumeReader(settings.name, volumes, volumeMonthOn(today, volumes.tells))] : []),
    ...(trends ? [trendReader(settings.name, trends, trendMonthOn(today))] : []),
  ]
}

function volumeReader(source: SourceName, volumes: VolumeSource, month: Day): KeywordReader {
  return {
    month,
    mostPerCall: volumes.mostPerCall,
    spell: volumes.spell,
    async ask(group, now) {
      const spellings = group.map(({ spelling }) => spelling)
      const answer = await volumes.readVolumes(spellings, now)
      if (answer.kind === 'failed') return answer
      return {
        kind: 'answered',
        found: new Set(answer.volumes.map(({ keyword }) => keyword)),
        without: new Set(answer.without),
        store: (app) => storeVolumes(app, source, group, answer.volumes),
      }
    },
  }
}

async function storeVolumes(
  app: BatchApp,
  source: SourceName,
  group: readonly Spelled[],
  reported: readonly ReportedVolume[],
): Promise<void> {
  const keywordsOf = new Map(group.map(({ spelling, keywords }) => [spelling, keywords]))
  const observations = reported.flatMap((one) =>
    (keywordsOf.get(one.keyword) ?? []).map(({ display }) => ({
      keyword: display,
      source,
      kind: one.kind,
      day: one.day,
      ...(one.volume !== null && { volume: one.volume }),
      ...(one.max !== null && { volume_max: one.max }),
      ...(one.pc !== null && { pc: one.pc }),
      ...(one.mobile !== null && { mobile: one.mobile }),
    })),
  )
  for (let at = 0; at < observations.length; at += 1000)
    await recordVolumes(app, observations.slice(at, at + 1000))
}

function trendReader(source: SourceName, trends: TrendSource, month: Day): KeywordReader {
  return {
    month,
    mostPerCall: 1,
    spell: (keyword) => keyword,
    async ask([one], now) {
      const { spelling, keywords } = one!
      const answer = await trends.readTrend(spelling, month)
      if (answer.kind === 'failed') return answer
      const { trend } = answer
      return {
        kind: 'answered',
        found: new Set(trend.values.length > 0 ? [spelling] : []),
        without: new Set(),
        // That nothing is reported any more is news, too, and takes the place of what was reported before.
        async store(app) {
          const askedOn = dayOf(now, app.timeZone)
          for (const { key } of keywords) await putTrend(app, { key, source, askedOn, ...trend })
        },
      }
    },
  }
}

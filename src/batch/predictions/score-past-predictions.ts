import type { BatchApp } from '../app.ts'
import { dayName, dayOrdinal, type History, type SeriesName } from '../dataset/history.ts'
import type { HistoryPart } from '../dataset/history-rows.ts'
import { moveOf } from '../dataset/label.ts'
import { rowLoss } from '../learning/loss.ts'
import { classes, type Manifest } from '../models/manifest.ts'
import {
  forgetPredictions,
  listOpenPredictions,
  listRivals,
  type OpenPrediction,
  type Outcome,
  settleOutcomes,
} from './prediction-rows.ts'

/** What scoring reaches from its thread. */
export type ScoringApp = Pick<BatchApp, 'db' | 'fence' | 'timeZone'> & { clock(): Date }

const pageSize = 5_000
/** So long a series without a rank of its last day is waited for: an outcome is told once, and ranks come days late. */
const lateDays = 7
/** A late import may still tell an outcome; after this many days nobody waits for it. */
const patienceDays = 60
/** What was said and what came true is kept so long. */
const keptDays = 400

/** The newest day of which anybody has told a rank, and the last one that is over. */
export type Until = { readonly knownUntil: number; readonly completeUntil: number }

/**
 * Looks up what became of predictions of a part's series whose horizon has passed, and keeps the log-loss per model beside what its rivals
 * would have lost on the same rows. A horizon has passed when the series has a rank of its last day or a later one, or that day is
 * over for a week: no workspace's ranks of today, or of tomorrow, end what was said of another's. One whose series was not
 * checked at the end of its horizon waits for a while.
 */
export async function scorePastPredictions(
  app: ScoringApp,
  { history, series }: HistoryPart,
  { knownUntil, completeUntil }: Until,
): Promise<number> {
  const places = new Map(series.map((name, at) => [nameOf(name), at]))
  const among = {
    firstDay: dayName(completeUntil - patienceDays),
    lastDay: dayName(knownUntil),
    first: series[0]!,
    last: series.at(-1)!,
  }
  let scored = 0
  let after: OpenPrediction | undefined
  do {
    const open = await listOpenPredictions(app.db, among, after, pageSize)
    const rivals = await listRivals(app.db, [...new Set(open.map(({ modelId }) => modelId))])
    const outcomes = open.flatMap((one) => {
      const place = places.get(nameOf(one))
      if (place === undefined || !hasPassed(history, place, one, completeUntil)) return []
      return outcomeOf(history, place, one, rivals.get(one.modelId)!) ?? []
    })
    if (outcomes.length > 0) {
      await app.db.transaction().execute(async (tx) => {
        await app.fence(tx)
        await settleOutcomes(tx, outcomes, { now: app.clock(), timeZone: app.timeZone })
      })
    }
    scored += outcomes.length
    after = open.length < pageSize ? undefined : open.at(-1)
  } while (after)
  return scored
}

export async function forgetOldPredictions(app: ScoringApp, lastDay: number): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    await app.fence(tx)
    await forgetPredictions(tx, dayName(lastDay - keptDays))
  })
}

function nameOf({ workspaceId, keywordId, engine, device, location }: SeriesName): string {
  return `${workspaceId} ${keywordId} ${engine} ${device} ${location}`
}

function hasPassed(
  history: History,
  series: number,
  { day, horizonDays }: OpenPrediction,
  completeUntil: number,
): boolean {
  const end = dayOrdinal(day) + horizonDays
  return end + lateDays <= completeUntil || history.days[history.starts[series + 1]! - 1]! >= end
}

function outcomeOf(
  history: History,
  series: number,
  { probabilities, naiveSign, horizonDays, modelId: _, ...prediction }: OpenPrediction,
  { class_shares, naive }: Manifest['rivals'],
): Outcome | undefined {
  const at = findDay(history, series, dayOrdinal(prediction.day))
  const move = at === undefined ? undefined : moveOf(history, series, at, horizonDays)
  if (!move) return undefined
  const outcome = classes[move.label]!
  return {
    ...prediction,
    outcome,
    loss: rowLoss(probabilities[outcome]),
    priorLoss: rowLoss(class_shares[move.label]!),
    naiveLoss: rowLoss(naive.shares[naiveSign]![move.label]!),
  }
}

function findDay({ starts, days }: History, series: number, day: number): number | undefined {
  let low = starts[series]!
  let high = starts[series + 1]!
  while (low < high) {
    const middle = (low + high) >>> 1
    if (days[middle]! < day) low = middle + 1
    else high = middle
  }
  return low < starts[series + 1]! && days[low] === day ? low : undefined
}

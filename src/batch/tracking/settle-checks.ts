import type { Day } from '../../platform/time.ts'
import type { BatchTx } from '../app.ts'
import type { RankObservation } from '../ranks/rank.ts'
import { isRankUrl } from '../ranks/rank-form.ts'
import { mergeObservations } from '../ranks/record-ranks.ts'
import { reportedDay } from '../sources/port.ts'
import type { Tally } from './breaker.ts'
import { type CheckEnd, endChecks } from './check-rows.ts'
import type { Drain, Made } from './drain.ts'
import { settleSource } from './settle-source.ts'
import { bookCalls, scopesOf } from './spending-rows.ts'
import { mostTries, waitMsAfter } from './tracker.ts'

/** Stores what checks found, what they cost and how the source fares, all at once. */
export async function settle(
  tx: BatchTx,
  { source, by, timeZone }: Drain,
  batch: readonly Made[],
  now: Date,
  tally: Tally = tallyOf(batch),
): Promise<void> {
  const { name } = source.settings
  await settleSource(tx, name, tally, now, timeZone)
  await endChecks(
    tx,
    by,
    batch.map((one) => endOf(one, now)),
    now,
  )
  await mergeObservations(
    tx,
    now,
    batch.flatMap((one) => observationOf(one, now)),
  )
  for (const [day, calls] of callsByDay(batch)) await bookCalls(tx, name, day, calls)
}

/** How the calls of a batch went, where each check is one. */
function tallyOf(batch: readonly Made[]): Tally {
  const failures = batch.flatMap(({ outcome }) => (outcome.kind === 'failed' ? [outcome] : []))
  return { good: batch.length - failures.length, failures }
}

const earlyWaitMs = 60 * 60_000

/** A refusal, a hurry or a day that is not reported yet is not the keyword's fault, and costs it no try. */
function endOf({ check, outcome }: Made, now: Date): CheckEnd {
  const { workspaceId, trackerId, day, keywordId, tries, dueAt } = check
  const place = { workspaceId, trackerId, day, keywordId }
  if (outcome.kind === 'ordered') return { ...place, status: 'ordered', tries, dueAt, reason: outcome.reason }
  if (outcome.kind !== 'failed') return { ...place, status: 'done', tries, dueAt, reason: null }
  const { reason } = outcome
  if (outcome.of === 'early')
    return { ...place, status: 'due', tries: tries - 1, dueAt: new Date(now.getTime() + earlyWaitMs), reason }
  if (outcome.of !== 'answer') return { ...place, status: 'due', tries: tries - 1, dueAt, reason }
  if (tries >= mostTries) return { ...place, status: 'failed', tries, dueAt, reason }
  return { ...place, status: 'due', tries, dueAt: new Date(now.getTime() + waitMsAfter(tries)), reason }
}

function observationOf({ check, outcome }: Made, now: Date) {
  const { workspaceId } = check
  if (outcome.kind === 'ordered') return []
  if (outcome.kind === 'failed') {
    const isLast = outcome.of === 'answer' && check.tries >= mostTries
    return isLast ? [{ workspaceId, observation: failedRow(check, outcome.reason, now) }] : []
  }
  if (outcome.kind === 'unreported')
    return [{ workspaceId, observation: failedRow(check, outcome.reason, now) }]
  const row = rowOf(check, ('readAt' in outcome && outcome.readAt) || now)
  if (outcome.kind === 'mean') {
    const position = Math.round(outcome.position)
    const searched_depth = Math.max(check.depth, position)
    const observation: RankObservation = {
      ...row,
      status: 'ranked',
      position,
      mean_position: outcome.position,
      searched_depth,
    }
    return [{ workspaceId, observation }]
  }
  const observation: RankObservation =
    outcome.kind === 'ranked'
      ? {
          ...row,
          status: 'ranked',
          position: outcome.position,
          searched_depth: check.depth,
          ...(isRankUrl(outcome.url) && { url: outcome.url }),
        }
      : { ...row, status: 'not_in_depth', searched_depth: outcome.depth }
  return [{ workspaceId, observation }]
}

/** What was set aside is freed, and what was used is spent, on the day whose budget it was taken from. */
function callsByDay(batch: readonly Made[]) {
  const days = new Map<Day, Map<string, { scope: string; reserved: number; spent: number }>>()
  for (const { check, outcome } of batch) {
    const scopes = days.get(check.spentOn) ?? new Map()
    days.set(check.spentOn, scopes)
    for (const scope of scopesOf(check)) {
      const { reserved = 0, spent = 0 } = scopes.get(scope) ?? {}
      scopes.set(scope, { scope, reserved: reserved - check.reserved, spent: spent + outcome.calls })
    }
  }
  return [...days].map(([day, scopes]) => [day, [...scopes.values()]] as const)
}

type Series = { keyword: string; day: Day; engine: string; device: string; location: string; depth: number }

export function failedRow(check: Series, reason: string, now: Date): RankObservation {
  return { ...rowOf(check, now), status: 'failed', reason, searched_depth: check.depth }
}

function rowOf({ keyword, day, engine, device, location }: Series, readAt: Date) {
  return {
    keyword,
    day: reportedDay(engine, day),
    engine,
    device,
    location,
    checked_at: readAt.toISOString(),
  }
}

import { dayOf } from '../../platform/time.ts'
import type { BatchTx } from '../app.ts'
import { awake } from './breaker.ts'
import {
  type ClaimedCheck,
  claimChecks,
  type DueTracker,
  noteWhyWaiting,
  readDueTrackers,
} from './claim-rows.ts'
import type { Drain } from './drain.ts'
import { lockSource, updateSource } from './source-rows.ts'
import { bookCalls, listSpending, scopesOf } from './spending-rows.ts'
import { callsLeft } from './tracker-rows.ts'

/** Takes checks as far as every budget reaches, and sets aside what they may cost. */
export async function claimDue(
  tx: BatchTx,
  { source, ranks, by, timeZone }: Drain,
  most: number,
  now: Date,
): Promise<ClaimedCheck[]> {
  const { name } = source.settings
  const before = await lockSource(tx, name)
  const state = awake(before, now)
  if (!state) {
    await noteWhyWaiting(tx, { source: name }, before.lastError ?? 'source_resting', now)
    return []
  }
  if (state !== before) await updateSource(tx, name, state)

  const spentOn = dayOf(now, timeZone)
  const taken = new Map<string, number>()
  const claimed: ClaimedCheck[] = []
  for await (const trackers of readDueTrackers(tx, name, now)) {
    const spending = await listSpending(tx, name, spentOn, [...new Set(trackers.flatMap(scopesOf))])
    const usedOf = (scope: string) => (spending.get(scope)?.used ?? 0) + (taken.get(scope) ?? 0)
    const exhausted: DueTracker[] = []
    for (const tracker of trackers) {
      const callsEach = ranks.callsFor(tracker.engine, tracker.depth)
      const left = callsLeft(source.settings, tracker, usedOf)
      const affordable = callsEach === 0 ? most : Math.floor(left / callsEach)
      if (affordable <= 0) {
        exhausted.push(tracker)
        continue
      }
      const share = Math.min(most - claimed.length, affordable)
      const checks = await claimChecks(tx, tracker, {
        source: name,
        by,
        now,
        spentOn,
        callsEach,
        most: share,
      })
      claimed.push(...checks)
      for (const scope of scopesOf(tracker))
        taken.set(scope, (taken.get(scope) ?? 0) + checks.length * callsEach)
      if (claimed.length >= most) break
    }
    if (exhausted.length > 0)
      await noteWhyWaiting(tx, { source: name, trackers: exhausted }, 'budget_exhausted', now)
    if (claimed.length >= most) break
  }
  await bookCalls(
    tx,
    name,
    spentOn,
    [...taken]
      .filter(([, reserved]) => reserved > 0)
      .map(([scope, reserved]) => ({ scope, reserved, spent: 0 })),
  )
  return claimed
}

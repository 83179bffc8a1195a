import { clearAlarm, raiseAlarm } from '../../platform/alarm.ts'
import { dayOf, instantAt } from '../../platform/time.ts'
import type { BatchTx } from '../app.ts'
import { holdMsAfter, judgeSource, type Tally } from './breaker.ts'
import { holdCalls, lockSource, type SourceState, updateSource } from './source-rows.ts'

/** Stores how a source fares after some calls: asked on, left alone for a while, or refused. */
export async function settleSource(
  tx: BatchTx,
  name: string,
  tally: Tally,
  now: Date,
  timeZone: string,
): Promise<void> {
  const before = await lockSource(tx, name)
  // A source that is left alone already is not judged again by the calls that were under way.
  if (before.state !== 'ready') return
  const nextDay = instantAt(dayOf(now, timeZone), '24:00', timeZone)
  const after = judgeSource(before, tally, now, nextDay)
  await updateSource(tx, name, after)
  if (after.throttles > before.throttles) await holdCalls(tx, name, holdMsAfter(after.throttles))
  await tellState(tx, name, after.state, now)
}

/** Tells operators that a source refuses our key, and takes it back once it answers again. */
async function tellState(tx: BatchTx, name: string, after: SourceState['state'], now: Date): Promise<void> {
  if (after === 'ready') await clearAlarm(tx, 'source_refused', name)
  if (after !== 'refused') return
  const note = `${name} refuses our credentials: nothing is asked of it until tomorrow. Put a valid key into its variables and restart.`
  await raiseAlarm(tx, { kind: 'source_refused', subject: name, note }, now)
}

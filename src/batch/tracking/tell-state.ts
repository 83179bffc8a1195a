import { clearAlarm, raiseAlarm } from '../../platform/alarm.ts'
import type { BatchTx } from '../app.ts'
import type { SourceState } from './source-rows.ts'

/** Tells operators that a source refuses our key, and takes it back once it answers again. */
export async function tellState(
  tx: BatchTx,
  name: string,
  before: SourceState['state'],
  after: SourceState['state'],
  now: Date,
): Promise<void> {
  if (after === 'ready') await clearAlarm(tx, 'source_refused', name)
  if (after !== 'refused' || before === after) return
  const note = `${name} refuses our credentials: nothing is asked of it until tomorrow. Put a valid key into its variables and restart.`
  await raiseAlarm(tx, { kind: 'source_refused', subject: name, note }, now)
}

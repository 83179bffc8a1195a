import { openDb, openPool } from '../../platform/database/db.ts'
import { answerFromThread } from '../runs/work-in-thread.ts'
import { fenceOfRun } from '../runs/work-run.ts'
import { type ScoringWork, scoreAll } from './predict-ranks.ts'

const patienceMs = 300_000

/** The inside of the thread that scores. It reads, stores and looks back side by side; what it writes passes only while its run is its own. */
await answerFromThread<ScoringWork>(async (work, report) => {
  const pool = openPool({
    ...work.connection,
    // On busy cores this thread may stand still for minutes (`giveWay`): that nobody answered in time says nothing then.
    connectTimeoutMs: Math.max(work.connection.connectTimeoutMs ?? 0, patienceMs),
    patienceMs,
    max: 3,
    name: 'rankledger scoring',
    onError() {},
  })
  try {
    const fence = fenceOfRun({ id: work.run, take: work.take })
    const app = { db: openDb(pool), clock: () => work.now, timeZone: work.timeZone, fence }
    return await scoreAll(app, work, report)
  } finally {
    await pool.end()
  }
})

import { putTracker } from '../../src/batch/tracking/put-tracker.ts'
import { requestChecks } from '../../src/batch/tracking/request-checks.ts'
import { trackerBody } from '../batch/tracker-body.ts'
import type { Service } from '../fuzz/service.ts'

/** Leaves checks in every state for the next run: to be asked, to be ordered, lost, tried in vain, and of a day that is over. */
export async function leaveChecks({ app }: Service): Promise<void> {
  const { batch } = app
  for (const [workspace, source] of [
    ['ws_stored_1', 'sandbox'],
    ['ws_stored_2', 'dataforseo_queue'],
  ] as const) {
    await putTracker(batch, workspace, 'main', trackerBody({ source }) as never, { isForAll: true })
    const { rows } = await app.pool.query(
      'select display from batch.keyword where workspace_id = $1 order by id limit 20',
      [workspace],
    )
    await requestChecks(batch, workspace, 'main', {
      keywords: rows.map(({ display }) => display),
      isDry: false,
      isForAll: true,
    })
  }
  const some = (from: number) => `ctid in (
    select ctid from batch.rank_check where workspace_id = 'ws_moving' and status = 'due' order by keyword_id offset ${from} limit 20)`
  await app.pool.query(
    `update batch.rank_check set status = 'asked', asked_by = 'gone', tries = 1 where ${some(0)}`,
  )
  await app.pool.query(`update batch.rank_check set tries = 3, reason = 'unreadable' where ${some(20)}`)
  await app.pool.query(`update batch.rank_check set closes_at = $1 where ${some(40)}`, [app.clock()])
  await app.pool.query(
    `update batch.rank_check set closes_at = $1 where ctid in (
       select ctid from batch.rank_check where status = 'ordered' and workspace_id = 'ws_moving' order by keyword_id limit 20)`,
    [app.clock()],
  )
}

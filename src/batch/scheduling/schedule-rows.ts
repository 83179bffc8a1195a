import type { BatchDb, BatchTx } from '../app.ts'
import type { RunTask } from '../runs/run.ts'

export type Slot = { task: RunTask; cron: string; zone: string; nextAt: Date }

export async function listSlots(db: BatchDb): Promise<Slot[]> {
  const rows = await db.selectFrom('batch.schedule').selectAll().orderBy('task').limit(10).execute()
  return rows.map(({ next_at, ...row }) => ({ ...row, nextAt: next_at }))
}

/** Writes when a task starts next, under rules that are new or have changed. Two processes write the same. */
export async function putSlot(db: BatchDb, { task, cron, zone, nextAt }: Slot): Promise<void> {
  await db
    .insertInto('batch.schedule')
    .values({ task, cron, zone, next_at: nextAt })
    .onConflict((conflict) => conflict.column('task').doUpdateSet({ cron, zone, next_at: nextAt }))
    .execute()
}

/** Moves a slot that is due to its next time. False: somebody else has done so, and starts the run. */
export async function moveSlot(tx: BatchTx, slot: Slot, nextAt: Date): Promise<boolean> {
  const moved = await tx
    .updateTable('batch.schedule')
    .set({ next_at: nextAt })
    .where('task', '=', slot.task)
    .where('next_at', '=', slot.nextAt)
    .returning('task')
    .executeTakeFirst()
  return moved !== undefined
}

import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'

/** Charges and refunds of which nobody knows yet what became of them. */
export async function listUnsettled(db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(`
    select id from billing.payment where status in ('sending', 'unknown')
    union all
    select id from billing.refund where status = 'pending'
    order by id`)
  return rows.map(({ id }) => id)
}

/** Waits until each of them is settled, by default all there are; tells after how long, or nothing if it took longer. */
export async function untilSettled(
  db: pg.Pool,
  withinMs: number,
  wanted?: readonly string[],
): Promise<number | undefined> {
  const startedAt = performance.now()
  while (performance.now() - startedAt < withinMs) {
    const open = new Set(await listUnsettled(db))
    const left = wanted === undefined ? open.size : wanted.filter((id) => open.has(id)).length
    if (left === 0) return Math.round(performance.now() - startedAt)
    await sleep(100)
  }
  return undefined
}

import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'

// A training takes long on a busy machine.
const patienceMs = 180_000

/** Batch runs that did not end well, once all have ended or patience has. */
export async function listLostRuns(db: pg.Pool): Promise<string[]> {
  const until = performance.now() + patienceMs
  for (;;) {
    const { rows } = await db.query<{ task: string; status: string; error_code: string | null }>(`
      select task, status, error_code from batch.run where status not in ('succeeded', 'skipped') order by id`)
    if (rows.every(({ status }) => status === 'failed') || performance.now() > until)
      return rows.map(({ task, status, error_code: code }) => [task, status, code ?? ''].join(' '))
    await sleep(500)
  }
}

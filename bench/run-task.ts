import { setTimeout as sleep } from 'node:timers/promises'
import type { Stage } from './stage.ts'

type Service = { readonly port: number; readonly token?: string }

/** Triggers a task and waits until its run has ended well; tells how far it is meanwhile. */
export async function runTask(
  stage: Stage,
  { port, token }: Service,
  task: string,
): Promise<{ seconds: number; predictions: number }> {
  const startedAt = performance.now()
  const answer = await fetch(`http://127.0.0.1:${port}/api/batch/trigger`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ task }),
  })
  const { data } = (await answer.json()) as { data: { run_id: string } }
  for (let shown = -1; ; await sleep(200)) {
    const { rows } = await stage.db.query('select status, progress, metrics from batch.run where id = $1', [
      data.run_id,
    ])
    const { status, progress, metrics } = rows[0]
    if (Math.floor(progress * 10) > shown) {
      shown = Math.floor(progress * 10)
      process.stderr.write(`${task}: ${Math.round(progress * 100)} %\n`)
    }
    if (status === 'succeeded')
      return { seconds: (performance.now() - startedAt) / 1000, predictions: metrics?.predictions ?? 0 }
    if (status !== 'queued' && status !== 'running') throw new Error(`The run of ${task} was ${status}.`)
  }
}

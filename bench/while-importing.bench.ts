import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startImport, writeRanks } from './ranks-to-import.ts'
import { type BenchResult, interleave } from './result.ts'
import { sized } from './size.ts'
import { openStage } from './stage.ts'

/** How quickly volumes are answered while a million ranks are imported, against the same at rest. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  const folder = mkdtempSync(join(tmpdir(), 'rankledger-bench-importing-'))
  try {
    const file = await writeRanks(stage, folder)
    await stage.db.query(`
      insert into batch.monthly_volume (key, source, month, volume, volume_min, volume_max, quality, days_observed, updated_at)
      select key, 'naver', '2026-10-01', 1000, 1000, 1000, 'reported', 30, now() from batch.keyword`)
    await stage.db.query('analyze')
    const { port, token } = await stage.start('./serve-process.ts')
    const ask = async () => {
      const { perSecond } = await stage.load({
        port,
        connections: 32,
        seconds: sized(3, 1),
        method: 'GET',
        path: '/api/batch/volumes/keyword%201?workspace_id=ws_{n}',
        spread: 20_000,
        ...(token !== undefined && { token }),
      })
      return perSecond
    }
    const askWhileImporting = async () => {
      await stage.db.query('truncate batch.rank, batch.import_progress')
      const running = startImport(stage, file)
      const ended = once(running, 'close')
      running.stdout.resume()
      try {
        while (!(await holdsRanks())) await sleep(50)
        const perSecond = await ask()
        if (running.exitCode !== null) throw new Error('The import ended before the measurement did.')
        return perSecond
      } finally {
        running.kill('SIGKILL')
        await ended
      }
    }
    const holdsRanks = async () =>
      (await stage.db.query<{ some: boolean }>('select exists (select from batch.rank) as some')).rows[0]!
        .some

    await ask()
    const measured = await interleave({ rounds: 5, ours: askWhileImporting, floor: ask })
    return [
      {
        promise: 'volumes answered while importing, against the same at rest',
        unit: 'requests/s',
        ...measured,
        goal: 'ratio >= 0.5 on 2 cores',
      },
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
    await stage.close()
  }
}

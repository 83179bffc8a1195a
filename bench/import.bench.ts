import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { copyIn } from '../src/batch/copy-in.ts'
import { dayAt, days, keywords, startImport, writeRanks } from './ranks-to-import.ts'
import { type BenchResult, interleave } from './result.ts'
import { openStage, type Stage } from './stage.ts'

/** `rankledger import ranks` of a million rows, from start to exit, against raw COPY into the same table. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  const folder = mkdtempSync(join(tmpdir(), 'rankledger-bench-import-'))
  try {
    const file = await writeRanks(stage, folder)
    const peaks: number[] = []
    const measured = await interleave({
      rounds: 3,
      ours: async () => {
        await stage.db.query('truncate batch.rank')
        const { seconds, peakMb } = await runImport(stage, file, folder)
        peaks.push(peakMb)
        return (keywords * days) / seconds
      },
      floor: async () => {
        await stage.db.query('truncate batch.rank')
        return (keywords * days) / (await copyRaw(stage))
      },
    })
    const peak = Math.max(...peaks)
    return [
      {
        promise: `importing ${(keywords * days).toLocaleString('en')} ranks`,
        unit: 'rows/s',
        ...measured,
        goal: 'ratio >= 0.65',
      },
      {
        promise: 'memory of that import',
        unit: 'MB',
        ours: peak,
        floor: 200,
        ratio: peak / 200,
        goal: 'ratio <= 1',
      },
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
    await stage.close()
  }
}

// Tells how much memory the process held at most. On Linux the general answer counts the parent that it was forked from.
const preload = `data:text/javascript,${encodeURIComponent(`
  import { existsSync, readFileSync, writeFileSync } from 'node:fs'
  const status = '/proc/self/status'
  const peak = () => existsSync(status)
    ? /VmHWM:\\s+(\\d+)/.exec(readFileSync(status, 'utf8'))[1]
    : process.resourceUsage().maxRSS
  process.on('exit', () => writeFileSync(process.env.PEAK_FILE, String(peak())))
`)}`

async function runImport(
  stage: Stage,
  file: string,
  folder: string,
): Promise<{ seconds: number; peakMb: number }> {
  const peakFile = join(folder, 'peak')
  const startedAt = performance.now()
  const child = startImport(stage, file, { nodeArgs: ['--import', preload], env: { PEAK_FILE: peakFile } })
  let stdout = ''
  child.stdout.on('data', (data) => {
    stdout += data
  })
  await new Promise((resolve) => child.on('close', resolve))
  const seconds = (performance.now() - startedAt) / 1000
  const { inserted } = JSON.parse(stdout)
  if (inserted !== keywords * days) throw new Error(`Only ${inserted} rows were imported.`)
  return { seconds, peakMb: Number(readFileSync(peakFile, 'utf8')) / 1024 }
}

/** Rows that are ready to be stored, in one COPY per day. Only the copying is timed. */
async function copyRaw(stage: Stage): Promise<number> {
  const pool = new pg.Pool({ connectionString: stage.url, max: 1 })
  const client = await pool.connect()
  const { rows } = await client.query(
    `select id, key from batch.keyword where workspace_id = 'ws' order by key collate "C"`,
  )
  let seconds = 0
  for (let day = 0; day < days; day++) {
    const name = dayAt(day)
    const lines = rows.map(
      ({ id }, at) =>
        `ws\t${id}\t${name}\tnaver\tmobile\tKR\tranked\t${(at % 100) + 1}\t100\t\\N\t${name}T00:00:00.000Z\n`,
    )
    const bytes = Buffer.from(lines.join(''))
    const startedAt = performance.now()
    await copyIn(
      client,
      `copy batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, url, checked_at) from stdin`,
      bytes,
    )
    seconds += (performance.now() - startedAt) / 1000
  }
  client.release()
  await pool.end()
  return seconds
}

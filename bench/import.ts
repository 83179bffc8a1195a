import { spawn } from 'node:child_process'
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { copyIn } from '../src/batch/copy-in.ts'
import { type BenchResult, interleave } from './result.ts'
import { openStage, type Stage } from './stage.ts'

const keywords = 20_000
const days = 50

/** `rankledger import ranks` of a million rows, from start to exit, against raw COPY into the same table. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  const folder = mkdtempSync(join(tmpdir(), 'rankledger-bench-import-'))
  try {
    await prepare(stage)
    const file = join(folder, 'ranks.csv')
    await writeRanks(file)
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
      { promise: 'importing 1,000,000 ranks', unit: 'rows/s', ...measured, goal: 'ratio >= 0.5' },
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

async function prepare(stage: Stage): Promise<void> {
  await stage.db.query(
    `insert into batch.keyword (workspace_id, key, display, created_at)
     select 'ws', 'keyword ' || k, 'keyword ' || k, now() from generate_series(0, $1 - 1) k`,
    [keywords],
  )
  await stage.db.query('vacuum analyze batch.keyword')
  for (const month of ['2026-09-01', '2026-10-01'])
    await stage.db.query('select batch.ensure_rank_month($1)', [month])
}

const dayAt = (day: number) => new Date(Date.UTC(2026, 8, 1 + day)).toISOString().slice(0, 10)

async function writeRanks(path: string): Promise<void> {
  const file = createWriteStream(path)
  file.write('keyword,day,status,position,checked_at\n')
  for (let day = 0; day < days; day++) {
    const name = dayAt(day)
    let lines = ''
    for (let at = 0; at < keywords; at++)
      lines += `keyword ${at},${name},ranked,${((at + day) % 100) + 1},${name}T09:00:00+09:00\n`
    file.write(lines)
  }
  file.end()
  await finished(file)
}

// Tells how much memory the process held at most.
const preload = `data:text/javascript,${encodeURIComponent(
  'import { writeFileSync } from "node:fs"; process.on("exit", () => writeFileSync(process.env.PEAK_FILE, String(process.resourceUsage().maxRSS)))',
)}`

async function runImport(
  stage: Stage,
  file: string,
  folder: string,
): Promise<{ seconds: number; peakMb: number }> {
  const main = fileURLToPath(new URL('../dist/main.js', import.meta.url))
  const peakFile = join(folder, 'peak')
  const startedAt = performance.now()
  const child = spawn(
    process.execPath,
    ['--import', preload, main, 'import', 'ranks', file, '--workspace', 'ws', '--json'],
    {
      env: { PATH: process.env['PATH'], ...stage.environment, PEAK_FILE: peakFile },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  let stdout = ''
  child.stdout.on('data', (data) => (stdout += data))
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

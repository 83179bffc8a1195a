import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { sized } from './size.ts'
import type { Stage } from './stage.ts'

export const keywords = sized(20_000, 1_000)
export const days = 50

export const dayAt = (day: number) => new Date(Date.UTC(2026, 8, 1 + day)).toISOString().slice(0, 10)

/** Makes the keywords and months that a file of a million rank lines speaks of, and the file. */
export async function writeRanks(stage: Stage, folder: string): Promise<string> {
  await prepare(stage)
  const path = join(folder, 'ranks.csv')
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
  return path
}

/** `rankledger import ranks`, as a process of its own. */
export function startImport(
  stage: Stage,
  file: string,
  options: { nodeArgs?: string[]; env?: Record<string, string> } = {},
) {
  const main = fileURLToPath(new URL('../dist/main.js', import.meta.url))
  return spawn(
    process.execPath,
    [...(options.nodeArgs ?? []), main, 'import', 'ranks', file, '--workspace', 'ws', '--json'],
    {
      env: { PATH: process.env['PATH'], ...stage.environment, ...options.env },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
}

async function prepare(stage: Stage): Promise<void> {
  await stage.db.query(
    `insert into batch.keyword (workspace_id, key, display, created_at)
     select 'ws', 'keyword ' || k, 'keyword ' || k, now() from generate_series(0, $1 - 1) k`,
    [keywords],
  )
  await stage.db.query('vacuum analyze batch.keyword')
  for (const month of ['2026-09-01', '2026-10-01'])
    await stage.db.query(`select batch.ensure_month('rank', $1)`, [month])
}

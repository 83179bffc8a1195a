import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { BatchApp } from '../src/batch/app.ts'
import { readHistory } from '../src/batch/dataset/history-rows.ts'
import { distribute } from '../src/batch/distribution/distribute.ts'
import { registerKeywords } from '../src/batch/keywords/register-keywords.ts'
import { lookUpRanks } from '../src/batch/ranks/look-up-ranks.ts'
import { recordRanks } from '../src/batch/ranks/record-ranks.ts'
import { aggregateVolumes } from '../src/batch/volumes/aggregate-volumes.ts'
import { lookUpVolumes } from '../src/batch/volumes/look-up-volumes.ts'
import { recordVolumes } from '../src/batch/volumes/record-volumes.ts'
import { readConfig } from '../src/config.ts'
import { type Foundation, openFoundation } from '../src/foundation.ts'
import { migrate } from '../src/platform/database/migrate.ts'
import { migrateQueue } from '../src/platform/queue/queue.ts'
import { addDays } from '../src/platform/time.ts'
import { createClusterDatabase, dropOnNodes, listNodes } from '../test/citus.ts'

/**
 * `CITUS_URL=… npm run compare-nodes`: the same work on the coordinator alone and spread over the cluster, in turn, and the
 * median of both. On one machine it shows what distribution costs; what it gains takes machines of their own.
 */
const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '7' }, json: { type: 'boolean', default: false } },
})
const citusUrl = process.env['CITUS_URL']
if (!citusUrl) {
  process.stderr.write('Set CITUS_URL to the coordinator of a cluster; tools/citus-cluster.sh starts one.\n')
  process.exit(2)
}

const workspaces = 12
const words = Array.from({ length: 100 }, (_, at) => `keyword ${at}`)
const nodes = await listNodes(citusUrl)
const names = { one: `one_${process.pid}`, spread: `spread_${process.pid}` }
const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-nodes-'))
try {
  const one = await open(names.one, false)
  const spread = await open(names.spread, true)
  try {
    for (const { batch } of [one, spread]) await fill(batch)
    const figures = await compare(one.batch, spread.batch)
    if (values.json) process.stdout.write(`${JSON.stringify({ nodes: nodes.length, figures }, null, 2)}\n`)
    else
      for (const { work, oneMs, spreadMs } of figures)
        process.stdout.write(
          `${work.padEnd(52)} ${oneMs.toFixed(1).padStart(9)} ms ${spreadMs.toFixed(1).padStart(9)} ms   ${(spreadMs / oneMs).toFixed(2)}\n`,
        )
  } finally {
    await one.close()
    await spread.close()
  }
} finally {
  for (const name of Object.values(names)) await dropOnNodes(nodes, name)
  rmSync(dataDir, { recursive: true, force: true })
}

async function open(name: string, isSpread: boolean): Promise<Foundation> {
  const url = await createClusterDatabase(nodes, name)
  await migrate(url)
  await migrateQueue(url)
  if (isSpread) await distribute(url)
  const config = readConfig({
    DATABASE_URL: url,
    RANKLEDGER_DATA: dataDir,
    LOG_LEVEL: 'silent',
    VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
    WEBHOOK_SECRETS: `whsec_${randomBytes(32).toString('base64')}`,
  })
  return openFoundation(config, { name: 'compare', role: 'command', poolSize: 8 })
}

/** Ninety days of every keyword of every workspace, and a month of volumes. */
async function fill(app: BatchApp): Promise<void> {
  for (let number = 0; number < workspaces; number++) {
    await registerKeywords(app, workspaceOf(number), words)
    for (let day = 0; day < 90; day += 10) await recordRanks(app, workspaceOf(number), tenDays(day, 5))
  }
  await recordVolumes(app, observations('2026-01-15', 1))
  await aggregateVolumes(app)
}

async function compare(one: BatchApp, spread: BatchApp) {
  const figures: { work: string; oneMs: number; spreadMs: number }[] = []
  for (const [work, act] of Object.entries(works())) {
    const times: [number[], number[]] = [[], []]
    // The first round opens connections and prepares statements.
    for (let round = 0; round <= Number(values.rounds); round++) {
      for (const [at, app] of [one, spread].entries()) {
        const startedAt = performance.now()
        await act(app, round)
        if (round > 0) times[at]!.push(performance.now() - startedAt)
      }
    }
    figures.push({ work, oneMs: median(times[0]), spreadMs: median(times[1]) })
  }
  return figures
}

function works(): Record<string, (app: BatchApp, round: number) => Promise<unknown>> {
  const each = (act: (workspace: string) => Promise<unknown>) =>
    Promise.all(Array.from({ length: workspaces }, (_, number) => act(workspaceOf(number))))
  return {
    'register 100 new keywords': (app, round) => registerKeywords(app, `ws_new_${round}`, words),
    'register 100 known keywords': (app) => registerKeywords(app, workspaceOf(3), words),
    'store 1,000 ranks of one workspace': (app, round) =>
      recordRanks(app, workspaceOf(1), tenDays(0, 6 + round)),
    'store 1,000 ranks of each of 12, at once': (app, round) =>
      each((workspace) => recordRanks(app, workspace, tenDays(10, 6 + round))),
    'look up the ranks of a keyword': (app) =>
      lookUpRanks(app, workspaceOf(2), words[7]!, { from: '2026-01-01' }),
    'store 1,000 volumes and aggregate their 100 months': async (app, round) => {
      await recordVolumes(app, observations('2026-02-01', 100 + round))
      await aggregateVolumes(app)
    },
    'look up the volumes of a keyword': (app) => lookUpVolumes(app, words[7]!, {}),
    'read the whole history, 108,000 ranks': (app) => readHistory(app.db),
  }
}

function workspaceOf(number: number): string {
  return `ws_${number}`
}

function tenDays(from: number, position: number) {
  return Array.from({ length: 10 }, (_, at) => addDays('2026-01-01', from + at)).flatMap((day) =>
    words.map((keyword) => ({ keyword, day, status: 'ranked' as const, position })),
  )
}

/** Ten days of each keyword. */
function observations(from: string, volume: number) {
  return Array.from({ length: 10 }, (_, at) => addDays(from, at)).flatMap((day) =>
    words.map((keyword) => ({ keyword, source: 'naver', kind: 'day' as const, day, volume })),
  )
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!
}

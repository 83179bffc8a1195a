import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import type { BatchApp } from '../../src/batch/app.ts'
import { distribute } from '../../src/batch/distribution/distribute.ts'
import { registerKeywords } from '../../src/batch/keywords/register-keywords.ts'
import { lookUpRanks } from '../../src/batch/ranks/look-up-ranks.ts'
import { recordRanks } from '../../src/batch/ranks/record-ranks.ts'
import { aggregateVolumes } from '../../src/batch/volumes/aggregate-volumes.ts'
import { lookUpVolumes } from '../../src/batch/volumes/look-up-volumes.ts'
import { recordVolumes } from '../../src/batch/volumes/record-volumes.ts'
import { openProgress } from '../../src/cli/progress.ts'
import { readConfig } from '../../src/config.ts'
import { openFoundation } from '../../src/foundation.ts'
import { migrate } from '../../src/platform/database/migrate.ts'
import { migrateQueue } from '../../src/platform/queue/queue.ts'
import { createClusterDatabase, dropOnNodes, listNodes } from '../citus.ts'
import { type Check, none, report } from './report.ts'

/**
 * `CITUS_URL=… npm run rebalance-under-load`: the batch tables lie on all workers but one; while readers and writers go on,
 * the last one is added and takes its share of the shards. Every answer is compared with what was written before. Exit 0
 * only if none was wrong, none failed, and shards moved.
 */
const { values } = parseArgs({
  options: {
    workspaces: { type: 'string', default: '24' },
    lanes: { type: 'string', default: '4' },
    json: { type: 'string' },
  },
})

const words = Array.from({ length: 20 }, (_, at) => `keyword ${at}`)
const days = ['2026-01-30', '2026-01-31', '2026-02-01', '2026-02-02']

const nodes = await listNodes(process.env['CITUS_URL'] ?? missing())
const name = `rebalance_${process.pid}`
const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-rebalance-'))
const url = await createClusterDatabase(nodes, name, nodes.length - 1)
try {
  await migrate(url)
  await migrateQueue(url)
  await distribute(url)
  const foundation = await openFoundation(
    readConfig({
      DATABASE_URL: url,
      RANKLEDGER_DATA: dataDir,
      LOG_LEVEL: 'silent',
      VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
      WEBHOOK_SECRETS: `whsec_${randomBytes(32).toString('base64')}`,
    }),
    { name: 'rebalance', role: 'command', poolSize: 12 },
  )
  try {
    const { checks, details } = await rebalanceUnderLoad(foundation.batch)
    report('rebalance under load', checks, details, values.json)
  } finally {
    await foundation.close()
  }
} finally {
  await dropOnNodes(nodes, name)
  rmSync(dataDir, { recursive: true, force: true })
}

async function rebalanceUnderLoad(
  app: BatchApp,
): Promise<{ checks: Check[]; details: Record<string, unknown> }> {
  const load = await openLoad(app)
  const progress = openProgress('Answers', null)
  const ticker = setInterval(() => progress.show(load.tally.answers, `${load.tally.wrong.length} wrong`), 500)
  const lanes = load.start()
  await untilAnswered(load.tally, 200)

  const before = await shardsPerNode()
  const startedAt = performance.now()
  const answersBefore = load.tally.answers
  load.tally.longestMs = 0
  const last = new URL(nodes.at(-1)!)
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('set statement_timeout = 0')
  await client.query('select citus_add_node($1, $2)', [last.hostname, Number(last.port)])
  await client.query(`select rebalance_table_shards(shard_transfer_mode => 'auto')`)
  await client.end()
  const seconds = (performance.now() - startedAt) / 1000
  const during = load.tally.answers - answersBefore
  const { longestMs } = load.tally

  await untilAnswered(load.tally, 200)
  await load.stop(lanes)
  clearInterval(ticker)
  progress.end()
  const after = await shardsPerNode()
  const moved = Object.entries(after).reduce(
    (sum, [at, count]) => sum + Math.max(0, count - (before[at] ?? 0)),
    0,
  )
  const { tally } = load
  const lost = await load.countLost()
  return {
    checks: [
      {
        what: 'shards moved',
        measured: `${moved} in ${seconds.toFixed(1)} s`,
        goal: 'some',
        held: moved > 0,
      },
      { what: 'answers meanwhile', measured: String(during), goal: 'some', held: during > 0 },
      none('wrong answers', tally.wrong.length, tally.wrong),
      none('requests that failed', tally.failed.length, tally.failed),
      none('rows that are not as written, at the end', lost),
    ],
    details: {
      moved,
      seconds,
      answers: tally.answers,
      during,
      longest_ms: Math.round(longestMs),
      before,
      after,
    },
  }
}

/** How many shards each node holds. */
async function shardsPerNode(): Promise<Record<string, number>> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ at: string; n: number }>(
    `select n.nodename || ':' || n.nodeport as at, count(*)::int as n
     from pg_dist_placement p join pg_dist_node n on n.groupid = p.groupid where p.shardstate = 1 group by 1 order by 1`,
  )
  await client.end()
  return Object.fromEntries(rows.map(({ at, n }) => [at, n]))
}

type Tally = { answers: number; longestMs: number; wrong: string[]; failed: string[] }

/** Each lane owns its workspaces and knows what it wrote; so every answer can be told in advance. */
async function openLoad(app: BatchApp) {
  const tally: Tally = { answers: 0, longestMs: 0, wrong: [], failed: [] }
  const laneCount = Number(values.lanes)
  const workspaces = Array.from({ length: Number(values.workspaces) }, (_, at) => `ws_${at}`)
  const positions = new Map<string, number>()
  const volumes = new Map<string, number>()
  let isStopping = false

  const ask = async <T>(what: string, work: () => Promise<T>, isRight: (answer: T) => boolean) => {
    const askedAt = performance.now()
    try {
      const answer = await work()
      if (!isRight(answer)) tally.wrong.push(`${what}: ${JSON.stringify(answer, text)}`)
    } catch (error) {
      tally.failed.push(`${what}: ${(error as Error).message}`)
    }
    tally.answers++
    tally.longestMs = Math.max(tally.longestMs, performance.now() - askedAt)
  }

  const writeRanks = (workspace: string, position: number) => {
    const isNew = !positions.has(workspace)
    const count = words.length * days.length
    const told = days.flatMap((day) =>
      words.map((keyword) => ({ keyword, day, status: 'ranked' as const, position })),
    )
    positions.set(workspace, position)
    return ask(
      `ranks of ${workspace}`,
      () => recordRanks(app, workspace, told),
      ({ inserted, updated }) => (isNew ? inserted === count : updated === count && inserted === 0),
    )
  }
  const readRanks = (workspace: string, word: string) =>
    ask(
      `history of ${word} in ${workspace}`,
      () => lookUpRanks(app, workspace, word, { from: '2026-01-01', to: '2026-03-01' }),
      ({ page }) =>
        page.items.length === days.length &&
        page.items.every(({ position }) => position === positions.get(workspace)),
    )
  const register = (workspace: string) =>
    ask(
      `keywords of ${workspace}`,
      () => registerKeywords(app, workspace, words),
      ({ registered }) => registered === 0,
    )
  const writeVolume = async (word: string, volume: number) => {
    const isNew = !volumes.has(word)
    volumes.set(word, volume)
    await ask(
      `volume of ${word}`,
      () =>
        recordVolumes(app, [{ keyword: word, source: 'naver', kind: 'month', day: '2026-01-31', volume }]),
      ({ inserted, updated }) => (isNew ? inserted === 1 : updated === 1),
    )
  }

  for (const workspace of workspaces) {
    await registerKeywords(app, workspace, words)
    await writeRanks(workspace, 1)
  }

  /** One lane aggregates; the others leave volumes alone, so that its months too can be told in advance. */
  const aggregate = async (lane: number, round: number) => {
    if (lane !== 0) return
    const word = words[round % words.length]!
    await writeVolume(word, 100 + round)
    await ask(
      'aggregation',
      () => aggregateVolumes(app),
      ({ months }) => months === 1,
    )
    await ask(
      `months of ${word}`,
      () => lookUpVolumes(app, word, {}),
      ({ months }) => months.length === 1 && months[0]!.volume === volumes.get(word),
    )
  }
  const run = async (lane: number) => {
    const own = workspaces.filter((_, at) => at % laneCount === lane)
    for (let round = 1; !isStopping; round++) {
      const workspace = own[round % own.length]!
      await readRanks(workspace, words[round % words.length]!)
      await writeRanks(workspace, 1 + (round % 90) + 1)
      await readRanks(workspace, words[(round * 7) % words.length]!)
      await register(workspace)
      await aggregate(lane, round)
    }
  }

  return {
    tally,
    start: () => Array.from({ length: laneCount }, (_, lane) => run(lane)),
    async stop(lanes: readonly Promise<void>[]) {
      isStopping = true
      await Promise.all(lanes)
    },
    /** Rows of the table itself that are not what was written last. */
    async countLost(): Promise<number> {
      const { rows } = await app.pool.query<{ workspace_id: string; position: number; n: number }>(
        'select workspace_id, position, count(*)::int as n from batch.rank group by 1, 2',
      )
      const right = rows.filter(({ workspace_id, position }) => positions.get(workspace_id) === position)
      const whole = workspaces.length * words.length * days.length
      return whole - right.reduce((sum, { n }) => sum + n, 0) + (rows.length - right.length)
    },
  }
}

async function untilAnswered(tally: Tally, more: number): Promise<void> {
  const wanted = tally.answers + more
  while (tally.answers < wanted) await new Promise((resolve) => setTimeout(resolve, 50))
}

function text(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

function missing(): never {
  process.stderr.write('Set CITUS_URL to the coordinator of a cluster; tools/citus-cluster.sh starts one.\n')
  process.exit(2)
}

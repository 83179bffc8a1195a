import { parseArgs } from 'node:util'
import pg from 'pg'
import { migrate } from '../../src/platform/database/migrate.ts'
import { migrateQueue } from '../../src/platform/queue/queue.ts'
import { databaseUrl } from '../postgres.ts'
import { openThrowawayServer } from '../throwaway-server.ts'
import { cutOrders, explore, type Shape, survey } from './explore.ts'
import { type Grain, type Order, readOrder, threeSwitches } from './orders.ts'
import type { Pair } from './pair.ts'
import { allPairs } from './pairs/all-pairs.ts'
import { openPathMemory } from './path-memory.ts'
import { openStage, type Stage } from './stage.ts'

/**
 * Runs every schedule of every pair, by cuts and by statements: `tsx test/interleavings/all.ts [PAIR …] [--grain cuts |
 * statements]`. Orders that come down to one already run are not run again, unless `--every`. With `--order` it replays
 * one schedule of one pair.
 */
const { values, positionals } = parseArgs({
  options: {
    grain: { type: 'string' },
    order: { type: 'string' },
    every: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
const unknown = positionals.filter((name) => !allPairs.some((pair) => pair.name === name))
if (unknown.length > 0 || (values.order !== undefined && positionals.length !== 1)) {
  process.stderr.write(`Name one or more of ${allPairs.map(({ name }) => name).join(', ')}.\n`)
  process.exit(2)
}
const grains: Grain[] = values.grain === undefined ? ['cuts', 'statements'] : [values.grain as Grain]

const lanes = 2
const server = await openThrowawayServer('interleavings')
const tasks = allPairs
  .filter(({ name }) => positionals.length === 0 || positionals.includes(name))
  .flatMap((pair) => grains.map((grain) => ({ pair, grain })))
let failed = false
try {
  await Promise.all(Array.from({ length: Math.min(lanes, tasks.length) }, (_, at) => runLane(`lane_${at}`)))
} finally {
  await server.close()
}
process.exitCode = failed ? 1 : 0

/** Takes pairs from the list until it is empty, on a database of its own. */
async function runLane(name: string): Promise<void> {
  const stage = await openStage(await makeDatabase(name))
  try {
    for (let task = tasks.shift(); task; task = tasks.shift())
      failed = !(await prove(stage, task.pair, task.grain)) || failed
  } finally {
    await stage.close()
  }
}

async function makeDatabase(name: string): Promise<string> {
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  await client.query(`create database ${name}`)
  await client.end()
  const url = databaseUrl(server.url, name)
  await migrate(url)
  await migrateQueue(url)
  return url
}

async function prove(stage: Stage, pair: Pair, grain: Grain): Promise<boolean> {
  const startedAt = performance.now()
  const { shape, ...surveyed } = await survey(stage, pair)
  const orders = ordersOf(shape, grain)
  const memory = values.every ? undefined : openPathMemory()
  const explored = await explore(stage, pair, shape.cuts, orders, memory)
  const failures = [...surveyed.failures, ...explored.failures]
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  const size =
    grain === 'cuts'
      ? `A: ${shape.points.A.join(', ')}; B: ${shape.points.B.join(', ')}`
      : `A: ${shape.statements.A}, B: ${shape.statements.B} statements`
  process.stdout.write(
    `${failures.length === 0 ? 'holds ' : 'BROKEN'} ${pair.name} by ${grain}: ${orders.length} orders, ` +
      `${explored.runs.length} run after ${surveyed.runs.length} to look around, ${seconds} s (${size})\n`,
  )
  for (const failure of failures) process.stdout.write(`${failure}\n\n`)
  return failures.length === 0
}

function ordersOf(shape: Shape, grain: Grain): Order[] {
  if (values.order !== undefined) return [readOrder(values.order, grain)]
  return grain === 'cuts' ? cutOrders(shape) : threeSwitches(shape.statements.A, shape.statements.B)
}

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { isLockTimeout } from '../../platform/database/database-errors.ts'
import { lockMigrations } from '../../platform/database/migrate.ts'
import {
  analyzeTable,
  countRowsOfTable,
  type Distribution,
  distributeTable,
  findDistribution,
  keepConnections,
  listLeaves,
  lockOutWriters,
  measureLeftover,
  removeLeftover,
} from './distribution-rows.ts'

/**
 * Tables whose rows lie together: statements join those of one workspace, or of one keyword's volumes, and so each of them
 * concerns one machine. Everything else stays on the coordinator: runs, models, the schedule and imports are few rows, and
 * trackers and checks are a queue that all workers claim from in one order, which takes locks that no two machines share.
 */
export const groups = [
  { by: 'workspace_id', tables: ['keyword', 'rank', 'dropped_best_rank', 'prediction'], shards: 16 },
  // A write of volumes reaches every shard, each over a connection of its own: fewer are faster.
  { by: 'key', tables: ['volume_observation', 'monthly_volume', 'dirty_month', 'keyword_trend'], shards: 8 },
] as const

export type DistributeOptions = {
  readonly workspaceShards?: number | undefined
  readonly volumeShards?: number | undefined
  readonly onProgress?: (progress: { rows: number; of: number; note: string }) => void
}

export type Distributed = {
  /** What this run spread; the others were spread already. */
  readonly distributed: readonly { table: string; rows: number }[]
  /** Bytes of copied rows that were taken away from where they lay before. */
  readonly freedBytes: number
  readonly now: Distribution
}

/** What is asked for cannot be done here, or not now; the sentence says why. */
export class DistributionRefused extends Error {
  override readonly name = 'DistributionRefused'
}

/**
 * Spreads the batch tables over the nodes of a Citus cluster. Each group goes in one transaction, so nobody ever sees a
 * half of it: readers go on with the old rows, writers wait. Stopped at any moment, the next run goes on with the group
 * that was under way; what is done already is passed over.
 */
export async function distribute(url: string, options: DistributeOptions = {}): Promise<Distributed> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'rankledger distribute',
    keepAlive: true,
  })
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query('set statement_timeout = 0')
    requireCluster(await findDistribution(client))
    const distributed: { table: string; rows: number }[] = []
    for (const group of groups) distributed.push(...(await distributeGroup(client, group, options)))
    let freedBytes = 0
    for (const table of groups.flatMap(({ tables }) => tables))
      freedBytes += await freeLeftover(client, table)
    await keepConnections(client)
    for (const { table } of distributed) await analyzeTable(client, table)
    return { distributed, freedBytes, now: await findDistribution(client) }
  } finally {
    await client.end().catch(() => {})
  }
}

function requireCluster({ citus, nodes }: Distribution): void {
  if (citus === null)
    throw new DistributionRefused(
      'This database has no Citus: install the extension on every node and run `create extension citus` in it first (docs/scaling.md).',
    )
  if (nodes === 0)
    throw new DistributionRefused(
      'No node of this cluster takes shards: add workers with `select citus_add_node(host, port)` first (docs/scaling.md).',
    )
}

async function distributeGroup(
  client: pg.Client,
  group: (typeof groups)[number],
  { workspaceShards, volumeShards, onProgress }: DistributeOptions,
): Promise<{ table: string; rows: number }[]> {
  const shards = (group.by === 'key' ? volumeShards : workspaceShards) ?? group.shards
  await client.query('begin')
  try {
    // No migration and no second run of this changes the tables meanwhile.
    await lockMigrations(client)
    await client.query("set local lock_timeout = '15s'")
    const { tables: present } = await findDistribution(client)
    const missing = group.tables.filter((table) => !present.some((one) => one.table === table))
    if (missing.length === 0) {
      await client.query('rollback')
      return []
    }
    await lockOutWriters(client, missing)
    const rows = new Map<string, number>()
    for (const table of missing) {
      for (const leaf of await listLeaves(client, table)) rows.set(leaf, await countRowsOfTable(client, leaf))
    }
    const stopTelling = tellCopies(client, rows, onProgress)
    const done: { table: string; rows: number }[] = []
    for (const table of missing) {
      const before = await countRowsOfTable(client, table)
      const [first] = group.tables
      await distributeTable(client, table, group.by, table === first ? { shards } : { beside: first })
      const after = await countRowsOfTable(client, table)
      if (after !== before)
        throw new Error(`${table} has ${after} rows on the nodes and had ${before}; nothing was changed.`)
      done.push({ table, rows: after })
    }
    await client.query('commit')
    stopTelling()
    return done
  } catch (error) {
    await client.query('rollback').catch(() => {})
    if (isLockTimeout(error))
      throw new DistributionRefused(
        'A long transaction writes to the batch tables; nothing of this group was changed, so wait for it or stop the service, and run this again.',
      )
    throw error
  }
}

/** The extension says with a notice that a table is copied, and names it in the hint. */
function tellCopies(
  client: pg.Client,
  rows: ReadonlyMap<string, number>,
  onProgress: DistributeOptions['onProgress'],
): () => void {
  const of = [...rows.values()].reduce((sum, count) => sum + count, 0)
  let copied = 0
  const listen = ({ message, hint }: { message?: string | undefined; hint?: string | undefined }) => {
    const leaf = /\$\$"?batch"?\."?(\w+)"?\$\$/.exec(hint ?? '')?.[1]
    if (leaf === undefined || !/has completed/.test(message ?? '')) return
    copied += rows.get(leaf) ?? 0
    onProgress?.({ rows: copied, of, note: leaf })
  }
  onProgress?.({ rows: 0, of, note: '' })
  client.on('notice', listen)
  return () => client.off('notice', listen)
}

const mostTries = 60
const pauseMs = 1_000

/** Whoever still reads the old rows is waited for, a moment at a time, so that nobody waits behind us for long. */
async function freeLeftover(client: pg.Client, table: string): Promise<number> {
  const bytes = await measureLeftover(client, table)
  if (bytes === 0) return 0
  await client.query("set lock_timeout = '500ms'")
  for (let tries = 1; ; tries++) {
    try {
      await removeLeftover(client, table)
      return bytes
    } catch (error) {
      if (!isLockTimeout(error)) throw error
      if (tries === mostTries)
        throw new DistributionRefused(
          `${table} is spread, but its old rows are being read all the time and still take room; run this again later.`,
        )
      await sleep(pauseMs)
    }
  }
}

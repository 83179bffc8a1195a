import {
  type Distributed,
  DistributionRefused,
  distribute,
  groups,
} from '../batch/distribution/distribute.ts'
import { type Distribution, findDistribution } from '../batch/distribution/distribution-rows.ts'
import type { Foundation } from '../foundation.ts'
import { CommandFailed, print, printJson, UsageError } from './command.ts'
import { openProgress } from './progress.ts'

export type DistributeFlags = {
  json: boolean
  shards?: string | undefined
  'volume-shards'?: string | undefined
}

/** Spreads the batch tables over a Citus cluster, or says in a sentence why not. */
export async function distributeTables(app: Foundation, flags: DistributeFlags): Promise<number> {
  const progress = openProgress('Rows copied', null)
  const done = await distribute(app.database.sessionUrl, {
    workspaceShards: shardsIn(flags.shards),
    volumeShards: shardsIn(flags['volume-shards']),
    onProgress: ({ rows, of, note }) => progress.show(rows, `of ${of}${note && `, ${note}`}`),
  }).catch((error: unknown) => {
    throw explained(error)
  })
  progress.end()
  if (flags.json) printJson(viewOf(done))
  else {
    for (const { table, rows } of done.distributed) print(`Distributed batch.${table}: ${rows} rows`)
    if (done.distributed.length === 0) print('Everything was distributed already.')
    if (done.freedBytes > 0)
      print(`${(done.freedBytes / 1_048_576).toFixed(1)} MiB are free again on the coordinator.`)
    print(sentenceOf(done.now))
  }
  return 0
}

function viewOf({ distributed, freedBytes, now }: Distributed) {
  return { distributed, freed_bytes: freedBytes, ...describe(now) }
}

/** What `db status` and `doctor` tell of it: null on an ordinary PostgreSQL. */
export async function statusOfDistribution(app: Pick<Foundation, 'pool'>) {
  const found = await findDistribution(app.pool)
  return found.citus === null ? null : { ...describe(found), text: sentenceOf(found) }
}

function describe({ citus, nodes, tables }: Distribution) {
  return { citus: citus!, nodes, tables, whole: isWhole(tables) }
}

function sentenceOf({ citus, nodes, tables }: Distribution): string {
  const machines = `${nodes} ${nodes === 1 ? 'node' : 'nodes'} (Citus ${citus})`
  if (tables.length === 0) return `Citus ${citus} is there, and nothing is distributed`
  if (!isWhole(tables))
    return `${tables.length} batch tables are distributed over ${machines}, others not; run \`rankledger db distribute\` again`
  return `The batch tables are distributed over ${machines}`
}

function isWhole(tables: Distribution['tables']): boolean {
  return groups.flatMap((group) => group.tables).every((name) => tables.some(({ table }) => table === name))
}

function shardsIn(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new UsageError('A number of shards lies between 1 and 9999.')
  return Number(text)
}

function explained(error: unknown): unknown {
  if (error instanceof DistributionRefused) return new CommandFailed(error.message)
  if ((error as { code?: string }).code === '42501')
    return new CommandFailed(
      'This role may not distribute the tables: run it as the one that owns them, which migrates.',
    )
  return error
}

import type pg from 'pg'

/** How the batch tables are spread over machines. */
export type Distribution = {
  /** Version of the extension; null: this database has none. */
  readonly citus: string | null
  /** Nodes that take shards. */
  readonly nodes: number
  readonly tables: readonly DistributedTable[]
}

export type DistributedTable = { readonly table: string; readonly by: string; readonly shards: number }

/** Looks and changes nothing; works on every PostgreSQL. */
export async function findDistribution(db: pg.Pool | pg.Client): Promise<Distribution> {
  const { rows: found } = await db.query<{ version: string }>(
    `select extversion as version from pg_extension where extname = 'citus'`,
  )
  const citus = found[0]?.version ?? null
  if (citus === null) return { citus, nodes: 0, tables: [] }
  const { rows: nodes } = await db.query<{ n: number }>(
    'select count(*)::int as n from pg_dist_node where isactive and shouldhaveshards',
  )
  const { rows: tables } = await db.query<DistributedTable>(
    // Not from the view citus_tables, which asks every node how large its shards are.
    `select c.relname as "table", column_to_column_name(p.logicalrelid, p.partkey) as by,
            (select count(*)::int from pg_dist_shard s where s.logicalrelid = p.logicalrelid) as shards
     from pg_dist_partition p join pg_class c on c.oid = p.logicalrelid
     where c.relnamespace = 'batch'::regnamespace and not c.relispartition and p.partmethod = 'h'
     order by 1`,
  )
  return { citus, nodes: nodes[0]!.n, tables }
}

// A table without months has no partition tree.
const isLeaf = `c.relkind = 'r' and (c.oid = $1::regclass or c.oid in (select relid from pg_partition_tree($1::regclass)))`

/** The tables that hold the rows of a table: itself, or its months. */
export async function listLeaves(client: pg.Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select c.relname as name from pg_class c where ${isLeaf} order by 1`,
    [`batch.${table}`],
  )
  return rows.map(({ name }) => name)
}

export async function countRowsOfTable(client: pg.Client, table: string): Promise<number> {
  const { rows } = await client.query<{ n: number }>(`select count(*)::float8 as n from batch.${table}`)
  return rows[0]!.n
}

/** Keeps writers out, and lets readers in, until the transaction ends. */
export async function lockOutWriters(client: pg.Client, tables: readonly string[]): Promise<void> {
  await client.query(`lock table ${tables.map((table) => `batch.${table}`).join(', ')} in exclusive mode`)
}

/** Spreads a table and all its rows, beside those of another one or as the first of its kind. */
export async function distributeTable(
  client: pg.Client,
  table: string,
  by: string,
  placing: { beside: string } | { shards: number },
): Promise<void> {
  // A foreign key cannot lead from many machines to a table of one. Models are never deleted, so nothing watches less.
  if (table === 'prediction')
    await client.query('alter table batch.prediction drop constraint if exists prediction_model_id_fkey')
  if ('beside' in placing)
    await client.query('select create_distributed_table($1::regclass, $2, colocate_with => $3)', [
      `batch.${table}`,
      by,
      `batch.${placing.beside}`,
    ])
  else
    await client.query(
      `select create_distributed_table($1::regclass, $2, shard_count => $3, colocate_with => 'none')`,
      [`batch.${table}`, by, placing.shards],
    )
}

/** Bytes of rows that were copied to their shards and still lie, unseen, where they were before. */
export async function measureLeftover(client: pg.Client, table: string): Promise<number> {
  const { rows } = await client.query<{ bytes: number }>(
    `select coalesce(sum(pg_relation_size(c.oid)), 0)::float8 as bytes from pg_class c where ${isLeaf}`,
    [`batch.${table}`],
  )
  return rows[0]!.bytes
}

export async function removeLeftover(client: pg.Client, table: string): Promise<void> {
  await client.query('select truncate_local_data_after_distributing_table($1::regclass)', [`batch.${table}`])
}

/**
 * A statement over many shards opens a connection for each, and by default keeps only one: opening them anew costs more
 * than the statement itself.
 */
export async function keepConnections(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>('select quote_ident(current_database()) as name')
  await client.query(`alter database ${rows[0]!.name} set citus.max_cached_conns_per_worker = 4`)
}

export async function analyzeTable(client: pg.Client, table: string): Promise<void> {
  await client.query(`analyze batch.${table}`)
}

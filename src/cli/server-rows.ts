import type pg from 'pg'

/** How much a database holds, and of which release. */
export type DatabaseMeasure = { bytes: bigint; version: string; migrations: number }

export async function measureDatabase(pool: pg.Pool): Promise<DatabaseMeasure> {
  const { rows } = await pool.query<DatabaseMeasure>(
    `select pg_database_size(current_database()) as bytes, current_setting('server_version') as version,
       (select count(*)::int from platform.migration) as migrations`,
  )
  return rows[0]!
}

/** A server as this connection meets it; asked before anything of ours need be in its database. */
export type ServerState = {
  version: string
  encoding: string
  /** Milliseconds since 1970 by the server's clock. */
  now: string
  read_only: 'on' | 'off'
  most_connections: number
  used_connections: number
  bytes: string
  /** Null: the role may not see it. */
  encrypted: boolean | null
}

export async function readServerState(client: pg.Client): Promise<ServerState> {
  const { rows } = await client.query<ServerState>(
    `select current_setting('server_version') as version, current_setting('server_encoding') as encoding,
       extract(epoch from clock_timestamp()) * 1000 as now, current_setting('transaction_read_only') as read_only,
       current_setting('max_connections')::int as most_connections,
       (select count(*)::int from pg_stat_activity) as used_connections,
       pg_database_size(current_database()) as bytes,
       (select ssl from pg_stat_ssl where pid = pg_backend_pid()) as encrypted`,
  )
  return rows[0]!
}

export async function findRole(pool: pg.Pool, name: string): Promise<{ isSuperuser: boolean } | undefined> {
  const { rows } = await pool.query<{ isSuperuser: boolean }>(
    'select rolsuper as "isSuperuser" from pg_roles where rolname = $1',
    [name],
  )
  return rows[0]
}

/** All of them or none. */
export async function applyGrants(pool: pg.Pool, statements: readonly string[]): Promise<void> {
  await pool.query(['begin;', ...statements, 'commit;'].join('\n'))
}

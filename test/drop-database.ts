import type pg from 'pg'

/**
 * Drops a database that sessions of ours may still be in. Not `with (force)`: that is refused while the server's own vacuum
 * is at work there, and that one gives way by itself.
 */
export async function dropIfThere(client: pg.ClientBase, name: string): Promise<void> {
  await client.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and usename = current_user',
    [name],
  )
  await client.query(`drop database if exists ${name}`)
}

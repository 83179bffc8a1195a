import { createHash } from 'node:crypto'
import type { PostgresPool, PostgresPoolClient } from 'kysely'
import type pg from 'pg'

/**
 * A pool on which a statement that comes again is parsed and planned once per connection: for the larger ones that is
 * most of their cost. `begin` is how its transactions begin.
 */
export function preparing(pool: pg.Pool, begin: string): PostgresPool {
  const clients = new WeakMap<pg.PoolClient, PostgresPoolClient>()
  const nameOf = openNames()
  return {
    async connect() {
      const client = await pool.connect()
      const known = clients.get(client)
      if (known) return known
      const made = preparingClient(client, nameOf, begin)
      clients.set(client, made)
      return made
    },
    end: () => pool.end(),
  }
}

function preparingClient(
  client: pg.PoolClient,
  nameOf: (text: string) => string | undefined,
  begin: string,
): PostgresPoolClient {
  const query = (asked: string, values: readonly unknown[]) => {
    const text = asked === 'begin' ? begin : asked
    const name = values.length > 0 ? nameOf(text) : undefined
    return client.query({ ...(name !== undefined && { name }), text, values: [...values] })
  }
  // The query builder also offers cursors to whoever brings a cursor class; nobody here does.
  return { query: query as unknown as PostgresPoolClient['query'], release: () => client.release() }
}

// Texts that never end (lists of every length) must not fill the memory of a process or of the database.
const mostTexts = 1_000

/**
 * The name is the text's hash, so that no name ever stands for another statement, and is given at the second use.
 * A statement that answers with "all columns" has none: a column added under a running process would break its plan.
 */
function openNames(): (text: string) => string | undefined {
  const names = new Map<string, string | undefined>()
  return (text) => {
    if (names.has(text)) {
      const name = names.get(text) ?? createHash('sha256').update(text).digest('base64url').slice(0, 24)
      names.set(text, name)
      return name
    }
    if (names.size < mostTexts && !/^\s*select \*|\.\*|returning \*/i.test(text)) names.set(text, undefined)
    return undefined
  }
}

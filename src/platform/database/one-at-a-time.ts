import pg from 'pg'

/**
 * Does a work unless somebody else is at the one of this name in the same database; undefined then, and nothing was done. The
 * lock lives and dies with a transaction on a connection of its own, so that neither a pooler nor a killed process can leave it
 * behind. That transaction reads and writes nothing, so it holds up nobody, however long the work takes.
 *
 * Should its connection be lost, the work goes on and somebody else may begin: this keeps two apart that meet by chance, and
 * what they work on has to bear it if they do meet.
 */
export async function oneAtATime<T extends object>(
  url: string,
  name: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  const client = new pg.Client({
    connectionString: url,
    application_name: `rankledger ${name}`,
    connectionTimeoutMillis: 5_000,
    query_timeout: 10_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('begin')
    await client.query(holdOut)
    // Without parameters: what a statement with some has read stays in sight until the next one, and is not cleaned up.
    const { rows } = await client.query(
      `select pg_try_advisory_xact_lock(hashtext(${pg.escapeLiteral(name)})) as got`,
    )
    return rows[0].got ? await work() : undefined
  } finally {
    // Who comes next finds it free as soon as we are done, and not when the server notices that we are gone.
    await client.query('rollback').catch(() => {})
    await client.end().catch(() => {})
  }
}

// The server ends no transaction that waits for its work, whatever the role's own limits are. A machine that vanished without
// a word is noticed within about a minute. Older servers know only some of these.
const holdOut = `
  select set_config(name, given, true) from pg_settings join (values
    ('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0'),
    ('tcp_keepalives_idle', '30'), ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count', '3')
  ) as wanted (name, given) using (name)`

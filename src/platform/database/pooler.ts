import pg from 'pg'
import { type PoolLimits, signInOf } from './db.ts'

/** What stands behind a database URL. */
export type Connection = {
  /**
   * `none`: a server of one's own. `session`: a pooler that lends one. `transaction`: it is shared in between. `statement`:
   * it is shared after every statement, and there are no transactions.
   */
  readonly pooling: 'none' | 'session' | 'transaction' | 'statement'
  /** Whether limits may be set at sign-in. A pooler refuses what it does not know. */
  readonly takesSettings: boolean
}

/** What the pools behind that URL will have. */
type LookLimits = Pick<PoolLimits, 'connectTimeoutMs' | 'queryTimeoutMs'>

/** Whether what a session holds, a lock or a prepared statement, may end up with somebody else. */
export function sharesSessions({ pooling }: Connection): boolean {
  return pooling === 'transaction' || pooling === 'statement'
}

/**
 * A pooler signs its clients in itself, under process numbers of its own, so that the number told at sign-in differs
 * from the one that the session tells. Whether sessions are shared shows when a second client gets the first one's.
 */
export async function lookAtConnection(url: string, limits: LookLimits): Promise<Connection> {
  let takesSettings = true
  const first = await signIn(url, limits, takesSettings).catch((error: Error) => {
    if (!/unsupported startup parameter/.test(error.message)) throw error
    takesSettings = false
    return signIn(url, limits, takesSettings)
  })
  try {
    const session = await sessionOf(first)
    // biome-ignore lint/suspicious/noExplicitAny: newer than the driver's types
    if (session === (first as any).processID) return { pooling: 'none', takesSettings }
    return { pooling: await sharingOf(() => signIn(url, limits, takesSettings), session), takesSettings }
  } finally {
    await first.end().catch(() => {})
  }
}

/** Several clients at once, each inside a transaction: one of them gets the first one's session if it is up for sharing. */
async function sharingOf(
  signInAgain: () => Promise<pg.Client>,
  session: number,
): Promise<'session' | 'transaction' | 'statement'> {
  const others: pg.Client[] = []
  try {
    for (let tries = 0; tries < 3; tries++) {
      const other = await signInAgain()
      others.push(other)
      await other.query('begin')
      if ((await sessionOf(other)) === session) return 'transaction'
    }
    return 'session'
  } catch (error) {
    // No room for another client: nothing is known, and the worse is assumed.
    return /statement pooling mode/.test(String(error)) ? 'statement' : 'transaction'
  } finally {
    for (const other of others) await other.end().catch(() => {})
  }
}

async function sessionOf(client: pg.Client): Promise<number> {
  return (await client.query('select pg_backend_pid() as pid')).rows[0].pid
}

async function signIn(url: string, limits: LookLimits, serverLimits: boolean): Promise<pg.Client> {
  const client = new pg.Client({
    ...signInOf(url, 'rankledger start', { ...limits, serverLimits }),
    query_timeout: limits.connectTimeoutMs,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return client
  } catch (error) {
    await client.end().catch(() => {})
    throw error
  }
}

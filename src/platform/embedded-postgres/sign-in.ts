import { Client, DatabaseError } from 'pg'
import { databaseOwner } from './create-cluster.ts'

/** The port names the server either way; whoever knows the folder of its socket file goes through that. */
export function urlFor(port: number, password: string, socketFolder: string | null): string {
  const url = `postgres://${databaseOwner}:${password}@127.0.0.1:${port}/${databaseOwner}`
  return socketFolder === null ? url : `${url}?host=${encodeURIComponent(socketFolder)}`
}

/**
 * Who knows the password knows the cluster, on both sides: SCRAM lets the server prove it too. `later` means that it
 * does not serve yet, or not any more.
 */
export async function trySignIn(url: string): Promise<'welcome' | 'refused' | 'later'> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
  client.on('error', () => {})
  try {
    await client.connect()
    return 'welcome'
  } catch (error) {
    const state = error instanceof DatabaseError ? (error.code ?? '') : ''
    // Every place taken: it serves, and only has no room for this question.
    if (state === '53300') return 'welcome'
    return state.startsWith('28') ? 'refused' : 'later'
  } finally {
    await client.end().catch(() => {})
  }
}

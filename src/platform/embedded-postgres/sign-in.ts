import { Client, DatabaseError } from 'pg'
import { databaseOwner } from './create-cluster.ts'

export function urlFor(port: number, password: string): string {
  return `postgres://${databaseOwner}:${password}@127.0.0.1:${port}/${databaseOwner}`
}

/**
 * Who knows the password knows the cluster, on both sides: SCRAM lets the server prove it too. `later` means that it
 * does not serve yet, or not any more.
 */
export async function trySignIn(port: number, password: string): Promise<'welcome' | 'refused' | 'later'> {
  const client = new Client({ connectionString: urlFor(port, password), connectionTimeoutMillis: 5_000 })
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

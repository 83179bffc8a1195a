import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type pg from 'pg'
import { refuse } from './refusals.ts'

/** The key that opens the provider of this book. */
export async function readSecretKey(pool: pg.Pool): Promise<string> {
  const { rows } = await pool.query<{ key: string }>('select key from sandbox.secret_key')
  return rows[0]!.key
}

/** Refuses whoever does not bring one of the keys. Digests are compared, so that the time it takes tells nothing. */
export function requireOneOf(keys: readonly string[]): (request: FastifyRequest) => Promise<void> {
  const digests = keys.map(digestOf)
  return async ({ headers }) => {
    const given = digestOf(/^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? '')
    if (!digests.some((digest) => timingSafeEqual(digest, given))) throw refuse('unauthorized')
  }
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/** Simulators of other providers open to whoever brings credentials at all; their routes look at the form. */
export async function requireSomeCredentials({ headers }: FastifyRequest): Promise<void> {
  if (!headers.authorization) throw refuse('unauthorized')
}

import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { newId } from '../../platform/id.ts'
import { TossError } from './toss-errors.ts'

/** Key, secret key, URL and method tell a request from another; its body does not. */
export function keyOf(request: FastifyRequest): { given: string; key: string; fingerprint: Buffer } {
  const given = request.headers['idempotency-key']
  if (typeof given === 'string' && given.length > 300) throw new TossError('INVALID_IDEMPOTENCY_KEY')
  const name = typeof given === 'string' && given !== '' ? given : newId('req_')
  const place = `${request.method} ${request.url} ${request.headers.authorization} ${name}`
  return {
    given: name,
    key: `toss ${createHash('sha256').update(place).digest('hex')}`,
    fingerprint: Buffer.alloc(0),
  }
}

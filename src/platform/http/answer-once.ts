import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Db, Tx } from '../db.ts'
import {
  type Answer,
  endLease,
  fingerprintsOf,
  type IdempotencyTables,
  keepAnswer,
  type OnceKey,
  once,
  readKey,
} from '../idempotency.ts'
import { Refusal } from '../refusal.ts'
import type { VaultKey } from '../vault.ts'
import { envelope, errorAnswer } from './answers.ts'

export type OnceContext<T> = {
  db: Db<T>
  now: Date
  /** How long a first request may run before a repeat takes over. */
  leaseMs: number
  keys: readonly [VaultKey, ...VaultKey[]]
}

/**
 * A route whose retries are safe. `begin` records the intent in the transaction that claims the key, `finish` does or
 * continues the recorded work and may run any number of times. What is answered first is kept to the byte.
 */
export async function answerOnce<T extends IdempotencyTables>(
  context: OnceContext<T>,
  request: FastifyRequest,
  reply: FastifyReply,
  begin: (tx: Tx<T>) => Promise<string>,
  finish: (intent: string) => Promise<{ status: number; data: unknown }>,
): Promise<never> {
  const key = readKey(request.headers['idempotency-key'])
  if (key === undefined) {
    const intent = await context.db.transaction().execute(begin)
    const { status, data } = await finish(intent)
    return sent(reply.code(status).send(envelope(data)))
  }

  const use: OnceKey = {
    scope: scopeOf(request),
    key,
    fingerprints: fingerprintsOf(context.keys, request.body),
  }
  const claim = await context.db
    .transaction()
    .execute((tx) => once(tx, use, context.now, context.leaseMs, () => begin(tx)))
  if (claim.kind === 'replay') {
    reply.header('idempotent-replayed', 'true')
    return sent(sendBytes(reply, claim.answer))
  }
  const answer = await finishOnce(context.db, use, request, reply, () => finish(claim.intent))
  if (claim.kind === 'continue') reply.header('idempotent-replayed', 'true')
  return sent(sendBytes(reply, answer))
}

async function finishOnce<T extends IdempotencyTables>(
  db: Db<T>,
  use: OnceKey,
  request: FastifyRequest,
  reply: FastifyReply,
  finish: () => Promise<{ status: number; data: unknown }>,
): Promise<Answer> {
  try {
    const { status, data } = await finish()
    const answer = { status, body: Buffer.from(reply.code(status).serialize(envelope(data)) as string) }
    await keepAnswer(db, use, answer)
    return answer
  } catch (error) {
    if (!(error instanceof Refusal)) {
      // Nobody knows what was done; the recorded work stays, and the next repeat goes on with it.
      await endLease(db, use).catch(() => {})
      throw error
    }
    const { status, headers, body } = errorAnswer(error, request.id)
    const answer = { status, body: Buffer.from(JSON.stringify(body)) }
    await keepAnswer(db, use, answer)
    reply.headers(headers)
    return answer
  }
}

/** Tokens of one binding share their keys, so that a rotated token still finds its retry. */
function scopeOf(request: FastifyRequest): string {
  const { workspace, account } = request.principal
  return `${workspace ?? '-'} ${account ?? '-'} ${request.method} ${request.routeOptions.url}`
}

function sendBytes(reply: FastifyReply, answer: Answer): FastifyReply {
  return reply
    .code(answer.status)
    .header('content-type', 'application/json; charset=utf-8')
    .send(answer.body.toString('utf8'))
}

/** The framework wants the reply back to know that it was answered; a route's own type need not know. */
function sent(reply: FastifyReply): never {
  return reply as never
}

import type { FastifyReply, FastifyRequest } from 'fastify'
import { isDatabaseUnavailable, isRefusedByServer } from '../database-errors.ts'
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
import { OutcomeUnknown } from './outcome-unknown.ts'

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
  // From here on the intent may be there, whatever becomes of the connection that commits it.
  let begun = false
  const beginKnowingly = async (tx: Tx<T>) => {
    const intent = await begin(tx)
    begun = true
    return intent
  }
  let recorded = false
  const finishRecorded = (intent: string) => {
    recorded = true
    return finish(intent)
  }
  const use: OnceKey | undefined = key === undefined ? undefined : onceKey(context, request, key)
  try {
    if (use) return await answerUnderKey(context, use, request, reply, beginKnowingly, finishRecorded)
    const intent = await context.db.transaction().execute(beginKnowingly)
    const { status, data } = await finishRecorded(intent)
    return sent(reply.code(status).send(envelope(data)))
  } catch (error) {
    // A commit that the server refused is no doubt: nothing is there.
    const undone = !recorded && isRefusedByServer(error)
    throw begun && !undone ? unknownIfAway(error) : error
  }
}

function unknownIfAway(error: unknown): unknown {
  return isDatabaseUnavailable(error) ? new OutcomeUnknown({ cause: error }) : error
}

function onceKey<T>(context: OnceContext<T>, request: FastifyRequest, key: string): OnceKey {
  return { scope: scopeOf(request), key, fingerprints: fingerprintsOf(context.keys, request.body) }
}

async function answerUnderKey<T extends IdempotencyTables>(
  context: OnceContext<T>,
  use: OnceKey,
  request: FastifyRequest,
  reply: FastifyReply,
  begin: (tx: Tx<T>) => Promise<string>,
  finish: (intent: string) => Promise<{ status: number; data: unknown }>,
): Promise<never> {
  const claim = await context.db
    .transaction()
    .execute((tx) => once(tx, use, context.now, context.leaseMs, () => begin(tx)))
  if (claim.kind === 'replay') {
    reply.header('idempotent-replayed', 'true')
    return sent(sendBytes(reply, claim.answer))
  }
  const answer = await finishOnce(context.db, use, request, reply, () => finish(claim.intent)).catch(
    (error) => {
      throw unknownIfAway(error)
    },
  )
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

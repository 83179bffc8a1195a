import type { FastifyReply, FastifyRequest } from 'fastify'
import { isDatabaseUnavailable, isRefusedByServer } from '../database/database-errors.ts'
import type { Db, Tx } from '../database/db.ts'
import {
  type Answer,
  answerErased,
  endLease,
  type IdempotencyTables,
  type Intent,
  type Kept,
  type KeyClaim,
  keepAnswer,
  type OnceKey,
  type OnceRequest,
  once,
  onceKeyOf,
  readKey,
} from '../idempotency.ts'
import { Refusal } from '../refusal.ts'
import type { Vault } from '../vault/vault.ts'
import { envelope, errorAnswer } from './answers.ts'
import { OutcomeUnknown } from './outcome-unknown.ts'

export type OnceContext<T> = {
  db: Db<T>
  now: Date
  /** How long a first request may run before a repeat takes over. */
  leaseMs: number
  /** Seals the answers that are kept. */
  vault: Vault
  /** The installation's own, for hashes of keys and bodies. */
  fingerprintKey: Buffer
}

/** How a route answers with what a request came to. `pending` without a status of its own is answered as done. */
export type AnswerForm<R> = {
  readonly done: number
  readonly pending?: number
  readonly view: (result: R) => unknown
}

/** Answers a request whose retries are safe. What is answered first is kept to the byte. */
export async function answerOnce<T extends IdempotencyTables, I extends Intent, R>(
  context: OnceContext<T>,
  request: FastifyRequest,
  reply: FastifyReply,
  asked: OnceRequest<T, I, R>,
  form: AnswerForm<R>,
): Promise<never> {
  const key = readKey(request.headers['idempotency-key'])
  // From here on the intent may be there, whatever becomes of the connection that commits it.
  let begun = false
  const begin = async (tx: Tx<T>) => {
    const recorded = await asked.begin(tx)
    begun = true
    return recorded
  }
  let committed = false
  const finish = async (intent: I): Promise<Ready> => {
    committed = true
    const { state, result } = await asked.finish(intent)
    return {
      status: state === 'done' ? form.done : (form.pending ?? form.done),
      data: await form.view(result),
    }
  }
  const use: OnceKey | undefined =
    key === undefined ? undefined : onceKeyOf(context.fingerprintKey, scopeOf(request), key, request.body)
  try {
    if (use) return await answerUnderKey(context, use, request, reply, begin, finish)
    const intent = await context.db.transaction().execute(begin)
    const { status, data } = await finish(intent)
    return sent(reply.code(status).send(envelope(data)))
  } catch (error) {
    // A commit that the server refused is no doubt: nothing is there.
    const undone = !committed && isRefusedByServer(error)
    throw begun && !undone ? unknownIfAway(error) : error
  }
}

type Ready = { readonly status: number; readonly data: unknown }

function unknownIfAway(error: unknown): unknown {
  return isDatabaseUnavailable(error) ? new OutcomeUnknown({ cause: error }) : error
}

async function answerUnderKey<T extends IdempotencyTables, I extends Intent>(
  context: OnceContext<T>,
  use: OnceKey,
  request: FastifyRequest,
  reply: FastifyReply,
  begin: (tx: Tx<T>) => Promise<I>,
  finish: (intent: I) => Promise<Ready>,
): Promise<never> {
  let claimed: KeyClaim<I> | undefined
  const claim = await context.db
    .transaction()
    .execute(async (tx) => {
      claimed = await once(tx, context.vault, use, context.now, context.leaseMs, () => begin(tx))
      return claimed
    })
    .catch((error) => {
      // A replay was read and writes nothing: it stands, also when nobody hears how its transaction ended.
      if (claimed?.kind === 'replay') return claimed
      throw error
    })
  if (claim.kind === 'replay') {
    reply.header('idempotent-replayed', 'true')
    return sent(sendBytes(reply, claim.answer))
  }
  // Whoever continues knows what was recorded, and no more; see OnceRequest.
  const intent = claim.intent as I
  const { answer, kept } = await finishOnce(context, use, intent, request, reply, () => finish(intent)).catch(
    async (error) => {
      // Nobody knows what was done; the recorded work stays, and the next repeat goes on with it.
      await endLease(context.db, use, intent).catch(() => {})
      throw unknownIfAway(error)
    },
  )
  // Whoever asked first is told what it asked for; the erasure came later.
  if (kept.kind === 'erased' && claim.kind !== 'first') throw answerErased(answer.status, kept.subject)
  if (claim.kind === 'continue' || kept.kind === 'other') reply.header('idempotent-replayed', 'true')
  return sent(sendBytes(reply, kept.kind === 'other' ? kept.answer : answer))
}

/** Finishes the work and keeps what it came to, before anybody is told. */
async function finishOnce<T extends IdempotencyTables>(
  { db, vault, now }: OnceContext<T>,
  use: OnceKey,
  intent: Intent,
  request: FastifyRequest,
  reply: FastifyReply,
  finish: () => Promise<Ready>,
): Promise<{ answer: Answer; kept: Kept }> {
  const answer = await finish().then(
    ({ status, data }) => ({
      status,
      body: Buffer.from(reply.code(status).serialize(envelope(data)) as string),
    }),
    (error) => {
      if (!(error instanceof Refusal)) throw error
      const { status, headers, body } = errorAnswer(error, request.id)
      reply.headers(headers)
      return { status, body: Buffer.from(JSON.stringify(body)) }
    },
  )
  return { answer, kept: await keepAnswer(db, vault, use, intent, answer, now) }
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

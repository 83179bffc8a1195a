import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { newId } from '../../platform/id.ts'
import type { Faults, Mishap } from '../faults.ts'
import { hold, type ProviderContext, sendJson } from '../provider-context.ts'
import { brokenDown, keyInUse, keyUsedOtherwise, StripeAnswer } from './stripe-error.ts'

/** What a handler did, and what goes wrong with its answer. */
export type Done = { readonly body: object; readonly after?: Mishap | undefined }

/** A request that changes something: its key's first answer is given again, and what was asked to go wrong does. */
export async function handleOnce(
  context: ProviderContext,
  request: FastifyRequest,
  reply: FastifyReply,
  work: (faults: Faults, now: Date) => Promise<Done>,
  mayGoWrong: boolean,
): Promise<unknown> {
  const faults = await context.faults.inForce()
  const key = keyOf(request)
  const mishap = mayGoWrong ? context.faults.mishapOf(faults, key ?? request.id) : undefined
  if (mishap === 'error_before') throw brokenDown()
  if (mishap === 'timeout_before') return hold(request, reply, context.closing)
  if (mishap === 'key_used_otherwise') throw keyUsedOtherwise()

  const now = await context.now()
  if (key !== undefined) {
    const fingerprint = fingerprintOf(request)
    const claim = await context.objects.claimKey(key, fingerprint, now, context.keyWindowMs)
    if (claim === 'running') throw keyInUse()
    if (claim !== 'taken') {
      if (claim.fingerprint !== fingerprint) throw keyUsedOtherwise()
      reply.headers({ ...claim.headers, 'idempotent-replayed': 'true' })
      return finish(context, request, reply, claim.status, claim.body, mishap)
    }
  }

  const { status, body, after } = await work(faults, now)
    .then((done) => ({ status: 200, body: JSON.stringify(done.body), after: done.after }))
    .catch(async (error) => {
      if (!(error instanceof StripeAnswer) || !error.isKept) {
        if (key !== undefined) await context.objects.freeKey(key)
        throw error
      }
      return { status: error.status, body: error.body, after: undefined }
    })
  const wrong = after ?? mishap
  // A failure after the work began is an answer like any other, and is given again.
  const kept = wrong === 'error_after' ? brokenDown() : { status, body }
  if (key !== undefined) {
    const headers = { 'original-request': newId('req_') }
    await context.objects.answerKey(key, { status: kept.status, headers, body: kept.body })
  }
  return finish(context, request, reply, kept.status, kept.body, wrong)
}

async function finish(
  context: ProviderContext,
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  body: string,
  mishap: Mishap | undefined,
) {
  switch (mishap) {
    case 'error_after':
      throw brokenDown()
    case 'timeout_after':
      return hold(request, reply, context.closing)
    case 'wrong_amount':
    case 'wrong_currency':
      return sendJson(reply, status, misnamed(body, mishap))
    case 'garbage':
      return sendJson(reply, status, body.slice(0, body.length / 2))
    default:
      return sendJson(reply, status, body)
  }
}

/** The same answer with another amount or currency than the one moved. */
export function misnamed(text: string, echo: 'wrong_amount' | 'wrong_currency' | undefined): string {
  if (!echo) return text
  const body = JSON.parse(text)
  if (typeof body.amount !== 'number') return text
  const wrong =
    echo === 'wrong_amount'
      ? { amount: body.amount + 1, ...(body.amount_received && { amount_received: body.amount + 1 }) }
      : { currency: body.currency === 'usd' ? 'krw' : 'usd' }
  return JSON.stringify({ ...body, ...wrong })
}

function keyOf({ headers }: FastifyRequest): string | undefined {
  const key = headers['idempotency-key']
  return typeof key === 'string' && key !== '' ? key : undefined
}

function fingerprintOf({ url, body }: FastifyRequest): string {
  return createHash('sha256')
    .update(`${url}\n${JSON.stringify(body)}`)
    .digest('hex')
}

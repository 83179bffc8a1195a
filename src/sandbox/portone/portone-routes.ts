import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import Type from 'typebox'
import { Compile } from 'typebox/compile'
import type { Http } from '../../platform/http/http.ts'
import { newId } from '../../platform/id.ts'
import { parseInstant } from '../../platform/time.ts'
import type { BookPayment, BookRefund } from '../book-payment.ts'
import { findCard } from '../cards.ts'
import { currencies } from '../currencies.ts'
import { enter } from '../enter.ts'
import type { Mishap } from '../faults.ts'
import { findPaymentBy, type PaymentOnBook } from '../find-payment.ts'
import { followModeOfKey } from '../live-mode.ts'
import { isOwnFault } from '../own-fault.ts'
import { hold, type ProviderContext, sendJson } from '../provider-context.ts'
import { describe, issue, remove, storeIdOf } from './portone-billing-keys.ts'
import { gatewayError, PortoneError, type PortoneErrorType, pgCodeOf } from './portone-errors.ts'
import {
  defaultStoreId,
  inLiveMode,
  type RenderedPayment,
  renderCancellation,
  renderPayment,
  type StoredKey,
} from './portone-objects.ts'

// Unknown fields pass: PortOne takes more than is used here.
const Amount = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
const isCharge = Compile(
  Type.Object({
    storeId: Type.Optional(Type.String()),
    billingKey: Type.String({ minLength: 1, maxLength: 4096 }),
    orderName: Type.String({ minLength: 1 }),
    amount: Type.Object({ total: Amount }),
    currency: Type.String({ pattern: '^[A-Z]{3}$' }),
    customer: Type.Optional(Type.Object({ id: Type.Optional(Type.String()) })),
  }),
)
const isCancel = Compile(
  Type.Object({
    reason: Type.String({ minLength: 1 }),
    amount: Type.Optional(Amount),
    currentCancellableAmount: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  }),
)
const isListing = Compile(
  Type.Object({
    storeId: Type.Optional(Type.String()),
    from: Type.Optional(Type.String()),
    until: Type.Optional(Type.String()),
    cursor: Type.Optional(Type.String({ maxLength: 512 })),
    size: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
  }),
)

type Echo = 'wrong_amount' | 'wrong_currency'

/** PortOne's V2 API for merchants. */
export function portoneRoutes(http: Http, context: ProviderContext): void {
  // A paid answer names no amount; where it shall be named wrongly, the next lookup of that payment does so.
  const echoes = new Map<string, Echo>()

  http.register(async (portone: Http) => {
    portone.setErrorHandler(sendPortoneError)
    followModeOfKey(portone, isLiveSecret, inLiveMode)
    portone.addHook('onRequest', requireApiSecret)
    portone.addHook('onRequest', refuseWhenDown(context))
    // The official SDK sends its JSON without saying that it is JSON.
    portone.removeContentTypeParser('text/plain')
    portone.addContentTypeParser(
      'text/plain',
      { parseAs: 'string' },
      async (_request: FastifyRequest, text: string) => parsed(text),
    )

    portone.post<{ Params: { id: string } }>('/payments/:id/billing-key', (request, reply) =>
      charge(context, request, reply, request.params.id, echoes),
    )
    portone.post<{ Params: { id: string } }>('/payments/:id/cancel', (request, reply) =>
      cancel(context, request, reply, request.params.id),
    )
    portone.get<{ Params: { id: string } }>('/payments/:id', (request) =>
      lookUp(context, request, request.params.id, echoes),
    )
    portone.get('/payments-by-cursor', (request) => listPayments(context, request))
    portone.post('/billing-keys', (request) => issue(context, request))
    portone.get<{ Params: { key: string } }>('/billing-keys/:key', (request) =>
      describe(context, request, request.params.key),
    )
    portone.delete<{ Params: { key: string } }>('/billing-keys/:key', (request) =>
      remove(context, request.params.key),
    )
  })
}

/** Any API secret opens it. */
async function requireApiSecret({ headers }: FastifyRequest): Promise<void> {
  if (!/^PortOne \S+$/.test(headers.authorization ?? '')) throw new PortoneError('UNAUTHORIZED')
}

/** No secret of PortOne tells its mode, which is that of its channel; here one that begins with `live` stands for a live channel. */
function isLiveSecret(authorization: string | undefined): boolean {
  return /^PortOne live/.test(authorization ?? '')
}

function refuseWhenDown(context: ProviderContext) {
  return async (request: FastifyRequest): Promise<void> => {
    const { down, refuse_credentials } = await context.faults.inForce()
    if (refuse_credentials) throw new PortoneError('UNAUTHORIZED')
    if (down === 'reset') request.raw.socket.resetAndDestroy()
    if (down) throw new PortoneError('SERVICE_UNAVAILABLE')
  }
}

async function sendPortoneError(error: unknown, _request: FastifyRequest, reply: FastifyReply) {
  const told =
    error instanceof PortoneError
      ? error
      : new PortoneError(isOwnFault(error) ? 'SERVICE_UNAVAILABLE' : 'INVALID_REQUEST')
  return reply.code(told.status).send(told.body)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new PortoneError('INVALID_REQUEST')
  }
}

/** Quoted, as it is documented, or bare, as it once was. What else belongs to a key is not documented: the body does not. */
function keyOf(request: FastifyRequest): { given: string; key: string; fingerprint: Buffer } {
  const header = request.headers['idempotency-key']
  const bare = typeof header === 'string' ? header.trim().replace(/^"(.*)"$/, '$1') : undefined
  if (bare !== undefined && !/^[\x21-\x7e]{16,256}$/.test(bare)) throw new PortoneError('INVALID_REQUEST')
  const given = bare ?? newId('req_')
  const [path] = request.url.split('?')
  const place = `${request.method} ${path} ${request.headers.authorization} ${given}`
  return {
    given,
    key: `portone ${createHash('sha256').update(place).digest('hex')}`,
    fingerprint: Buffer.alloc(0),
  }
}

async function chargeable(context: ProviderContext, billingKey: string): Promise<string> {
  if (findCard(billingKey)) return billingKey
  const stored = await context.objects.get<StoredKey>('billing_key', billingKey)
  if (!stored) throw new PortoneError('BILLING_KEY_NOT_FOUND')
  if (stored.deletedAt !== null) throw new PortoneError('BILLING_KEY_ALREADY_DELETED')
  return stored.card
}

async function charge(
  context: ProviderContext,
  request: FastifyRequest,
  reply: FastifyReply,
  paymentId: string,
  echoes: Map<string, Echo>,
) {
  const { body } = request
  // The gateway behind the channel sets these bounds.
  if (!isCharge.Check(body) || !/^[A-Za-z0-9_-]{6,64}$/.test(paymentId))
    throw new PortoneError('INVALID_REQUEST')
  const faults = await context.faults.inForce()
  const keyed = keyOf(request)
  const billingKey = await chargeable(context, body.billingKey)
  const card = findCard(billingKey)!

  const mishap = card.charge ?? context.faults.mishapOf(faults, keyed.given)
  if (mishap === 'error_before') throw new PortoneError('SERVICE_UNAVAILABLE')
  if (mishap === 'timeout_before') return hold(request, reply, context.closing)
  const isTaken = currencies.has(body.currency) && (faults.currencies?.includes(body.currency) ?? true)

  const entry = {
    reference: paymentId,
    accountId: body.customer?.id ?? paymentId,
    billingKey,
    amount: BigInt(body.amount.total),
    currency: body.currency,
    description: body.orderName,
    declinedAs: isTaken ? (card.declinedAs ?? null) : 'currency_not_supported',
    firstChargeOnly: card.firstChargeOnly ?? false,
  }
  const notice = context.faults.deliveryOf(faults, paymentId)
  const slowMs = (card.chargeSlowMs ?? 0) + (faults.slow_ms ?? 0)
  const entered = await enter(context, keyed, slowMs, (claimed) =>
    context.book.charge(claimed, entry, faults.duplicate_references ?? false, notice),
  )
  if (entered.outcome === 'running') throw new PortoneError('IDEMPOTENCY_OUTSTANDING_REQUEST')
  if (entered.outcome === 'duplicate') {
    const { payment } = await findPayment(context, paymentId)
    throw new PortoneError(payment.status === 'paid' ? 'ALREADY_PAID' : 'MAX_TRANSACTION_COUNT_REACHED')
  }
  const payment: BookPayment = JSON.parse(entered.answer)
  if (mishap === 'wrong_amount' || mishap === 'wrong_currency') echoes.set(paymentId, mishap)
  if (payment.status === 'declined' && mishap !== 'timeout_after' && mishap !== 'error_after')
    throw gatewayError(pgCodeOf(payment.decline_code))
  const told = { payment: { pgTxId: payment.id, paidAt: payment.created_at } }
  return answer(context, request, reply, told, mishap)
}

async function answer(
  context: ProviderContext,
  request: FastifyRequest,
  reply: FastifyReply,
  told: object,
  mishap: Mishap | undefined,
) {
  const text = JSON.stringify(told)
  if (mishap === 'error_after') throw new PortoneError('SERVICE_UNAVAILABLE')
  if (mishap === 'timeout_after') return hold(request, reply, context.closing)
  return sendJson(reply, 200, mishap === 'garbage' ? text.slice(0, text.length / 2) : text)
}

const refusals: Readonly<Record<string, PortoneErrorType>> = {
  running: 'IDEMPOTENCY_OUTSTANDING_REQUEST',
  payment_not_found: 'PAYMENT_NOT_FOUND',
  payment_not_paid: 'PAYMENT_NOT_PAID',
  remaining_differs: 'CANCELLABLE_AMOUNT_CONSISTENCY_BROKEN',
  nothing_left: 'PAYMENT_ALREADY_CANCELLED',
  exceeds_remaining: 'CANCEL_AMOUNT_EXCEEDS_CANCELLABLE_AMOUNT',
}

async function cancel(
  context: ProviderContext,
  request: FastifyRequest,
  reply: FastifyReply,
  paymentId: string,
) {
  const { body } = request
  if (!isCancel.Check(body)) throw new PortoneError('INVALID_REQUEST')
  const faults = await context.faults.inForce()
  const keyed = keyOf(request)
  const { payment } = await findPayment(context, paymentId)
  const mishap = context.faults.mishapOf(faults, keyed.given)
  if (mishap === 'error_before') throw new PortoneError('SERVICE_UNAVAILABLE')
  if (mishap === 'timeout_before') return hold(request, reply, context.closing)

  // Reasons are kept apart from the book, and before the money moves: one that is left over harms nobody.
  await context.objects.put('reason', keyed.given, { reason: body.reason }, await context.now())
  const amount = body.amount ?? Math.max(payment.amount - payment.amount_refunded, 1)
  const entry = {
    payment: payment.id,
    reference: keyed.given,
    amount: BigInt(amount),
    expectedRemaining:
      body.currentCancellableAmount === undefined ? null : BigInt(body.currentCancellableAmount),
  }
  const notice = context.faults.deliveryOf(faults, keyed.given)
  // A cancellation has no name of its own: once its key is forgotten, nothing but the remainder is in its way.
  const entered = await enter(context, keyed, faults.slow_ms ?? 0, (claimed) =>
    context.book.refund(claimed, entry, true, notice),
  )
  // There is no type for a dispute: the gateway's error is passed on.
  if (entered.outcome === 'disputed') throw gatewayError('NOT_CANCELABLE_PAYMENT')
  const refusal = refusals[entered.outcome]
  if (refusal) throw new PortoneError(refusal)

  const kept = await context.objects.get<{ reason: string }>('reason', keyed.given)
  const refund: Omit<BookRefund, 'reference'> =
    entered.status === 200
      ? JSON.parse(entered.answer)
      : { id: `failed-${keyed.given}`, amount, status: 'failed', created_at: payment.created_at }
  // The bank's no is a cancellation too: 200, and it failed.
  const cancellation = renderCancellation(refund, kept?.reason)
  const silent = findCard(entered.card ?? '')?.refund === 'timeout_after'
  return answer(
    context,
    request,
    reply,
    { cancellation: misnamedCancellation(cancellation, mishap) },
    silent ? 'timeout_after' : mishap,
  )
}

/** A cancellation names no currency; instead it is another one altogether. */
function misnamedCancellation(
  cancellation: ReturnType<typeof renderCancellation>,
  mishap: Mishap | undefined,
) {
  if (mishap === 'wrong_amount') return { ...cancellation, totalAmount: cancellation.totalAmount + 1 }
  return mishap === 'wrong_currency' || mishap === 'key_used_otherwise'
    ? { ...cancellation, reason: 'Another cancellation.' }
    : cancellation
}

async function lookUp(
  context: ProviderContext,
  request: FastifyRequest,
  paymentId: string,
  echoes: Map<string, Echo>,
) {
  const faults = await context.faults.inForce()
  if (context.faults.lookupFails(faults, paymentId)) throw new PortoneError('SERVICE_UNAVAILABLE')
  const told = await render(context, await findPayment(context, paymentId), storeIdOf(request))
  const echo = echoes.get(paymentId) ?? context.faults.lookupEcho(faults, paymentId)
  echoes.delete(paymentId)
  return misnamed(told, echo)
}

function misnamed(told: RenderedPayment, echo: Echo | undefined): RenderedPayment {
  if (!echo) return told
  return echo === 'wrong_amount'
    ? { ...told, amount: { ...told.amount, total: told.amount.total + 1 } }
    : { ...told, currency: told.currency === 'USD' ? 'KRW' : 'USD' }
}

async function findPayment(context: ProviderContext, paymentId: string): Promise<PaymentOnBook> {
  const found = await findPaymentBy(context.book, 'reference', paymentId)
  if (!found) throw new PortoneError('PAYMENT_NOT_FOUND')
  return found
}

async function render(
  context: ProviderContext,
  found: PaymentOnBook,
  storeId: string,
): Promise<RenderedPayment> {
  const reasons = new Map<string, string>()
  for (const { reference } of found.payment.refunds) {
    const kept = await context.objects.get<{ reason: string }>('reason', reference)
    if (kept) reasons.set(reference, kept.reason)
  }
  return renderPayment({ ...found, card: findCard(found.billingKey)!, storeId, reasons })
}

async function listPayments(context: ProviderContext, request: FastifyRequest) {
  const { requestBody } = request.query as { requestBody?: string }
  const asked = requestBody === undefined ? {} : parsed(requestBody)
  if (!isListing.Check(asked)) throw new PortoneError('INVALID_REQUEST')
  if (context.faults.lookupFails(await context.faults.inForce(), 'list'))
    throw new PortoneError('SERVICE_UNAVAILABLE')
  const until = asked.until === undefined ? await context.now() : parseInstant(asked.until)
  const from = asked.from === undefined ? until && daysBefore(until, 90) : parseInstant(asked.from)
  const after = asked.cursor === undefined ? undefined : placeIn(asked.cursor)
  if (!from || !until || after === null) throw new PortoneError('INVALID_REQUEST')
  const rows = await context.book.listOldestFirst('created', from, until, after, asked.size ?? 10)
  const items = []
  for (const { payment, billingKey, description, at, id } of rows) {
    const found = { payment: payment as BookPayment, billingKey, description }
    const cursor = Buffer.from(JSON.stringify([at, id])).toString('base64url')
    items.push({ payment: await render(context, found, asked.storeId ?? defaultStoreId), cursor })
  }
  return { items }
}

/** Null: this cursor was not made here. */
function placeIn(cursor: string): readonly string[] | null {
  const place = parsed(Buffer.from(cursor, 'base64url').toString('utf8'))
  const isPlace =
    Array.isArray(place) && place.length === 2 && place.every((part) => typeof part === 'string')
  return isPlace && parseInstant(String(place[0]).replace(' ', 'T')) ? place : null
}

function daysBefore(instant: Date, days: number): Date {
  return new Date(instant.getTime() - days * 86_400_000)
}

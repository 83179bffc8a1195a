import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import Type, { type Static } from 'typebox'
import type { Http } from '../platform/http/http.ts'
import { readKey } from '../platform/idempotency.ts'
import { pageOf } from '../platform/page.ts'
import { parseInstant } from '../platform/time.ts'
import type { Entered } from './book.ts'
import { billingKeyOf, findCard, type TestCard } from './cards.ts'
import { currencies } from './currencies.ts'
import { enter } from './enter.ts'
import type { Faults, Mishap } from './faults.ts'
import { readPlace } from './place.ts'
import { breakDown, hold, type ProviderContext, sendJson } from './provider-context.ts'
import { refuse } from './refusals.ts'

const Reference = Type.String({ minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' })
const Amount = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
const strict = { additionalProperties: false }

const Charge = Type.Object(
  {
    reference: Reference,
    billing_key: Type.String({ minLength: 1, maxLength: 4096 }),
    account_id: Type.String({ minLength: 1, maxLength: 255 }),
    amount: Amount,
    currency: Type.String({ pattern: '^[A-Z]{3}$' }),
    description: Type.Optional(Type.String({ maxLength: 500 })),
  },
  strict,
)

const Refund = Type.Object(
  {
    reference: Reference,
    amount: Amount,
    expected_remaining: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
    reason: Type.Optional(Type.String({ maxLength: 500 })),
  },
  strict,
)

const Named = Type.Object({ name: Type.String() })
const Listing = Type.Object(
  {
    from: Type.String(),
    to: Type.String(),
    /** Which time of theirs lies between: when they were asked for, or when something last happened to them. */
    by: Type.Optional(Type.Union([Type.Literal('created'), Type.Literal('changed')])),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
    cursor: Type.Optional(Type.String({ maxLength: 512 })),
  },
  strict,
)

/** The provider's API for merchants. */
export function chargeRoutes(http: Http, context: ProviderContext): void {
  const common = { onRequest: [refuseWhenDown(context)] }

  http.post('/v1/charges', { ...common, schema: { body: Charge } }, (request, reply) =>
    charge(context, request, reply, request.body),
  )
  http.post(
    '/v1/charges/:name/refunds',
    { ...common, schema: { params: Named, body: Refund } },
    (request, reply) => refund(context, request, reply, request.params.name, request.body),
  )
  http.get('/v1/charges/:name', { ...common, schema: { params: Named } }, async (request, reply) => {
    if (await lookupFails(context, request.params.name)) return breakDown(reply)
    const found = await context.book.find(request.params.name)
    if (!found) throw refuse('charge_not_found')
    const echo = context.faults.lookupEcho(await context.faults.inForce(), request.params.name)
    return sendJson(reply, 200, misnamed(withCard(found.payment, findCard(found.billingKey)!), echo))
  })
  http.get('/v1/charges', { ...common, schema: { querystring: Listing } }, async (request, reply) => {
    if (await lookupFails(context, 'list')) return breakDown(reply)
    return listCharges(context, request.query)
  })
  http.post(
    '/v1/billing-keys/exchange',
    {
      ...common,
      schema: { body: Type.Object({ auth_key: Type.String(), customer_key: Type.String() }, strict) },
    },
    async (request) => {
      const billingKey = billingKeyOf(request.body.auth_key)
      if (billingKey === undefined) throw refuse('auth_key_invalid')
      return billingKeyBody(billingKey, findCard(billingKey)!)
    },
  )
  http.get('/v1/billing-keys/:name', { ...common, schema: { params: Named } }, async (request) => {
    const card = findCard(request.params.name)
    if (!card) throw refuse('billing_key_not_found')
    return billingKeyBody(request.params.name, card)
  })
}

function refuseWhenDown(context: ProviderContext) {
  return async (request: FastifyRequest): Promise<void> => {
    const { down, refuse_credentials } = await context.faults.inForce()
    if (refuse_credentials) throw refuse('unauthorized')
    if (down === 'reset') request.raw.socket.resetAndDestroy()
    if (down) throw refuse('provider_down')
  }
}

async function lookupFails(context: ProviderContext, subject: string): Promise<boolean> {
  return context.faults.lookupFails(await context.faults.inForce(), subject)
}

async function charge(
  context: ProviderContext,
  request: FastifyRequest,
  reply: FastifyReply,
  body: Static<typeof Charge>,
) {
  const faults = await context.faults.inForce()
  const key = requireIdempotencyKey(request)
  const card = findCard(body.billing_key)
  if (!card) throw refuse('billing_key_invalid')
  if (!isTaken(faults, body.currency)) throw refuse('currency_not_supported')

  const mishap = card.charge ?? context.faults.mishapOf(faults, key)
  if (mishap === 'error_before') return breakDown(reply)
  if (mishap === 'timeout_before') return hold(request, reply, context.closing)
  if (mishap === 'key_used_otherwise') throw refuse('idempotency_key_reused')

  const entry = {
    reference: body.reference,
    accountId: body.account_id,
    billingKey: body.billing_key,
    amount: BigInt(body.amount),
    currency: body.currency,
    description: body.description ?? '',
    declinedAs: card.declinedAs ?? null,
    firstChargeOnly: card.firstChargeOnly ?? false,
  }
  const notice = context.faults.deliveryOf(faults, body.reference)
  const slowMs = (card.chargeSlowMs ?? 0) + (faults.slow_ms ?? 0)
  const entered = await enter(context, { key, fingerprint: fingerprintOf(request) }, slowMs, (keyed) =>
    context.book.charge(keyed, entry, faults.duplicate_references ?? false, notice),
  )
  return answer(context, request, reply, { ...entered, answer: withCard(entered.answer, card) }, mishap)
}

async function refund(
  context: ProviderContext,
  request: FastifyRequest,
  reply: FastifyReply,
  payment: string,
  body: Static<typeof Refund>,
) {
  const faults = await context.faults.inForce()
  const key = requireIdempotencyKey(request)
  const mishap = context.faults.mishapOf(faults, key)
  if (mishap === 'error_before') return breakDown(reply)
  if (mishap === 'timeout_before') return hold(request, reply, context.closing)
  if (mishap === 'key_used_otherwise') throw refuse('idempotency_key_reused')

  const entry = {
    payment,
    reference: body.reference,
    amount: BigInt(body.amount),
    expectedRemaining: body.expected_remaining === undefined ? null : BigInt(body.expected_remaining),
  }
  const notice = context.faults.deliveryOf(faults, body.reference)
  const entered = await enter(
    context,
    { key, fingerprint: fingerprintOf(request) },
    faults.slow_ms ?? 0,
    (keyed) => context.book.refund(keyed, entry, faults.duplicate_references ?? false, notice),
  )
  const silent = findCard(entered.card ?? '')?.refund === 'timeout_after'
  return answer(context, request, reply, entered, silent ? 'timeout_after' : mishap)
}

function requireIdempotencyKey(request: FastifyRequest): string {
  const key = readKey(request.headers['idempotency-key'])
  if (key === undefined) throw refuse('idempotency_key_required')
  return key
}

function isTaken(faults: Faults, currency: string): boolean {
  return currencies.has(currency) && (faults.currencies?.includes(currency) ?? true)
}

function fingerprintOf({ url, body }: FastifyRequest): Buffer {
  const names = Object.keys(body as object).sort()
  return createHash('sha256')
    .update(`${url}\n${JSON.stringify(body, names)}`)
    .digest()
}

const refusalOf = {
  reused: 'idempotency_key_reused',
  running: 'idempotency_key_in_use',
  duplicate: 'duplicate_reference',
  payment_not_found: 'charge_not_found',
  payment_not_paid: 'charge_not_paid',
  disputed: 'charge_disputed',
  remaining_differs: 'remaining_differs',
  nothing_left: 'already_refunded',
  exceeds_remaining: 'amount_exceeds_remaining',
} as const

async function answer(
  context: ProviderContext,
  request: FastifyRequest,
  reply: FastifyReply,
  entered: Entered,
  mishap: Mishap | undefined,
) {
  const { outcome, status } = entered
  if (outcome in refusalOf) throw refuse(refusalOf[outcome as keyof typeof refusalOf])
  if (outcome === 'replay') reply.header('idempotent-replayed', 'true')
  switch (mishap) {
    case 'error_after':
      return breakDown(reply)
    case 'timeout_after':
      return hold(request, reply, context.closing)
    case 'wrong_amount':
    case 'wrong_currency':
      return sendJson(reply, status, misnamed(entered.answer, mishap))
    case 'garbage':
      return sendJson(reply, status, entered.answer.slice(0, entered.answer.length / 2))
    default:
      return sendJson(reply, status, entered.answer)
  }
}

function misnamed(text: string, echo: 'wrong_amount' | 'wrong_currency' | undefined): string {
  if (!echo) return text
  const body = JSON.parse(text)
  const wrong =
    echo === 'wrong_amount'
      ? { amount: body.amount + 1 }
      : { currency: body.currency === 'USD' ? 'KRW' : 'USD' }
  return JSON.stringify({ ...body, ...wrong })
}

/** A payment of the book, which knows only the billing key, with what may be shown of its card. */
function withCard(payment: string, card: TestCard): string {
  return payment.replace(/}$/, `,"card":${JSON.stringify(shownOf(card))}}`)
}

function billingKeyBody(billingKey: string, card: TestCard) {
  return { billing_key: billingKey, card: shownOf(card) }
}

function shownOf({ brand, last4, expires }: TestCard) {
  return { brand, last4, expires }
}

async function listCharges(context: ProviderContext, query: Static<typeof Listing>) {
  const { from, to, by = 'created', limit = 100 } = query
  const rows = await context.book.listOldestFirst(
    by,
    instantOf(from),
    instantOf(to),
    readPlace(query),
    limit + 1,
  )
  const { items, nextCursor } = pageOf(rows, limit, ({ at, id }) => [at, id])
  return { charges: items.map(({ payment }) => payment), next_cursor: nextCursor }
}

function instantOf(text: string): Date {
  const instant = parseInstant(text)
  if (!instant) throw refuse('invalid_instant')
  return instant
}

import type { FastifyReply, FastifyRequest } from 'fastify'
import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import type { Http } from '../../platform/http/http.ts'
import { newId } from '../../platform/id.ts'
import { parseInstant } from '../../platform/time.ts'
import type { Entered } from '../book.ts'
import type { BookPayment } from '../book-payment.ts'
import { findCard, type TestCard } from '../cards.ts'
import { enter } from '../enter.ts'
import type { Faults, Mishap } from '../faults.ts'
import { findPaymentBy, type PaymentOnBook } from '../find-payment.ts'
import { isOwnFault } from '../own-fault.ts'
import { hold, type ProviderContext, sendJson } from '../provider-context.ts'
import { CustomerKey, chargeable, issue, remove } from './toss-billing-keys.ts'
import { declineOf, TossError } from './toss-errors.ts'
import { keyOf } from './toss-idempotency-key.ts'
import { asOfRefund, koreanTime, renderPayment, shopId } from './toss-objects.ts'

// Unknown fields pass: Toss takes more than is used here.
const Amount = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
const Charge = Type.Object({
  amount: Amount,
  customerKey: CustomerKey,
  orderId: Type.String({ pattern: '^[A-Za-z0-9_-]{6,64}$' }),
  orderName: Type.String({ minLength: 1, maxLength: 100 }),
})
const Cancel = Type.Object({
  cancelReason: Type.String({ minLength: 1, maxLength: 200 }),
  cancelAmount: Type.Optional(Amount),
  currency: Type.Optional(Type.String()),
  refundableAmount: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
})
const isCharge = Compile(Charge)
const isCancel = Compile(Cancel)

/** Toss's API for merchants, under `/v1`. */
export function tossRoutes(http: Http, context: ProviderContext): void {
  http.register(async (toss: Http) => {
    toss.setErrorHandler(sendTossError)
    toss.addHook('onRequest', requireSecretKey)
    toss.addHook('onRequest', refuseWhenDown(context))

    toss.post<{ Params: { key: string } }>('/v1/billing/:key', (request, reply) =>
      charge(context, request, reply, request.params.key),
    )
    toss.post('/v1/billing/authorizations/issue', (request, reply) => issue(context, request, reply))
    toss.delete<{ Params: { key: string } }>('/v1/billing/:key', async (request, reply) => {
      await remove(context, request.params.key)
      // 200 and not a byte.
      return reply.code(200).send()
    })
    toss.post<{ Params: { key: string } }>('/v1/payments/:key/cancel', (request, reply) =>
      cancel(context, request, reply, request.params.key),
    )
    toss.get<{ Params: { id: string } }>('/v1/payments/orders/:id', (request, reply) =>
      lookUp(context, reply, request.params.id, 'reference'),
    )
    toss.get<{ Params: { id: string } }>('/v1/payments/:id', (request, reply) =>
      lookUp(context, reply, request.params.id, 'id'),
    )
    toss.get('/v1/transactions', (request) => listTransactions(context, request))
  })
}

function credentialsOf({ headers }: FastifyRequest): string | undefined {
  const [, encoded] = /^Basic ([A-Za-z0-9+/_-]+={0,2})$/.exec(headers.authorization ?? '') ?? []
  return encoded && Buffer.from(encoded, 'base64').toString('utf8')
}

function isLiveKey(request: FastifyRequest): boolean {
  return credentialsOf(request)?.startsWith('live_') ?? false
}

/** Any secret key of the right form opens it. */
async function requireSecretKey(request: FastifyRequest): Promise<void> {
  const text = credentialsOf(request)
  if (text === undefined) throw new TossError('UNAUTHORIZED_KEY')
  if (!text.endsWith(':')) throw new TossError('INCORRECT_BASIC_AUTH_FORMAT')
  if (!/^(test|live)_g?sk_[A-Za-z0-9_]+:$/.test(text)) throw new TossError('INVALID_API_KEY')
}

function refuseWhenDown(context: ProviderContext) {
  return async (request: FastifyRequest): Promise<void> => {
    const { down, refuse_credentials } = await context.faults.inForce()
    if (refuse_credentials) throw new TossError('UNAUTHORIZED_KEY')
    if (down === 'reset') request.raw.socket.resetAndDestroy()
    if (down) throw new TossError('COMMON_ERROR')
    const asked = request.headers['tosspayments-test-code']
    // Any error can be asked for in tests by its code; with a live key the header says nothing.
    if (typeof asked === 'string' && /^[A-Z_]{1,100}$/.test(asked) && !isLiveKey(request))
      throw new TossError(asked)
  }
}

async function sendTossError(error: unknown, _request: FastifyRequest, reply: FastifyReply) {
  const told =
    error instanceof TossError
      ? error
      : new TossError(isOwnFault(error) ? 'FAILED_INTERNAL_SYSTEM_PROCESSING' : 'INVALID_REQUEST')
  return reply.code(told.status).send({ code: told.code, message: told.message })
}

async function charge(context: ProviderContext, request: FastifyRequest, reply: FastifyReply, key: string) {
  const { body } = request
  if (!isCharge.Check(body)) throw new TossError('INVALID_REQUEST')
  const faults = await context.faults.inForce()
  const keyed = keyOf(request)
  const billingKey = await chargeable(context, key, body.customerKey)
  if (body.amount < 100) throw new TossError('BELOW_MINIMUM_AMOUNT')
  const card = findCard(billingKey)!

  const mishap = card.charge ?? context.faults.mishapOf(faults, keyed.given)
  if (mishap === 'error_before') throw new TossError('FAILED_INTERNAL_SYSTEM_PROCESSING')
  if (mishap === 'timeout_before') return hold(request, reply, context.closing)
  if (mishap === 'key_used_otherwise') return sendJson(reply, 200, anotherOrder(body, card))

  const entry = {
    reference: body.orderId,
    accountId: body.customerKey,
    billingKey,
    amount: BigInt(body.amount),
    currency: 'KRW',
    description: body.orderName,
    declinedAs: card.declinedAs ?? null,
    firstChargeOnly: card.firstChargeOnly ?? false,
  }
  const notice = context.faults.deliveryOf(faults, body.orderId)
  const slowMs = (card.chargeSlowMs ?? 0) + (faults.slow_ms ?? 0)
  const entered = await enter(context, keyed, slowMs, (claimed) =>
    context.book.charge(claimed, entry, faults.duplicate_references ?? false, notice),
  )
  requireEntered(entered)
  const payment: BookPayment = JSON.parse(entered.answer)
  if (payment.status === 'declined') {
    if (mishap === 'timeout_after') return hold(request, reply, context.closing)
    throw new TossError(mishap === 'error_after' ? 'UNKNOWN_PAYMENT_ERROR' : declineOf(payment.decline_code))
  }
  const told = renderPayment({ payment, orderName: body.orderName, card, reasons: new Map() })
  return answer(context, request, reply, told, mishap)
}

/** A key that was used for another order replays that one. */
function anotherOrder(body: Static<typeof Charge>, card: TestCard): string {
  const payment: BookPayment = {
    id: newId('ch_'),
    reference: newId('order_'),
    account_id: body.customerKey,
    amount: body.amount,
    currency: 'KRW',
    status: 'paid',
    decline_code: null,
    amount_refunded: 0,
    refunds: [],
    dispute: null,
    created_at: new Date(0).toISOString(),
  }
  return JSON.stringify(renderPayment({ payment, orderName: 'Another order', card, reasons: new Map() }))
}

const refusalOf: Readonly<Record<string, string>> = {
  reused: 'INVALID_REQUEST',
  running: 'IDEMPOTENT_REQUEST_PROCESSING',
  duplicate: 'DUPLICATED_ORDER_ID',
  payment_not_found: 'NOT_FOUND_PAYMENT',
  payment_not_paid: 'NOT_CANCELABLE_PAYMENT',
  // Toss has no word for a dispute; the money is simply not there to be given back.
  disputed: 'NOT_CANCELABLE_PAYMENT',
  remaining_differs: 'NOT_MATCHES_REFUNDABLE_AMOUNT',
  exceeds_remaining: 'NOT_CANCELABLE_AMOUNT',
}

function requireEntered({ outcome }: Entered): void {
  const code = refusalOf[outcome]
  if (code !== undefined) throw new TossError(code)
}

async function cancel(context: ProviderContext, request: FastifyRequest, reply: FastifyReply, key: string) {
  const { body } = request
  if (!isCancel.Check(body)) throw new TossError('INVALID_REQUEST')
  const faults = await context.faults.inForce()
  const keyed = keyOf(request)
  const found = await findPayment(context, key, 'id')
  if (body.currency !== undefined && body.currency !== found.payment.currency)
    throw new TossError('INVALID_REQUEST')
  await replayRefusal(context, keyed.key)
  const mishap = context.faults.mishapOf(faults, keyed.given)
  if (mishap === 'error_before') throw new TossError('FAILED_REFUND_PROCESS')
  if (mishap === 'timeout_before') return hold(request, reply, context.closing)
  if (mishap === 'key_used_otherwise') {
    const card = findCard(found.billingKey)!
    const other = { ...found.payment, reference: newId('order_') }
    const told = renderPayment({ payment: other, orderName: found.description, card, reasons: new Map() })
    return sendJson(reply, 200, JSON.stringify(told))
  }

  // Reasons are kept apart from the book, and before the money moves: one that is left over harms nobody.
  await context.objects.put('reason', keyed.given, { reason: body.cancelReason }, await context.now())
  const remaining = found.payment.amount - found.payment.amount_refunded
  const entry = {
    payment: found.payment.id,
    reference: keyed.given,
    amount: BigInt(body.cancelAmount ?? Math.max(remaining, 1)),
    expectedRemaining: body.refundableAmount === undefined ? null : BigInt(body.refundableAmount),
  }
  const notice = context.faults.deliveryOf(faults, keyed.given)
  // A cancel has no name of its own at Toss: once its key is forgotten, nothing but the remainder is in its way.
  const entered = await enter(context, keyed, faults.slow_ms ?? 0, (claimed) =>
    context.book.refund(claimed, entry, true, notice),
  )
  await rememberRefusal(context, keyed.key, entered)
  if (entered.outcome === 'nothing_left') {
    const inOneGo = found.payment.refunds.filter(({ status }) => status === 'succeeded').length === 1
    throw new TossError(inOneGo ? 'ALREADY_CANCELED_PAYMENT' : 'NOT_CANCELABLE_AMOUNT')
  }
  requireEntered(entered)
  const silent = findCard(entered.card ?? '')?.refund === 'timeout_after'
  const trouble = silent ? 'timeout_after' : mishap
  if (entered.status !== 200) {
    if (trouble === 'timeout_after') return hold(request, reply, context.closing)
    throw new TossError('REFUND_REJECTED')
  }
  const refund: { id: string } = JSON.parse(entered.answer)
  const after = await findPayment(context, found.payment.id, 'id')
  const told = await render(context, { ...after, payment: asOfRefund(after.payment, refund.id) })
  return answer(context, request, reply, told, trouble)
}

type Refused = { outcome: string; at: string }

/** A refusal too is bound to its key: a corrected body under the same key gets the same no. */
async function replayRefusal(context: ProviderContext, key: string): Promise<void> {
  const refused = await context.objects.get<Refused>('refusal', key)
  if (!refused) return
  const age = (await context.now()).getTime() - Date.parse(refused.at)
  if (age < context.keyWindowMs) throw new TossError(refused.outcome)
}

async function rememberRefusal(context: ProviderContext, key: string, { outcome }: Entered): Promise<void> {
  const code = refusalOf[outcome]
  if (code === undefined || outcome === 'running') return
  const now = await context.now()
  await context.objects.put('refusal', key, { outcome: code, at: now.toISOString() }, now)
}

async function answer(
  context: ProviderContext,
  request: FastifyRequest,
  reply: FastifyReply,
  told: ReturnType<typeof renderPayment>,
  mishap: Mishap | undefined,
) {
  switch (mishap) {
    case 'error_after':
      throw new TossError('UNKNOWN_PAYMENT_ERROR')
    case 'timeout_after':
      return hold(request, reply, context.closing)
    case 'wrong_amount':
    case 'wrong_currency':
      return sendJson(reply, 200, JSON.stringify(misnamed(told, mishap)))
    case 'garbage': {
      const text = JSON.stringify(told)
      return sendJson(reply, 200, text.slice(0, text.length / 2))
    }
    default:
      return sendJson(reply, 200, JSON.stringify(told))
  }
}

function misnamed(
  told: ReturnType<typeof renderPayment>,
  echo: 'wrong_amount' | 'wrong_currency' | undefined,
) {
  if (!echo) return told
  if (echo === 'wrong_currency') return { ...told, currency: told.currency === 'USD' ? 'KRW' : 'USD' }
  const cancels =
    told.cancels?.map((cancelled) => ({ ...cancelled, cancelAmount: cancelled.cancelAmount + 1 })) ?? null
  return { ...told, totalAmount: told.totalAmount + 1, balanceAmount: told.balanceAmount + 1, cancels }
}

async function lookUp(context: ProviderContext, reply: FastifyReply, name: string, by: 'reference' | 'id') {
  const faults: Faults = await context.faults.inForce()
  if (context.faults.lookupFails(faults, name)) throw new TossError('FAILED_INTERNAL_SYSTEM_PROCESSING')
  const told = await render(context, await findPayment(context, name, by))
  return sendJson(reply, 200, JSON.stringify(misnamed(told, context.faults.lookupEcho(faults, name))))
}

async function findPayment(
  context: ProviderContext,
  name: string,
  by: 'reference' | 'id',
): Promise<PaymentOnBook> {
  const found = await findPaymentBy(context.book, by, name)
  if (!found) throw new TossError('NOT_FOUND_PAYMENT')
  return found
}

/** A payment of the book in Toss's words. */
export async function render(context: ProviderContext, { payment, billingKey, description }: PaymentOnBook) {
  const reasons = new Map<string, string>()
  for (const { reference } of payment.refunds) {
    const kept = await context.objects.get<{ reason: string }>('reason', reference)
    if (kept) reasons.set(reference, kept.reason)
  }
  return renderPayment({ payment, orderName: description, card: findCard(billingKey)!, reasons })
}

async function listTransactions(context: ProviderContext, { query }: FastifyRequest) {
  const { startDate, endDate, startingAfter, limit = '100' } = query as Record<string, string | undefined>
  const [from, to] = [koreanInstant(startDate), koreanInstant(endDate)]
  const most = Number(limit)
  if (!from || !to || !Number.isInteger(most) || most < 1 || most > 5_000)
    throw new TossError('INVALID_REQUEST')
  if (context.faults.lookupFails(await context.faults.inForce(), 'list'))
    throw new TossError('FAILED_INTERNAL_SYSTEM_PROCESSING')
  const movements = await context.book.listMovements(from, to, startingAfter, most)
  return movements.map((one) => ({
    mId: shopId,
    transactionKey: one.id,
    paymentKey: one.paymentId,
    orderId: one.reference,
    method: '카드',
    customerKey: one.accountId,
    useEscrow: false,
    receiptUrl: `https://dashboard.tosspayments.com/receipt/redirection?transactionId=${one.id}`,
    status: one.kind === 'taken' ? 'DONE' : one.amount === one.whole ? 'CANCELED' : 'PARTIAL_CANCELED',
    transactionAt: koreanTime(one.at.toISOString()),
    currency: one.currency,
    amount: Number(one.amount),
  }))
}

/** Without an offset it is Korean time. */
function koreanInstant(text = ''): Date | undefined {
  return parseInstant(text) ?? parseInstant(`${text}+09:00`)
}

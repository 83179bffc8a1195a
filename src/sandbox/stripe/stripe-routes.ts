import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { Http } from '../../platform/http/http.ts'
import { highestId, lowestId, newId } from '../../platform/id.ts'
import { followModeOfKey } from '../live-mode.ts'
import type { ProviderContext } from '../provider-context.ts'
import { sendJson } from '../provider-context.ts'
import { type Form, fieldsOf, listOf, parseForm, textOf } from './form.ts'
import { fromWire, toWire } from './stripe-amounts.ts'
import { findStripeCard } from './stripe-cards.ts'
import { newSecretOf, type StripeDesk } from './stripe-desk.ts'
import { brokenDown, invalid, missing, StripeAnswer, unauthorized, unavailable } from './stripe-error.ts'
import { eventsOf } from './stripe-events.ts'
import { bookName, cancelIntent, confirmIntent, createIntent, metadataOf } from './stripe-intents.ts'
import {
  apiVersion,
  type BookPayment,
  type Intent,
  inLiveMode,
  renderCustomer,
  renderDispute,
  renderList,
  renderMethod,
  renderRefund,
  renderSetup,
  type StoredCustomer,
  type StoredRefund,
  type StoredSetup,
} from './stripe-objects.ts'
import { type Done, handleOnce, misnamed } from './stripe-requests.ts'

/** How far the search is behind, in service time. */
export const searchLagMs = 30_000
const pendingMs = 60_000

type Named = { Params: { id: string } }

/** Stripe's API, as far as cards that are charged off session need it. Mounted below `/v1`. */
export function stripeRoutes(http: Http, context: ProviderContext, desk: StripeDesk): void {
  const { objects } = context

  http.removeAllContentTypeParsers()
  http.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, text, done) => done(null, parseForm(text as string)),
  )
  http.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) =>
    text === ''
      ? done(null, {})
      : done(
          invalid(
            'Invalid request (check that your POST content type is application/x-www-form-urlencoded).',
          ),
        ),
  )
  http.setNotFoundHandler(async (request, reply) => {
    const { status, body } = invalid(
      `Unrecognized request URL (${request.method}: ${request.url.split('?')[0]}).`,
      { status: 404 },
    )
    return sendJson(reply, status, body)
  })
  http.setErrorHandler(async (error: FastifyError, _request, reply) => {
    if (reply.sent) return reply
    if (error instanceof StripeAnswer) return sendJson(reply, error.status, error.body)
    // A fault of the simulator's own is for whoever runs it.
    if ((error.statusCode ?? 500) >= 500) throw error
    const unreadable = invalid('This request cannot be read.')
    return sendJson(reply, unreadable.status, unreadable.body)
  })
  followModeOfKey(http, isLiveKey, inLiveMode)
  http.addHook('onRequest', async (request, reply) => {
    reply.headers({ 'request-id': newId('req_'), 'stripe-version': versionOf(request) })
    const { down, refuse_credentials } = await context.faults.inForce()
    if (refuse_credentials || modeOfKey(request.headers.authorization) === undefined) throw unauthorized()
    if (down === 'reset') request.raw.socket.resetAndDestroy()
    if (down) throw unavailable()
  })

  /** A call that changes something. `known`: the parameters it takes. */
  const post = (
    path: string,
    known: readonly string[],
    work: (
      form: Form,
      id: string,
      faults: Awaited<ReturnType<typeof context.faults.inForce>>,
      isLive: boolean,
    ) => Promise<Done>,
    mayGoWrong = false,
  ) =>
    http.post<Named>(path, (request, reply) =>
      handleOnce(
        context,
        request,
        reply,
        async (faults) => {
          const form = (request.body ?? {}) as Form
          checkNames(form, known, request)
          return work(form, request.params.id, faults, isLiveKey(request.headers.authorization))
        },
        mayGoWrong,
      ),
    )
  /** A call that only reads. */
  const get = (path: string, read: (query: Form, id: string, request: FastifyRequest) => Promise<object>) =>
    http.get<Named>(path, async (request: FastifyRequest<Named>, reply: FastifyReply) => {
      const subject = request.params.id ?? path
      if (context.faults.lookupFails(await context.faults.inForce(), subject)) throw brokenDown()
      const [, search = ''] = request.url.split('?')
      const answer = await read(parseForm(search), request.params.id, request)
      const echo = context.faults.lookupEcho(await context.faults.inForce(), subject)
      return sendJson(reply, 200, misnamed(JSON.stringify(answer), echo))
    })

  const intentOr404 = async (id: string): Promise<Intent> => {
    const intent = await desk.intent(id)
    if (!intent) throw missing('payment_intent', id, 'intent')
    return intent
  }
  const customerOr404 = async (id: string, param = 'id', status = 404): Promise<StoredCustomer> => {
    const customer = await objects.get<StoredCustomer>('customer', id)
    if (!customer) throw missing('customer', id, param, status)
    return customer
  }

  post(
    '/customers',
    ['email', 'name', 'description', 'metadata', 'phone', 'address', 'expand'],
    async (form) => {
      const now = await context.now()
      const customer: StoredCustomer = {
        id: newId('cus_', now),
        email: textOf(form, 'email') ?? null,
        name: textOf(form, 'name') ?? null,
        description: textOf(form, 'description') ?? null,
        metadata: metadataOf(form),
        createdAt: now.toISOString(),
      }
      await objects.put('customer', customer.id, customer, now)
      return { body: renderCustomer(customer) }
    },
  )
  get('/customers/:id', async (_query, id) => renderCustomer(await customerOr404(id)))
  get('/customers', async (query) => {
    const limit = limitOf(query)
    const found = await objects.find<StoredCustomer>('customer', {}, limit + 1)
    return renderList(found.slice(0, limit).map(renderCustomer), found.length > limit, '/v1/customers')
  })

  const setupNames = [
    'customer',
    'usage',
    'automatic_payment_methods',
    'allowed_payment_method_types',
    'metadata',
    'payment_method',
    'confirm',
    'return_url',
    'mandate_data',
    'description',
    'expand',
  ]
  const finishSetup = async (setup: StoredSetup, named: string, now: Date): Promise<StoredSetup> => {
    const method = await desk.method(named)
    if (!method || method.isDetached) throw missing('PaymentMethod', named, 'payment_method', 400)
    const attached = setup.customer === null ? method : await desk.attach(method, setup.customer, now)
    const done = { ...setup, paymentMethod: attached.id, status: 'succeeded' as const }
    await objects.put('setup_intent', done.id, done, now)
    return done
  }
  post('/setup_intents', setupNames, async (form) => {
    const now = await context.now()
    const customer = textOf(form, 'customer') ?? null
    if (customer !== null) await customerOr404(customer, 'customer', 400)
    const id = newId('seti_', now)
    const setup: StoredSetup = {
      id,
      customer,
      paymentMethod: null,
      status: 'requires_payment_method',
      metadata: metadataOf(form),
      clientSecret: newSecretOf(id),
      createdAt: now.toISOString(),
    }
    const named = textOf(form, 'payment_method')
    if (named !== undefined && textOf(form, 'confirm') === 'true')
      return { body: renderSetup(await finishSetup(setup, named, now)) }
    await objects.put('setup_intent', id, setup, now)
    return { body: renderSetup(setup) }
  })
  const setupOr404 = async (id: string) => {
    const setup = await desk.setup(id)
    if (!setup) throw missing('setupintent', id, 'intent')
    return setup
  }
  get('/setup_intents/:id', async (query, id) => {
    const setup = await setupOr404(id)
    const wanted = listOf(query, 'expand').includes('payment_method')
    const method = wanted && setup.paymentMethod !== null ? await desk.method(setup.paymentMethod) : undefined
    return renderSetup(setup, method && renderMethod(method))
  })
  post(
    '/setup_intents/:id/confirm',
    ['payment_method', 'return_url', 'client_secret', 'mandate_data', 'expand'],
    async (form, id) => {
      const setup = await setupOr404(id)
      if (setup.status === 'succeeded' || setup.status === 'canceled')
        throw invalid(`You cannot confirm this SetupIntent because it has a status of ${setup.status}.`, {
          code: 'setup_intent_unexpected_state',
        })
      const named = textOf(form, 'payment_method')
      if (named === undefined)
        throw invalid('You cannot confirm this SetupIntent because it is missing a payment method.', {
          code: 'setup_intent_unexpected_state',
        })
      return { body: renderSetup(await finishSetup(setup, named, await context.now())) }
    },
  )

  const methodOr404 = async (id: string) => {
    const method = await desk.method(id)
    if (!method) throw missing('PaymentMethod', id, 'payment_method')
    return method
  }
  get('/payment_methods/:id', async (_query, id) => renderMethod(await methodOr404(id)))
  post('/payment_methods/:id/attach', ['customer', 'expand'], async (form, id) => {
    const method = await methodOr404(id)
    const customer = textOf(form, 'customer') ?? ''
    await customerOr404(customer, 'customer', 400)
    if (method.isDetached) {
      throw invalid('This PaymentMethod was detached from its customer and may not be used again.', {
        param: 'payment_method',
      })
    }
    if (method.customer !== null && method.customer !== customer)
      throw invalid('The payment method you provided has already been attached to a customer.')
    return { body: renderMethod(await desk.attach(method, customer, await context.now())) }
  })
  post('/payment_methods/:id/detach', ['expand'], async (_form, id) => {
    const method = await methodOr404(id)
    if (method.customer === null) {
      throw invalid(
        'The payment method you provided is not attached to a customer so detachment is impossible.',
        {
          param: 'payment_method',
        },
      )
    }
    return { body: renderMethod(await desk.detach(method, await context.now())) }
  })

  const intentNames = [
    'amount',
    'currency',
    'customer',
    'payment_method',
    'off_session',
    'confirm',
    'description',
    'metadata',
    'return_url',
    'automatic_payment_methods',
    'allowed_payment_method_types',
    'error_on_requires_action',
    'receipt_email',
    'statement_descriptor',
    'statement_descriptor_suffix',
    'setup_future_usage',
    'capture_method',
    'expand',
  ]
  post(
    '/payment_intents',
    intentNames,
    (form, _id, faults, isLive) => createIntent(context, desk, faults, form, isLive),
    true,
  )
  post(
    '/payment_intents/:id/confirm',
    [
      'payment_method',
      'return_url',
      'off_session',
      'client_secret',
      'error_on_requires_action',
      'mandate_data',
      'expand',
    ],
    (form, id, faults) =>
      desk.inTurn(id, async () => confirmIntent(context, desk, faults, await intentOr404(id), form)),
    true,
  )
  post('/payment_intents/:id/cancel', ['cancellation_reason', 'expand'], (form, id) =>
    desk.inTurn(id, async () => cancelIntent(desk, await intentOr404(id), form, await context.now())),
  )
  get('/payment_intents/search', async (query) => {
    const asked = /^metadata\['order_id'\]:'([^']*)'$/.exec(textOf(query, 'query') ?? '')
    if (!asked) throw invalid('We were unable to parse your search query.', { param: 'query' })
    const now = await context.now()
    const known = await objects.find<Intent>('payment_intent', { metadata: { order_id: asked[1] } })
    const indexed = known.filter(({ createdAt }) => Date.parse(createdAt) + searchLagMs <= now.getTime())
    const expand = expandOf(query)
    return {
      object: 'search_result',
      data: await desk.showAll(indexed.slice(0, limitOf(query)), expand),
      has_more: false,
      next_page: null,
      url: '/v1/payment_intents/search',
    }
  })
  get('/payment_intents/:id', async (query, id) => desk.show(await intentOr404(id), listOf(query, 'expand')))
  get('/payment_intents', async (query) => {
    const customer = textOf(query, 'customer')
    const { items, hasMore } = await page<Intent>(context, 'payment_intent', 'pi_', query, {
      ...(customer !== undefined && { customer }),
    })
    const expand = expandOf(query)
    const shown = await desk.showAll(items, expand)
    return renderList(shown, hasMore, '/v1/payment_intents')
  })

  get('/charges/:id', async (query, id) => {
    const intent = await desk.intentOfCharge(id)
    const payment = intent && (await desk.paymentOf(intent))
    if (!intent || !payment) throw missing('charge', id)
    return desk.chargeOf(intent, payment, listOf(query, 'expand').includes('refunds'))
  })

  const refundedIntent = async (form: Form): Promise<{ intent: Intent; payment: BookPayment }> => {
    const id = textOf(form, 'payment_intent')
    const chargeId = textOf(form, 'charge')
    if (id === undefined && chargeId === undefined)
      throw invalid(
        'One of the following params should be provided for this request: payment_intent or charge.',
        {
          code: 'parameter_missing',
          param: 'payment_intent',
        },
      )
    const intent = id === undefined ? await desk.intentOfCharge(chargeId!) : await desk.intent(id)
    if (!intent)
      throw missing(
        id === undefined ? 'charge' : 'payment_intent',
        id ?? chargeId!,
        id === undefined ? 'charge' : 'payment_intent',
      )
    const payment = await desk.paymentOf(intent)
    if (payment?.status !== 'paid') {
      throw invalid('This PaymentIntent does not have a successful charge to refund.', {
        code: 'payment_intent_unexpected_state',
      })
    }
    return { intent, payment }
  }
  post(
    '/refunds',
    ['payment_intent', 'charge', 'amount', 'reason', 'metadata', 'expand'],
    async (form, _id, faults) => {
      const { intent, payment } = await refundedIntent(form)
      const now = await context.now()
      const remaining = BigInt(payment.amount - payment.amount_refunded)
      const asked = textOf(form, 'amount')
      const amount = asked === undefined ? remaining : fromWire(Number(asked), payment.currency)
      if (amount === undefined || (asked !== undefined && amount < 1n))
        throw invalid('Invalid positive integer', { code: 'parameter_invalid_integer', param: 'amount' })
      const card = findStripeCard(intent.card ?? '')
      const metadata = metadataOf(form)
      const id = newId('re_', now)
      const reference = bookName(metadata.refund_id) ?? id
      const stored: StoredRefund = {
        id,
        intent: intent.id,
        metadata,
        reason: textOf(form, 'reason') ?? null,
        pendingUntil: card?.refundAs === 'pending' ? new Date(now.getTime() + pendingMs).toISOString() : null,
      }
      await objects.put('refund', id, stored, now)
      const notice = context.faults.deliveryOf(faults, reference)
      const { entered, refund } = await desk.refund(
        payment,
        amount === 0n ? 1n : amount,
        { id, reference },
        notice,
        now,
      )
      if (!refund) throw refusedRefund(entered.outcome, remaining, payment)
      const body = renderRefund(intent, payment, refund, stored, now)
      if (card?.refundAs === 'fails_later') await context.notifyAfter(context.book.failRefund(reference, now))
      return { body, after: card?.refund === 'timeout_after' ? 'timeout_after' : undefined }
    },
    true,
  )
  get('/refunds/:id', async (_query, id) => {
    const stored = await objects.get<StoredRefund>('refund', id)
    const intent = stored && (await desk.intent(stored.intent))
    const payment = intent && (await desk.paymentOf(intent))
    const refund = payment?.refunds.find((one) => one.id === id)
    if (!intent || !payment || !refund) throw missing('refund', id)
    return renderRefund(intent, payment, refund, stored, await context.now())
  })
  get('/refunds', async (query) => {
    const id = textOf(query, 'payment_intent')
    const chargeId = textOf(query, 'charge')
    const limit = limitOf(query)
    if (id === undefined && chargeId === undefined)
      return changedIn(query, '/v1/refunds', (intent, payment) => desk.refundsOf(intent, payment))
    const intent = id === undefined ? await desk.intentOfCharge(chargeId!) : await desk.intent(id)
    const payment = intent && (await desk.paymentOf(intent))
    const refunds = payment ? await desk.refundsOf(intent, payment) : []
    const rest = afterCursor(refunds, textOf(query, 'starting_after'))
    return renderList(rest.slice(0, limit), rest.length > limit, '/v1/refunds')
  })

  /** Things that came to payments between two instants, newest first. The book knows when each last changed. */
  const changedIn = async <T extends { id: string; created: number }>(
    query: Form,
    url: string,
    of: (intent: Intent, payment: BookPayment) => Promise<readonly T[]>,
  ) => {
    const { gte, lt } = createdOf(query)
    const [from, to] = [new Date(gte * 1000), new Date(lt * 1000)]
    const found: T[] = []
    let after: readonly string[] | undefined
    for (;;) {
      // Whatever happened in the time asked for, its payment changed then or later.
      const rows = await context.book.listOldestFirst('changed', from, endOfTime, after, 500)
      for (const { payment } of rows as { payment: BookPayment }[]) {
        const intent = await desk.intentOfCharge(payment.id)
        if (!intent) continue
        const things = await of(intent, payment)
        found.push(
          ...things.filter(
            ({ created }) => created >= from.getTime() / 1000 && created < to.getTime() / 1000,
          ),
        )
      }
      const last = rows.at(-1)
      if (rows.length < 500 || !last) break
      after = [last.at, last.id]
    }
    found.sort((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1))
    const rest = afterCursor(found, textOf(query, 'starting_after'))
    const limit = limitOf(query)
    return renderList(rest.slice(0, limit), rest.length > limit, url)
  }
  get('/disputes', async (query) => {
    const id = textOf(query, 'payment_intent')
    const chargeId = textOf(query, 'charge')
    if (id === undefined && chargeId === undefined)
      return changedIn(query, '/v1/disputes', async (intent, payment) =>
        [renderDispute(intent, payment)].filter((one) => one !== undefined),
      )
    const intent = id === undefined ? await desk.intentOfCharge(chargeId!) : await desk.intent(id)
    const dispute = intent && (await desk.disputeOf(intent))
    return renderList(dispute ? [dispute] : [], false, '/v1/disputes')
  })
  get('/disputes/:id', async (_query, id) => {
    const intent = await desk.intentOfCharge(id.replace(/^dp_/, 'ch_'))
    const dispute = intent && (await desk.disputeOf(intent))
    if (!dispute) throw missing('dispute', id)
    return dispute
  })
  get('/events', async (query) => {
    const types = textOf(query, 'type') !== undefined ? [textOf(query, 'type')!] : listOf(query, 'types')
    return changedIn(query, '/v1/events', async (intent, payment) => {
      const events = await eventsOf(desk, intent, payment)
      return types.length === 0 ? events : events.filter(({ type }) => types.includes(type))
    })
  })
  get('/balance', async () => ({
    object: 'balance',
    available: [{ amount: 0, currency: 'krw', source_types: { card: 0 } }],
    livemode: false,
    pending: [{ amount: 0, currency: 'krw', source_types: { card: 0 } }],
  }))
}

const endOfTime = new Date('9999-01-01T00:00:00Z')

function refusedRefund(outcome: string, remaining: bigint, { currency }: BookPayment): StripeAnswer {
  switch (outcome) {
    case 'nothing_left':
      return invalid('Charge has already been refunded.', { code: 'charge_already_refunded' })
    case 'disputed':
      return invalid('This charge has been charged back.', { code: 'charge_disputed' })
    default:
      return invalid(
        `Refund amount is greater than unrefunded amount on charge (${toWire(remaining, currency)}).`,
        {
          param: 'amount',
        },
      )
  }
}

function modeOfKey(authorization: string | undefined): string | undefined {
  const [scheme, given = ''] = (authorization ?? '').split(' ')
  const key =
    scheme?.toLowerCase() === 'basic'
      ? Buffer.from(given, 'base64').toString('latin1').replace(/:.*$/, '')
      : given
  return /^(?:sk|rk)_(test|live)_\w+$/.exec(key)?.[1]
}

function isLiveKey(authorization: string | undefined): boolean {
  return modeOfKey(authorization) === 'live'
}

function versionOf({ headers }: FastifyRequest): string {
  const version = headers['stripe-version']
  return typeof version === 'string' ? version : apiVersion
}

/** A parameter that this version does not know is refused, as Stripe does. */
function checkNames(form: Form, known: readonly string[], request: FastifyRequest): void {
  const old = versionOf(request) < '2026-09-30' ? ['payment_method_types'] : []
  const odd = Object.keys(form).find((name) => !known.includes(name) && !old.includes(name))
  if (odd !== undefined)
    throw invalid(`Received unknown parameter: ${odd}`, { code: 'parameter_unknown', param: odd })
}

function limitOf(query: Form): number {
  const limit = Number(textOf(query, 'limit') ?? 10)
  if (!Number.isInteger(limit) || limit < 1 || limit > 100)
    throw invalid('Invalid limit: must be between 1 and 100.', { param: 'limit' })
  return limit
}

function expandOf(query: Form): string[] {
  return listOf(query, 'expand').map((path) => path.replace(/^data\./, ''))
}

function createdOf(query: Form): { gte: number; lt: number } {
  const created = fieldsOf(query, 'created')
  const bound = (name: string, add: number) => {
    const text = textOf(created, name)
    return text === undefined ? undefined : Number(text) + add
  }
  return {
    gte: bound('gte', 0) ?? bound('gt', 1) ?? 0,
    lt: bound('lt', 0) ?? bound('lte', 1) ?? endOfTime.getTime() / 1000,
  }
}

function afterCursor<T extends { id: string }>(
  items: readonly T[],
  cursor: string | undefined,
): readonly T[] {
  if (cursor === undefined) return items
  const at = items.findIndex(({ id }) => id === cursor)
  return at === -1 ? [] : items.slice(at + 1)
}

/** A page of things made between two instants, newest first. */
async function page<T extends { id: string; createdAt: string }>(
  context: ProviderContext,
  kind: string,
  prefix: `${string}_`,
  query: Form,
  part: object,
): Promise<{ items: T[]; hasMore: boolean }> {
  const { gte, lt } = createdOf(query)
  const limit = limitOf(query)
  const startingAfter = textOf(query, 'starting_after')
  const endingBefore = textOf(query, 'ending_before')
  const isInside = ({ createdAt }: T) => {
    const at = Math.floor(Date.parse(createdAt) / 1000)
    return at >= gte && at < lt
  }
  let from = endingBefore !== undefined ? `${endingBefore}\u0001` : lowestId(prefix, new Date(gte * 1000))
  let before = startingAfter ?? highestId(prefix, new Date(lt * 1000))
  const order = endingBefore !== undefined ? 'oldest' : 'newest'
  const items: T[] = []
  // Ids may run a little ahead of the clock, so some of what lies between is not inside.
  while (items.length <= limit) {
    const found = await context.objects.between<T>(kind, order, { from, before, part }, limit + 1)
    items.push(...found.filter(isInside))
    const last = found.at(-1)
    if (found.length <= limit || !last) break
    if (order === 'oldest') from = `${last.id}0`
    else before = last.id
  }
  const shown = items.slice(0, limit)
  return { items: order === 'oldest' ? shown.reverse() : shown, hasMore: items.length > limit }
}

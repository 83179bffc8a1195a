import { createHash } from 'node:crypto'
import type Stripe from 'stripe'
import { clockCheck } from '../clock-check.ts'
import type {
  CancelOutcome,
  PaymentListing,
  PaymentLookup,
  Provider,
  ProviderCheck,
  ProviderPayment,
  SetUpOutcome,
  SetUpRequest,
} from '../port.ts'
import { verifyStripeSignature } from '../stripe-signature.ts'
import { stripeCurrencies, toStripeAmount } from './stripe-amounts.ts'
import { changeCursor, listChanged } from './stripe-changes.ts'
import { openStripeClient, type StripeClientOptions } from './stripe-client.ts'
import { failureOf, failureOfRead, headerOf, isMissing } from './stripe-failures.ts'
import { parsed, readHint, textAt } from './stripe-hint.ts'
import { type List, listOldestFirst } from './stripe-lists.ts'
import {
  chargeFailure,
  exchanged,
  foremost,
  intentOutcome,
  orRefused,
  otherMode,
  refundFailure,
  refundOutcome,
  withoutRefusal,
} from './stripe-outcomes.ts'
import { cardOf, idOf, names, namesOrder, paymentOf } from './stripe-payments.ts'

export type StripeProviderOptions = StripeClientOptions & {
  /** Only for telling whether they are set right; which ones verify is said with each delivery. */
  readonly webhookSecrets?: readonly string[]
}

const dayMs = 86_400_000
const leastSecretLength = 24
const mostAtOnce = 8

/** The adapter to Stripe. */
export function stripeProvider(options: StripeProviderOptions): Provider {
  const stripe = openStripeClient(options)
  const isLive = /^[a-z]+_live_/.test(options.secretKey)

  const disputesOf = async (intent: Stripe.PaymentIntent): Promise<readonly Stripe.Dispute[]> => {
    const charge = typeof intent.latest_charge === 'object' ? intent.latest_charge : null
    if (!charge?.disputed) return []
    return (await stripe.disputes.list({ payment_intent: intent.id, limit: 100 })).data
  }
  /** With all of its refunds: an intent brings only the latest ten along. */
  const complete = async (intent: Stripe.PaymentIntent): Promise<Stripe.PaymentIntent> => {
    const charge = typeof intent.latest_charge === 'object' ? intent.latest_charge : null
    if (!charge?.refunds?.has_more) return intent
    const data = await stripe.refunds.list({ payment_intent: intent.id, limit: 100 })
    return { ...intent, latest_charge: { ...charge, refunds: data } }
  }
  const read = async (intent: Stripe.PaymentIntent): Promise<ProviderPayment | undefined> => {
    const [whole, disputes] = await Promise.all([complete(intent), disputesOf(intent)])
    return paymentOf(whole, disputes)
  }
  const retrieve = (id: string) => stripe.paymentIntents.retrieve(id, { expand: ['latest_charge.refunds'] })

  const lookUp = async (reference: string, id: string): Promise<PaymentLookup> => {
    const intent = await retrieve(id)
    if (intent.livemode !== isLive) return otherMode(intent)
    const payment = await read(intent)
    if (payment?.reference !== reference) return { kind: 'mismatch' }
    const mayBeConfirmed = payment.status === 'declined' && intent.status !== 'canceled'
    if (!mayBeConfirmed) return { kind: 'found', payment }
    // Its customer may hold the secret with which it could still be confirmed with another card: then it is not over.
    const canceled = await cancel(reference, id)
    if (canceled.kind === 'canceled') return { kind: 'found', payment }
    if (canceled.kind !== 'paid') return { kind: 'unknown' }
    const paid = await read(await retrieve(id))
    return paid ? { kind: 'found', payment: paid } : { kind: 'unknown' }
  }

  const cancel = async (reference: string, id: string): Promise<CancelOutcome> => {
    try {
      const { status } = await stripe.paymentIntents.cancel(id)
      return { kind: status === 'canceled' ? 'canceled' : 'unknown' }
    } catch (error) {
      const failure = failureOfRead(error)
      if (failure.kind !== 'refused') return failure
      if (failure.code !== 'payment_intent_unexpected_state') return { kind: 'unknown' }
    }
    // It can no longer be cancelled: it is paid, or it was cancelled before.
    try {
      const intent = await retrieve(id)
      if (intent.metadata?.[names.payment] !== reference) return { kind: 'unknown' }
      if (intent.status === 'succeeded') return { kind: 'paid' }
      return { kind: intent.status === 'canceled' ? 'canceled' : 'unknown' }
    } catch (error) {
      return withoutRefusal(failureOfRead(error))
    }
  }

  const listIntents: List<Stripe.PaymentIntent> = (query) =>
    stripe.paymentIntents.list({ ...query, expand: ['data.latest_charge.refunds'] })

  /** The payments behind things that happened, each once, as they are now. */
  const behind = async (ids: readonly (string | null)[]): Promise<ProviderPayment[] | undefined> => {
    const wanted = [...new Set(ids.filter((id) => id !== null))]
    const found: (ProviderPayment | undefined)[] = []
    for (let at = 0; at < wanted.length; at += mostAtOnce) {
      const some = await Promise.all(wanted.slice(at, at + mostAtOnce).map(retrieve))
      found.push(...(await Promise.all(some.filter(namesOrder).map(read))))
    }
    return found.every((payment) => payment !== undefined) ? found : undefined
  }

  return {
    name: 'stripe',
    guards: {
      keyWindowMs: dayMs,
      namesRefunds: true,
      currencies: stripeCurrencies,
      takesAmount: (amount) => toStripeAmount(amount) !== undefined,
    },

    async charge(request) {
      const method = methodIn(request.billingKey)
      const amount = toStripeAmount(request.amount)
      if (!method) return { kind: 'refused', code: 'billing_key_invalid' }
      if (!stripeCurrencies.has(request.amount.currency))
        return { kind: 'refused', code: 'currency_not_supported' }
      if (amount === undefined) return { kind: 'refused', code: 'provider_error' }
      try {
        const intent = await stripe.paymentIntents.create(
          {
            amount,
            currency: request.amount.currency.toLowerCase(),
            ...(method.customer !== null && { customer: method.customer }),
            payment_method: method.id,
            off_session: true,
            confirm: true,
            automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
            description: request.description,
            metadata: { [names.payment]: request.key, [names.account]: request.accountId },
            expand: ['latest_charge'],
          },
          { idempotencyKey: request.key },
        )
        return intentOutcome(request, intent, isLive)
      } catch (error) {
        return chargeFailure(request, failureOf(error), isLive)
      }
    },

    async findPayment(reference, providerId) {
      try {
        if (providerId?.startsWith('pi_')) return await lookUp(reference, providerId)
        const query = `metadata['${names.payment}']:'${reference.replace(/[\\']/g, '\\$&')}'`
        const { data } = await stripe.paymentIntents.search({ query, limit: 100 })
        const ours = data.filter(({ metadata }) => metadata?.[names.payment] === reference)
        const intent = foremost(ours)
        // A search may be behind what it found, too.
        return intent ? await lookUp(reference, intent.id) : { kind: 'none' }
      } catch (error) {
        const failure = failureOfRead(error)
        if (failure.kind === 'credentials_refused') return failure
        return { kind: isMissing(failure) ? 'mismatch' : 'unknown' }
      }
    },

    cancelPayment: (reference, providerId) => cancel(reference, providerId),

    async refund(request) {
      const amount = toStripeAmount(request.amount)
      if (amount === undefined) return { kind: 'declined' }
      try {
        const refund = await stripe.refunds.create(
          {
            payment_intent: request.payment.providerId,
            amount,
            ...(request.reason === 'requested_by_customer' && { reason: request.reason }),
            metadata: { [names.payment]: request.payment.reference, [names.refund]: request.key },
          },
          { idempotencyKey: request.key },
        )
        return refundOutcome(request, refund)
      } catch (error) {
        return refundFailure(request, failureOf(error))
      }
    },

    async exchange(authKey, customerKey) {
      if (!isName(authKey)) return { kind: 'refused' }
      try {
        if (authKey.startsWith('pm_')) {
          const method = await stripe.paymentMethods.attach(authKey, { customer: customerKey })
          return exchanged(customerKey, method)
        }
        const setup = await stripe.setupIntents.retrieve(authKey, { expand: ['payment_method'] })
        const customer = idOf(setup.customer)
        if (setup.status !== 'succeeded' || setup.livemode !== isLive) return { kind: 'refused' }
        // A setup without customer cannot be charged again with real money; simulators and test keys may have one.
        if (customer === null ? isLive : customer !== customerKey) return { kind: 'refused' }
        const method = setup.payment_method
        return method !== null && typeof method === 'object'
          ? exchanged(customer, method)
          : { kind: 'unknown' }
      } catch (error) {
        return orRefused(failureOfRead(error))
      }
    },

    customerOf: (billingKey) => methodIn(billingKey)?.customer ?? null,

    async describe(billingKey) {
      const method = methodIn(billingKey)
      if (!method) return { kind: 'invalid' }
      try {
        const found = await stripe.paymentMethods.retrieve(method.id)
        const card = cardOf(found.card)
        const isTheirs = method.customer === null || idOf(found.customer) === method.customer
        return card && isTheirs && found.livemode === isLive ? { kind: 'valid', card } : { kind: 'invalid' }
      } catch (error) {
        const failure = failureOfRead(error)
        if (failure.kind !== 'refused') return failure
        return { kind: isMissing(failure) ? 'invalid' : 'unknown' }
      }
    },

    async forget(billingKey) {
      const method = methodIn(billingKey)
      if (!method) return { kind: 'done' }
      try {
        await stripe.paymentMethods.detach(method.id)
        return { kind: 'done' }
      } catch (error) {
        const failure = failureOfRead(error)
        if (failure.kind !== 'refused') return failure
        // It belongs to nobody, or does not exist any more.
        const isGone = isMissing(failure) || failure.param === 'payment_method'
        return { kind: isGone ? 'done' : 'unknown' }
      }
    },

    setUp: (request) => setUp(stripe, request),
    check: () => check(stripe, options),

    async listPayments(from, to, cursor) {
      try {
        const { items, next } = await listOldestFirst(listIntents, from, to, cursor)
        const payments = await Promise.all(items.filter(namesOrder).map(read))
        if (!payments.every((payment) => payment !== undefined)) return { kind: 'unknown' }
        return { kind: 'page', payments, next }
      } catch (error) {
        return listFailure(error)
      }
    },

    async listChanges(from, to, cursor) {
      const [kind, place] = changeCursor(cursor)
      try {
        const { ids, next } = await listChanged(stripe, kind, from, to, place)
        const payments = await behind(ids)
        return payments ? { kind: 'page', payments, next } : { kind: 'unknown' }
      } catch (error) {
        return listFailure(error)
      }
    },

    verifyWebhook(delivery) {
      if (!verifyStripeSignature(delivery)) return undefined
      const message = parsed(delivery.body)
      // Without an id it is authentic all the same: what is no JSON is refused for that, and the rest counts once by its bytes.
      const eventId = textAt(message, 'id') ?? createHash('sha256').update(delivery.body).digest('hex')
      return { eventId, message }
    },

    readWebhook: readHint,
  }
}

/** `cus_…:pm_…`, or a card that belongs to no customer. */
function methodIn(billingKey: string): { customer: string | null; id: string } | undefined {
  const [first = '', second, ...rest] = billingKey.split(':')
  if (rest.length > 0 || !isName(first) || (second !== undefined && !isName(second))) return undefined
  return second === undefined ? { customer: null, id: first } : { customer: first, id: second }
}

/** A path swallows dots and slashes, and no id of Stripe has any. */
function isName(text: string): boolean {
  return /^[A-Za-z0-9_]{1,500}$/.test(text)
}

async function setUp(stripe: Stripe, request: SetUpRequest): Promise<SetUpOutcome> {
  const { setupId, accountId, customerKey, email } = request
  const newCustomer = async () => {
    const metadata = { [names.account]: accountId }
    const asked = { metadata, ...(email !== null && { email }) }
    return (await stripe.customers.create(asked, { idempotencyKey: `${setupId}_customer` })).id
  }
  const prepare = async (customer: string): Promise<SetUpOutcome> => {
    const setup = await stripe.setupIntents.create(
      {
        customer,
        usage: 'off_session',
        automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
        metadata: { [names.setup]: setupId, [names.account]: accountId },
      },
      // One for each customer: a repeat may come with the new one, and a refusal of the old one may be kept under its key.
      { idempotencyKey: `${setupId}_${customer}` },
    )
    if (setup.client_secret === null) return { kind: 'unknown' }
    return { kind: 'done', customerKey: customer, client: { client_secret: setup.client_secret, customer } }
  }
  const prepareFor = (known: string) =>
    prepare(known).catch(async (error) => {
      // It was deleted there, or the shop has another account of Stripe now.
      if (!isMissing(failureOfRead(error), 'customer')) throw error
      return prepare(await newCustomer())
    })
  try {
    return await (customerKey === null ? prepare(await newCustomer()) : prepareFor(customerKey))
  } catch (error) {
    const failure = failureOfRead(error)
    return failure.kind === 'refused' ? { kind: 'refused' } : failure
  }
}

async function check(
  stripe: Stripe,
  { webhookSecrets = [] }: StripeProviderOptions,
): Promise<readonly ProviderCheck[]> {
  const isSecretWell =
    webhookSecrets.length > 0 && webhookSecrets.every((secret) => secret.length >= leastSecretLength)
  const secret: ProviderCheck = {
    subject: 'webhook_secret',
    ok: isSecretWell,
    message: isSecretWell
      ? 'A signing secret is set.'
      : 'Set STRIPE_WEBHOOK_SECRETS to the signing secret of the endpoint, as the dashboard shows it.',
  }
  try {
    const page = await stripe.paymentIntents.list({ limit: 1 })
    return [
      { subject: 'credentials', ok: true, message: 'The key is taken.' },
      clockCheck(headerOf(page.lastResponse.headers, 'date')),
      { subject: 'listing', ok: true, message: 'The book can be read.' },
      secret,
    ]
  } catch (error) {
    const isRefused = failureOf(error).kind === 'credentials_refused'
    return [
      {
        subject: 'credentials',
        ok: false,
        message: isRefused
          ? 'Stripe refuses this key; correct STRIPE_SECRET_KEY, or give it the right to write payments, payment methods, refunds and customers.'
          : 'Stripe gives no clear answer; check STRIPE_BASE_URL and the way to it.',
      },
      { subject: 'listing', ok: false, message: 'The book cannot be read.' },
      secret,
    ]
  }
}

function listFailure(error: unknown): PaymentListing {
  const failure = failureOfRead(error)
  return { kind: failure.kind === 'credentials_refused' ? failure.kind : 'unknown' }
}

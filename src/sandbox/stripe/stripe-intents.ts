import { setTimeout as sleep } from 'node:timers/promises'
import type Stripe from 'stripe'
import { newId } from '../../platform/id.ts'
import { currencies } from '../currencies.ts'
import type { Faults } from '../faults.ts'
import type { ProviderContext } from '../provider-context.ts'
import { type Form, fieldsOf, listOf, textOf } from './form.ts'
import { fromWire, isWhole } from './stripe-amounts.ts'
import { authenticationRequired, declineOf, findStripeCard } from './stripe-cards.ts'
import { brokenDown, invalid, missing, StripeAnswer, unavailable } from './stripe-error.ts'
import { bookName, type Intent, type StoredMethod, statusOf } from './stripe-objects.ts'
import type { Done } from './stripe-requests.ts'
import { newSecretOf, type StripeStore } from './stripe-store.ts'

// Of a card. No card here has a lower limit of its own.
const mostAmount = 999_999_999_999
const leastDollars = 50

/** `POST /v1/payment_intents`: an intent, and where it is to be confirmed at once, the attempt to charge it. */
export async function createIntent(
  context: ProviderContext,
  store: StripeStore,
  faults: Faults,
  form: Form,
  isLive: boolean,
  now: Date,
): Promise<Done> {
  const amount = Number(textOf(form, 'amount') ?? Number.NaN)
  const currency = (textOf(form, 'currency') ?? '').toUpperCase()
  checkAmount(amount, currency, faults)
  const isConfirmed = textOf(form, 'confirm') === 'true'
  for (const only of ['off_session', 'error_on_requires_action']) {
    if (textOf(form, only) !== undefined && !isConfirmed)
      throw invalid(`\`${only}\` can only be used when \`confirm\` is true.`, { param: only })
  }
  const customer = textOf(form, 'customer') ?? null
  const named = textOf(form, 'payment_method')
  // Asked for in one turn, they are read in one statement.
  const [owner, given] = await Promise.all([
    customer === null ? undefined : context.objects.get('customer', customer),
    named === undefined ? undefined : store.method(named),
  ])
  if (customer !== null && !owner) throw missing('customer', customer, 'customer', 400)
  const method = named === undefined ? undefined : usable(named, given, customer)
  if (isConfirmed && !method) {
    const code = 'payment_intent_unexpected_state'
    throw invalid('You cannot confirm this PaymentIntent because it is missing a payment method.', { code })
  }

  const id = newId('pi_', now)
  const metadata = metadataOf(form)
  const intent: Intent = {
    id,
    reference: bookName(metadata.order_id) ?? id,
    accountId: bookName(metadata.account_id) ?? customer ?? id,
    customer,
    paymentMethod: method?.id ?? null,
    card: method?.card ?? null,
    amount,
    currency,
    description: textOf(form, 'description') ?? null,
    metadata,
    clientSecret: newSecretOf(id),
    createdAt: now.toISOString(),
    charges: [],
    waitsFor: null,
    failedAs: null,
    canceledAt: null,
    cancellationReason: null,
    ...(isLive && { isLive }),
  }
  if (!isConfirmed) {
    await store.keep(intent, now)
    return { body: await store.show(intent, listOf(form, 'expand')) }
  }
  return confirm(context, store, faults, intent, form, now)
}

/** `POST /v1/payment_intents/{id}/confirm`, within the intent's turn. */
export async function confirmIntent(
  context: ProviderContext,
  store: StripeStore,
  faults: Faults,
  intent: Intent,
  form: Form,
  now: Date,
): Promise<Done> {
  const status = statusOf(intent, await store.paymentOf(intent))
  if (status === 'succeeded' || status === 'canceled')
    throw unexpectedState(await store.show(intent), 'confirm')
  const given = textOf(form, 'payment_method')
  const method = given === undefined ? undefined : usable(given, await store.method(given), intent.customer)
  const asked = method ? { ...intent, paymentMethod: method.id, card: method.card } : intent
  // One that failed is off the intent, and has to be named again.
  if (asked.card === null || (status === 'requires_payment_method' && !method))
    throw invalid('You cannot confirm this PaymentIntent because it is missing a payment method.', {
      code: 'payment_intent_unexpected_state',
    })
  return confirm(context, store, faults, asked, form, now)
}

async function confirm(
  context: ProviderContext,
  store: StripeStore,
  faults: Faults,
  intent: Intent,
  form: Form,
  begunAt: Date,
): Promise<Done> {
  const card = findStripeCard(intent.card ?? '')!
  if (card.charge === 'error_before') throw brokenDown()
  const slowMs = (card.chargeSlowMs ?? 0) + (faults.slow_ms ?? 0)
  if (slowMs > 0) {
    await sleep(slowMs, undefined, { signal: context.closing }).catch(() => {
      throw unavailable()
    })
  }
  const now = slowMs > 0 ? await context.now() : begunAt
  const isOffSession = textOf(form, 'off_session') === 'true'
  const isSetUp = intent.customer !== null
  if (card.authentication === 'always' || (card.authentication === 'unless_set_up' && !isSetUp)) {
    return askCustomer(store, intent, isOffSession, textOf(form, 'error_on_requires_action') === 'true', now)
  }

  const expand = listOf(form, 'expand')
  const notice = context.faults.deliveryOf(faults, intent.reference)
  const { intent: asked, payment } = await store.charge(intent, notice, now)
  if (payment.status === 'declined') {
    const decline = declineOf(payment.decline_code ?? 'generic_decline')
    throw new StripeAnswer(
      402,
      { ...decline, charge: payment.id, ...failedWith(await store.show(asked, [], payment)) },
      { isKept: true },
    )
  }
  return { body: await store.show(asked, expand, payment), after: card.charge }
}

/** Nothing is taken. Off session it is a refusal that leaves the intent behind; on session the intent waits. */
async function askCustomer(
  store: StripeStore,
  intent: Intent,
  isOffSession: boolean,
  isErrorWanted: boolean,
  now: Date,
): Promise<Done> {
  if (!isOffSession && !isErrorWanted) {
    const waiting: Intent = { ...intent, waitsFor: 'customer', failedAs: null }
    await store.keep(waiting, now)
    return { body: await store.show(waiting) }
  }
  const failed: Intent = { ...intent, waitsFor: null, failedAs: 'authentication_required' }
  await store.keep(failed, now)
  const decline_code = isErrorWanted ? 'authentication_not_handled' : 'authentication_required'
  throw new StripeAnswer(
    402,
    { ...authenticationRequired, decline_code, ...failedWith(await store.show(failed)) },
    { isKept: true },
  )
}

function failedWith(intent: Stripe.PaymentIntent) {
  return { payment_intent: intent, payment_method: intent.last_payment_error?.payment_method }
}

/** `POST /v1/payment_intents/{id}/cancel`, within the intent's turn. */
export async function cancelIntent(store: StripeStore, intent: Intent, form: Form, now: Date): Promise<Done> {
  const status = statusOf(intent, await store.paymentOf(intent))
  if (status === 'succeeded' || status === 'canceled')
    throw unexpectedState(await store.show(intent), 'cancel')
  const canceled: Intent = {
    ...intent,
    waitsFor: null,
    canceledAt: now.toISOString(),
    cancellationReason: textOf(form, 'cancellation_reason') ?? null,
  }
  await store.keep(canceled, now)
  return { body: await store.show(canceled, listOf(form, 'expand')) }
}

/** The customer confirms at last, or fails to. Nothing, where nobody is awaited. */
export async function authenticate(
  context: ProviderContext,
  store: StripeStore,
  intent: Intent,
  isProven: boolean,
): Promise<Intent | undefined> {
  const status = statusOf(intent, await store.paymentOf(intent))
  const isAwaited = status === 'requires_action' || intent.failedAs === 'authentication_required'
  if (status === 'canceled' || status === 'succeeded' || !isAwaited) return undefined
  const now = await context.now()
  if (isProven) {
    const notice = context.faults.deliveryOf(await context.faults.inForce(), intent.reference)
    return (await store.charge(intent, notice, now)).intent
  }
  const failed: Intent = { ...intent, waitsFor: null, failedAs: 'payment_intent_authentication_failure' }
  await store.keep(failed, now)
  return failed
}

function unexpectedState(intent: Stripe.PaymentIntent, verb: string): StripeAnswer {
  return new StripeAnswer(400, {
    code: 'payment_intent_unexpected_state',
    message: `You cannot ${verb} this PaymentIntent because it has a status of ${intent.status}.`,
    payment_intent: intent,
    type: 'invalid_request_error',
  })
}

function checkAmount(amount: number, currency: string, faults: Faults): void {
  if (!Number.isSafeInteger(amount) || amount < 1)
    throw invalid('This value must be greater than or equal to 1.', {
      code: 'parameter_invalid_integer',
      param: 'amount',
    })
  if (amount > mostAmount)
    throw invalid(`Amount must be no more than ${mostAmount}.`, { code: 'amount_too_large', param: 'amount' })
  if (!currencies.has(currency) || (faults.currencies && !faults.currencies.includes(currency)))
    throw invalid(`Invalid currency: ${currency.toLowerCase()}.`, { param: 'currency' })
  if (currency === 'USD' && amount < leastDollars)
    throw invalid('Amount must be at least $0.50 usd.', { code: 'amount_too_small', param: 'amount' })
  if (fromWire(amount, currency) === undefined || !isWhole(amount, currency))
    throw invalid('Invalid amount for this currency.', {
      code: 'parameter_invalid_integer',
      param: 'amount',
    })
}

/** A card that can be charged: it exists, was not taken off its customer, and is not another customer's. */
function usable(id: string, method: StoredMethod | undefined, customer: string | null): StoredMethod {
  if (!method) throw missing('PaymentMethod', id, 'payment_method', 400)
  if (method.isDetached) {
    throw invalid(
      'The provided PaymentMethod was previously used without a customer or was detached from one. It may not be used again.',
      { param: 'payment_method' },
    )
  }
  if (method.customer !== null && method.customer !== customer) {
    throw invalid(`The customer does not have a payment method with the ID ${id}.`, {
      code: 'resource_missing',
      param: 'payment_method',
    })
  }
  return method
}

export function metadataOf(form: Form): Record<string, string> {
  const entries = Object.entries(fieldsOf(form, 'metadata'))
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}

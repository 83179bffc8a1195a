import type Stripe from 'stripe'
import type { BookPayment, BookRefund } from '../book-payment.ts'
import { toWire } from './stripe-amounts.ts'
import { authenticationRequired, declineOf, findStripeCard, type StripeCard } from './stripe-cards.ts'

/** An intent as it is kept; whether it was paid is for the book to say. */
export type Intent = {
  readonly id: string
  /** What the book calls its payments: the merchant's order id, or the intent's own. */
  readonly reference: string
  readonly accountId: string
  readonly customer: string | null
  readonly paymentMethod: string | null
  /** The card behind the payment method. */
  readonly card: string | null
  readonly amount: number
  readonly currency: string
  readonly description: string | null
  readonly metadata: Readonly<Record<string, string>>
  readonly clientSecret: string
  readonly createdAt: string
  /** The book's payments of this intent, oldest first. */
  readonly charges: readonly string[]
  readonly waitsFor: 'customer' | null
  readonly failedAs: 'authentication_required' | 'payment_intent_authentication_failure' | null
  readonly canceledAt: string | null
  readonly cancellationReason: string | null
  /** It was made with a live key. */
  readonly isLive?: true
}

export type StoredSetup = {
  readonly id: string
  readonly customer: string | null
  readonly paymentMethod: string | null
  readonly status: Stripe.SetupIntent.Status
  readonly metadata: Readonly<Record<string, string>>
  readonly clientSecret: string
  readonly createdAt: string
}

export type StoredMethod = {
  readonly id: string
  readonly card: string
  readonly customer: string | null
  /** A card that was taken off its customer is gone for good. */
  readonly isDetached: boolean
  readonly createdAt: string
}

export type StoredCustomer = {
  readonly id: string
  readonly email: string | null
  readonly name: string | null
  readonly description: string | null
  readonly metadata: Readonly<Record<string, string>>
  readonly createdAt: string
}

/** What only Stripe knows of a refund; its money is in the book. */
export type StoredRefund = {
  readonly id: string
  readonly intent: string
  readonly metadata: Readonly<Record<string, string>>
  readonly reason: string | null
  /** Some cards take their time. */
  readonly pendingUntil: string | null
}

/** What the book can call a payment or a refund. */
export function bookName(text: string | undefined): string | undefined {
  return text !== undefined && /^[\x21-\x7e]{1,255}$/.test(text) ? text : undefined
}

/** As Stripe tells an instant. */
export function seconds(instant: string): number {
  return Math.floor(Date.parse(instant) / 1000)
}

export function statusOf(intent: Intent, payment: BookPayment | undefined): Stripe.PaymentIntent.Status {
  if (payment?.status === 'paid') return 'succeeded'
  if (intent.canceledAt !== null) return 'canceled'
  if (intent.waitsFor === 'customer') return 'requires_action'
  if (intent.failedAs !== null || payment?.status === 'declined') return 'requires_payment_method'
  return intent.paymentMethod === null ? 'requires_payment_method' : 'requires_confirmation'
}

/** Its last attempt failed, and no other has begun. */
export function hasFailed(intent: Intent, payment: BookPayment | undefined): boolean {
  if (payment?.status === 'paid' || intent.waitsFor !== null) return false
  return intent.failedAs !== null || payment?.status === 'declined'
}

/** `failed`: the method of an attempt that failed. It is off the intent then, and named with the error alone. */
export function renderIntent(
  intent: Intent,
  payment: BookPayment | undefined,
  latestCharge: string | Stripe.Charge | null,
  failed: Stripe.PaymentMethod | undefined,
): Stripe.PaymentIntent {
  const status = statusOf(intent, payment)
  const error = status === 'succeeded' ? null : lastErrorOf(intent, payment)
  return {
    id: intent.id,
    object: 'payment_intent',
    allowed_payment_method_types: null,
    amount: intent.amount,
    amount_capturable: 0,
    amount_details: { tip: {} },
    amount_received: status === 'succeeded' ? intent.amount : 0,
    application: null,
    application_fee_amount: null,
    automatic_payment_methods: { enabled: true },
    canceled_at: intent.canceledAt === null ? null : seconds(intent.canceledAt),
    cancellation_reason: intent.cancellationReason as Stripe.PaymentIntent.CancellationReason | null,
    capture_method: 'automatic_async',
    client_secret: intent.clientSecret,
    confirmation_method: 'automatic',
    created: seconds(intent.createdAt),
    currency: intent.currency.toLowerCase(),
    customer: intent.customer,
    customer_account: null,
    description: intent.description,
    excluded_payment_method_types: null,
    last_payment_error: error && { ...error, ...(failed && { payment_method: failed }) },
    latest_charge: latestCharge,
    livemode: false,
    managed_payments: null,
    metadata: { ...intent.metadata },
    next_action:
      status === 'requires_action'
        ? { type: 'use_stripe_sdk', use_stripe_sdk: { type: 'three_d_secure_redirect' } }
        : null,
    on_behalf_of: null,
    payment_method: hasFailed(intent, payment) ? null : intent.paymentMethod,
    payment_method_configuration_details: null,
    payment_method_options: {
      card: { installments: null, mandate_options: null, network: null, request_three_d_secure: 'automatic' },
    },
    payment_method_types: ['card'],
    payment_record: null,
    processing: null,
    receipt_email: null,
    review: null,
    setup_future_usage: null,
    shipping: null,
    source: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status,
    transfer_data: null,
    transfer_group: null,
  }
}

function lastErrorOf(intent: Intent, payment: BookPayment | undefined) {
  if (intent.failedAs === 'authentication_required') return authenticationRequired
  if (intent.failedAs !== null) {
    const message = 'The provided PaymentMethod has failed authentication.'
    return { type: 'invalid_request_error', code: intent.failedAs, message }
  }
  return payment?.status === 'declined' ? declineOf(payment.decline_code ?? 'generic_decline') : null
}

export function renderCharge(
  intent: Intent,
  payment: BookPayment,
  refunds: Stripe.ApiList<Stripe.Refund> | undefined,
): Stripe.Charge {
  const card = findStripeCard(intent.card ?? '') ?? unknownCard
  const isPaid = payment.status === 'paid'
  const amount = toWire(BigInt(payment.amount), payment.currency)
  const refunded = toWire(BigInt(payment.amount_refunded), payment.currency)
  const decline = isPaid ? null : declineOf(payment.decline_code ?? 'generic_decline')
  return {
    id: payment.id,
    object: 'charge',
    amount,
    amount_captured: isPaid ? amount : 0,
    amount_refunded: refunded,
    application: null,
    application_fee: null,
    application_fee_amount: null,
    balance_transaction: null,
    billing_details: noDetails,
    calculated_statement_descriptor: null,
    captured: isPaid,
    created: seconds(payment.created_at),
    currency: payment.currency.toLowerCase(),
    customer: intent.customer,
    description: intent.description,
    disputed: payment.dispute !== null,
    failure_balance_transaction: null,
    failure_code: decline?.code ?? null,
    failure_message: decline?.message ?? null,
    fraud_details: {},
    livemode: false,
    metadata: { ...intent.metadata },
    on_behalf_of: null,
    outcome: {
      advice_code: (decline?.advice_code ?? null) as Stripe.Charge.Outcome.AdviceCode | null,
      network_advice_code: null,
      network_decline_code: null,
      network_status: isPaid ? 'approved_by_network' : 'declined_by_network',
      reason: decline?.decline_code ?? null,
      risk_level: 'normal',
      seller_message: isPaid ? 'Payment complete.' : 'The bank did not approve it.',
      type: isPaid ? 'authorized' : 'issuer_declined',
    },
    paid: isPaid,
    payment_intent: intent.id,
    payment_method: intent.paymentMethod,
    payment_method_details: { card: detailsOf(card, payment), type: 'card' },
    receipt_email: null,
    receipt_number: null,
    receipt_url: null,
    refunded: isPaid && refunded === amount,
    ...(refunds && { refunds }),
    review: null,
    shipping: null,
    source: null,
    source_transfer: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status: isPaid ? 'succeeded' : 'failed',
    transfer_data: null,
    transfer_group: null,
  }
}

export const unknownCard: StripeCard = { brand: 'unknown', last4: '0000', expires: '01/30' }
export const noDetails = {
  address: { city: null, country: null, line1: null, line2: null, postal_code: null, state: null },
  email: null,
  name: null,
  phone: null,
  tax_id: null,
}
export const noChecks = { address_line1_check: null, address_postal_code_check: null, cvc_check: 'pass' }

export function expiryOf({ expires }: StripeCard): { exp_month: number; exp_year: number } {
  const [month, year] = expires.split('/')
  return { exp_month: Number(month), exp_year: 2000 + Number(year) }
}

function detailsOf(card: StripeCard, payment: BookPayment) {
  return {
    amount_authorized: payment.amount,
    authorization_code: null,
    brand: card.brand,
    checks: noChecks,
    country: 'KR',
    electronic_commerce_indicator: null,
    ...expiryOf(card),
    extended_authorization: { status: 'disabled' },
    fingerprint: `fp${card.last4}`,
    funding: 'credit',
    incremental_authorization: { status: 'unavailable' },
    installments: null,
    last4: card.last4,
    mandate: null,
    multicapture: { status: 'unavailable' },
    network: card.brand,
    network_token: { used: false },
    network_transaction_id: null,
    overcapture: { maximum_amount_capturable: payment.amount, status: 'unavailable' },
    regulated_status: null,
    three_d_secure: null,
    transaction_link_id: null,
    wallet: null,
  }
}

export function renderRefund(
  intent: Intent,
  payment: BookPayment,
  refund: BookRefund,
  stored: StoredRefund | undefined,
  now: Date,
): Stripe.Refund {
  const isPending = stored?.pendingUntil != null && Date.parse(stored.pendingUntil) > now.getTime()
  const isFailed = refund.status === 'failed'
  return {
    id: refund.id,
    object: 'refund',
    amount: toWire(BigInt(refund.amount), payment.currency),
    balance_transaction: null,
    charge: payment.id,
    created: seconds(refund.created_at),
    currency: payment.currency.toLowerCase(),
    customer: intent.customer,
    customer_account: null,
    destination_details: { card: { type: 'refund' }, type: 'card' },
    ...(isFailed && { failure_reason: 'declined' }),
    metadata: { ...stored?.metadata },
    payment_intent: intent.id,
    payment_method: intent.paymentMethod,
    reason: (stored?.reason ?? null) as Stripe.Refund.Reason | null,
    receipt_number: null,
    source_transfer_reversal: null,
    status: isFailed ? 'failed' : isPending ? 'pending' : 'succeeded',
    transfer_reversal: null,
  }
}

export function renderEvent(
  { id, type, created, key }: { id: string; type: string; created: number; key: string | null },
  object: object,
) {
  return {
    id,
    object: 'event',
    api_version: apiVersion,
    created,
    data: { object },
    livemode: false,
    pending_webhooks: 1,
    request: { id: null, idempotency_key: key },
    type,
  }
}

/** What the account's default version is; every answer here is in its words. */
export const apiVersion = '2026-10-28.endive'

export function renderList<T>(data: readonly T[], hasMore: boolean, url: string) {
  return { object: 'list' as const, data: [...data], has_more: hasMore, url }
}

/** The same, told of real money. Everything is rendered as of test mode, and told otherwise only at the end. */
export function inLiveMode(json: string): string {
  return json.replaceAll(/"livemode": ?false/g, '"livemode":true')
}

import type Stripe from 'stripe'
import { findStripeCard } from './stripe-cards.ts'
import {
  expiryOf,
  noChecks,
  noDetails,
  type StoredCustomer,
  type StoredMethod,
  type StoredSetup,
  seconds,
  unknownCard,
} from './stripe-objects.ts'

export function renderMethod(method: StoredMethod): Stripe.PaymentMethod {
  const card = findStripeCard(method.card) ?? unknownCard
  return {
    id: method.id,
    object: 'payment_method',
    allow_redisplay: 'unspecified',
    billing_details: noDetails,
    card: {
      brand: card.brand,
      checks: noChecks,
      country: 'KR',
      display_brand: card.brand,
      ...expiryOf(card),
      fingerprint: `fp${card.last4}`,
      funding: 'credit',
      generated_from: null,
      last4: card.last4,
      networks: { available: [card.brand], preferred: null },
      regulated_status: null,
      three_d_secure_usage: { supported: true },
      wallet: null,
    },
    created: seconds(method.createdAt),
    customer: method.customer,
    customer_account: null,
    livemode: false,
    metadata: {},
    type: 'card',
  }
}

export function renderSetup(setup: StoredSetup, method?: Stripe.PaymentMethod): Stripe.SetupIntent {
  return {
    id: setup.id,
    object: 'setup_intent',
    allowed_payment_method_types: null,
    application: null,
    automatic_payment_methods: { enabled: true },
    cancellation_reason: null,
    client_secret: setup.clientSecret,
    created: seconds(setup.createdAt),
    customer: setup.customer,
    customer_account: null,
    description: null,
    excluded_payment_method_types: null,
    flow_directions: null,
    last_setup_error: null,
    latest_attempt: null,
    livemode: false,
    managed_payments: null,
    mandate: null,
    metadata: { ...setup.metadata },
    next_action: null,
    on_behalf_of: null,
    payment_method: method ?? setup.paymentMethod,
    payment_method_configuration_details: null,
    payment_method_options: {
      card: { mandate_options: null, network: null, request_three_d_secure: 'automatic' },
    },
    payment_method_types: ['card'],
    single_use_mandate: null,
    status: setup.status,
    usage: 'off_session',
  }
}

export function renderCustomer(customer: StoredCustomer): Stripe.Customer {
  return {
    id: customer.id,
    object: 'customer',
    address: null,
    balance: 0,
    created: seconds(customer.createdAt),
    currency: null,
    default_source: null,
    delinquent: false,
    description: customer.description,
    discount: null,
    email: customer.email,
    invoice_prefix: customer.id.slice(-8).toUpperCase(),
    invoice_settings: {
      custom_fields: null,
      default_payment_method: null,
      footer: null,
      rendering_options: null,
    },
    livemode: false,
    metadata: { ...customer.metadata },
    name: customer.name,
    next_invoice_sequence: 1,
    phone: null,
    preferred_locales: [],
    shipping: null,
    tax_exempt: 'none',
    test_clock: null,
  }
}

export function deletedCustomer(id: string): Stripe.DeletedCustomer {
  return { id, object: 'customer', deleted: true }
}

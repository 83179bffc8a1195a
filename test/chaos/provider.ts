import { randomBytes } from 'node:crypto'
import { findCard } from '../../src/sandbox/cards.ts'
import { findStripeCard } from '../../src/sandbox/stripe/stripe-cards.ts'
import type { HttpMessage } from './http-tap.ts'

/** What a run has to know of a provider: how the service reaches it, and how to read what goes over its wire. */
export type ChaosProvider = {
  readonly name: ProviderName
  /** Opens the provider, and must be in no log. */
  readonly secretKey: string
  /** What the service and the simulator are told beyond the key, the address and the webhook secret. */
  readonly environment: Readonly<Record<string, string>>
  /** Where its notifications go. */
  readonly webhookPath: string
  readonly secrets: readonly string[]
  /** The key under which a request asks for money; undefined: it asks for none. */
  chargeKey(request: HttpMessage): string | undefined
  readNotice(notification: HttpMessage): Notice
  /** How its staff gives money back without us. */
  refundByHand(payment: PaidPayment, amount: number): StaffCall
  readonly disputes: boolean
  /** A card whose bank wants its customer, where the provider knows such. */
  readonly asks: string | undefined
  /** Where a card of the browser belongs to the account that prepared its collecting: what names the customer. */
  readonly customerKey: ((client: Readonly<Record<string, string>>) => string | undefined) | undefined
  readonly currencies: readonly ('KRW' | 'USD')[]
  /** The last digits that are shown of a card after it was stored. */
  last4Of(key: string): string
}

const providerNames = ['sandbox', 'stripe', 'toss', 'portone'] as const
type ProviderName = (typeof providerNames)[number]

/** `signed`: it has an id of its own. A hint has none, and only says which payment to look at. */
type Notice =
  | { readonly kind: 'signed'; readonly eventId: string; readonly type: string; readonly reference: string }
  | { readonly kind: 'hint'; readonly reference: string }

export type PaidPayment = { readonly id: string; readonly reference: string }

export type StaffCall = {
  readonly path: string
  readonly body: object
  readonly headers?: Readonly<Record<string, string>>
}

/** A provider of a run, with secrets of its own. */
export function openProvider(name: string): ChaosProvider {
  const open = Object.hasOwn(providers, name) ? providers[name as ProviderName] : undefined
  if (!open) throw new Error(`--provider takes one of ${providerNames.join(', ')}.`)
  return open()
}

const hex = (bytes: number) => randomBytes(bytes).toString('hex')

const providers: Readonly<Record<ProviderName, () => ChaosProvider>> = {
  sandbox: () => ({
    name: 'sandbox',
    secretKey: `sk_test_${hex(16)}`,
    environment: {},
    webhookPath: '/api/billing/webhook',
    secrets: [],
    chargeKey: ({ title, header }) =>
      title.startsWith('POST /v1/charges HTTP') ? header('idempotency-key') : undefined,
    readNotice({ header, body }) {
      const { type, data } = JSON.parse(body) as { type: string; data: { reference: string } }
      return { kind: 'signed', eventId: header('webhook-id')!, type, reference: data.reference }
    },
    refundByHand: ({ reference }, amount) => ({
      path: `/v1/charges/${reference}/refunds`,
      body: { reference: `hand_${hex(8)}`, amount },
      headers: { 'idempotency-key': hex(16) },
    }),
    disputes: true,
    asks: undefined,
    // Any name goes with any card here.
    customerKey: undefined,
    currencies: ['KRW', 'USD'],
    last4Of: last4OfTestCard,
  }),

  stripe: () => ({
    name: 'stripe',
    secretKey: `sk_test_${hex(16)}`,
    environment: { PAYMENT_PROVIDER: 'stripe' },
    webhookPath: '/api/billing/webhook/stripe',
    secrets: [],
    chargeKey: ({ title, header }) =>
      title.startsWith('POST /v1/payment_intents HTTP') ? header('idempotency-key') : undefined,
    readNotice({ body }) {
      const { id, type, data } = JSON.parse(body) as StripeEvent
      return {
        kind: 'signed',
        eventId: id,
        type: plainTypes[type] ?? type,
        reference: data.object.metadata?.order_id ?? '',
      }
    },
    refundByHand: ({ reference }, amount) => ({ path: '/__sandbox/refunds', body: { reference, amount } }),
    disputes: true,
    asks: 'pm_card_authenticationRequired',
    customerKey: (client) => client['customer'],
    currencies: ['KRW', 'USD'],
    last4Of: (key) => findStripeCard(key)?.last4 ?? last4OfTestCard(key),
  }),

  toss: () => {
    const hintSecret = hex(24)
    const secretKey = `test_sk_${hex(16)}`
    return {
      name: 'toss',
      secretKey,
      environment: { PAYMENT_PROVIDER: 'toss', HINT_SECRET: hintSecret },
      webhookPath: `/api/billing/hints/${hintSecret}`,
      secrets: [hintSecret],
      chargeKey: ({ title, header }) =>
        title.startsWith('POST /v1/billing/') && !title.startsWith('POST /v1/billing/authorizations/')
          ? header('idempotency-key')
          : undefined,
      readNotice({ body }) {
        const { data } = JSON.parse(body) as { data: { orderId: string } }
        return { kind: 'hint', reference: data.orderId }
      },
      refundByHand: ({ id }, amount) => ({
        path: `/v1/payments/${id}/cancel`,
        body: { cancelReason: 'By hand.', cancelAmount: amount },
        headers: { authorization: `Basic ${Buffer.from(`${secretKey}:`).toString('base64')}` },
      }),
      disputes: false,
      asks: undefined,
      customerKey: (client) => client['customer_key'],
      currencies: ['KRW'],
      // Toss reads no stored key back: only a card that came from the browser has digits.
      last4Of: (key) => (key.startsWith('bk_') ? '' : last4OfTestCard(key)),
    }
  },

  portone: () => {
    const secretKey = `secret_${hex(24)}`
    return {
      name: 'portone',
      secretKey,
      environment: {
        PAYMENT_PROVIDER: 'portone',
        PORTONE_STORE_ID: 'store-chaos',
        PORTONE_CHANNEL_KEY: 'channel-key-chaos',
      },
      webhookPath: '/api/billing/webhook',
      secrets: [],
      chargeKey: ({ title }) => /^POST \/payments\/([^/]+)\/billing-key[? ]/.exec(title)?.[1],
      readNotice({ header, body }) {
        const { type, data } = JSON.parse(body) as { type: string; data: { paymentId: string } }
        return {
          kind: 'signed',
          eventId: header('webhook-id')!,
          type: plainTypes[type] ?? type,
          reference: data.paymentId,
        }
      },
      refundByHand: ({ reference }, amount) => ({
        path: `/payments/${reference}/cancel`,
        body: { reason: 'By hand.', amount },
        headers: { authorization: `PortOne ${secretKey}` },
      }),
      disputes: true,
      asks: undefined,
      // Its cards of the browser are stored keys already; no other name belongs to them.
      customerKey: () => undefined,
      currencies: ['KRW', 'USD'],
      last4Of: last4OfTestCard,
    }
  },
}

type StripeEvent = {
  id: string
  type: string
  data: { object: { metadata?: { order_id?: string } } }
}

/** What the verdict looks at, by one name for all. */
const plainTypes: Readonly<Record<string, string>> = {
  'payment_intent.succeeded': 'payment.paid',
  'payment_intent.payment_failed': 'payment.declined',
  'Transaction.Paid': 'payment.paid',
  'Transaction.Failed': 'payment.declined',
}

function last4OfTestCard(key: string): string {
  return findCard(key.replace(/^ak_/, 'bk_'))!.last4
}

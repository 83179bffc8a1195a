import { randomBytes } from 'node:crypto'
import type { Currency, Money } from '../../src/billing/money.ts'
import {
  type Card,
  type ChargeOutcome,
  type ChargeRequest,
  type DeclineCode,
  lostIn,
  type PaymentLookup,
  type Provider,
  type ProviderDispute,
  type ProviderPayment,
  type RefundOutcome,
  type RefundRequest,
  type SetUpRequest,
} from '../../src/billing/providers/port.ts'

/** What the provider does with the next call instead of what it would do. */
export type ChargePlay =
  | { kind: 'decline'; code: DeclineCode }
  /** Waits for its customer. */
  | { kind: 'ask_customer' }
  | {
      kind: 'refuse'
      code: 'billing_key_invalid' | 'currency_not_supported' | 'provider_error'
      /** The provider's own code. */
      raw?: string
      replayed?: boolean
    }
  /** Takes the money and answers something that cannot be about it. */
  | { kind: 'mismatch' | 'key_used_otherwise' }
  /** Declines without keeping a record. */
  | { kind: 'decline_unrecorded'; code: DeclineCode; replayed?: boolean }
  | { kind: 'not_sent' }
  /** Takes the money and never answers. */
  | { kind: 'lost_answer' }
  /** The request never arrives, and nobody knows. */
  | { kind: 'lost_request' }

export type RefundPlay = {
  kind:
    | 'declined'
    | 'declined_replay'
    | 'disputed'
    | 'not_sent'
    | 'lost_answer'
    | 'lost_request'
    | 'pending'
    | 'mismatch'
}

type Record_ = {
  reference: string
  accountId: string
  amount: Money
  status: 'paid' | 'declined' | 'pending' | 'awaiting' | 'canceled'
  code: DeclineCode | null
  at: Date
  refunds: { reference: string | null; amount: Money; status: 'succeeded' | 'pending' | 'failed' }[]
  dispute: ProviderDispute | null
  /** Since then its record shows no disputes. */
  disputesHiddenSince?: Date
}

/**
 * A provider with a book of its own that does as it is told: its calls can be answered by script, held up, or watched.
 * Like a real one it acts once per key, whatever happens to its answers.
 */
export function scriptedProvider(setting: { now?: () => Date } = {}, name = 'scripted') {
  const now = () => (setting.now ?? (() => new Date()))()
  const book = new Map<string, Record_>()
  const charges: ChargePlay[] = []
  const refundPlays: RefundPlay[] = []
  const declines = new Map<string, DeclineCode>()
  const asking = new Set<string>()
  const cancels: ('unknown' | 'lost_answer')[] = []
  const hooks = {
    /** Runs before a charge reaches the book. */
    beforeCharge: async (_request: ChargeRequest): Promise<void> => {},
    /** Runs after the book has it and before we hear of it. */
    afterCharge: async (_request: ChargeRequest): Promise<void> => {},
    beforeRefund: async (_request: RefundRequest): Promise<void> => {},
    beforeCancel: async (_reference: string): Promise<void> => {},
  }
  const state = { silent: false, live: 0, credentialsRefused: false }
  const card = { brand: 'test', last4: '4242', expires: '12/2030' }
  const setups: SetUpRequest[] = []
  const forgotten: string[] = []
  const calls = { charge: 0, findPayment: 0, cancelPayment: 0, refund: 0, mostRefundsAtOnce: 0 }

  function look(reference: string): PaymentLookup {
    if (state.silent) return { kind: 'unknown' }
    if (state.credentialsRefused) return { kind: 'credentials_refused' }
    const record = book.get(reference)
    return record ? { kind: 'found', payment: paymentOf(record, card) } : { kind: 'none' }
  }

  const provider: Provider = {
    name,
    guards: {
      keyWindowMs: 86_400_000,
      namesRefunds: true,
      currencies: new Set(['KRW', 'USD']),
      takesAmount: () => true,
      anyCustomer: true,
    },

    async charge(request): Promise<ChargeOutcome> {
      calls.charge++
      await hooks.beforeCharge(request)
      const play = charges.shift()
      if (play?.kind === 'not_sent') return { kind: 'not_sent' }
      if (state.credentialsRefused) return { kind: 'credentials_refused' }
      const replay = play && 'replayed' in play ? { replayed: true as const } : {}
      if (play?.kind === 'refuse')
        return { kind: 'refused', code: play.code, ...(play.raw && { raw: play.raw }), ...replay }
      if (play?.kind === 'decline_unrecorded') return { kind: 'declined', code: play.code, ...replay }
      if (play?.kind === 'lost_request' || state.silent) return { kind: 'unknown' }
      if (request.billingKey === 'bk_test_nobody') return { kind: 'refused', code: 'billing_key_invalid' }

      const code = play?.kind === 'decline' ? play.code : (declines.get(request.billingKey) ?? null)
      const asksCustomer = play?.kind === 'ask_customer' || asking.has(request.billingKey)
      const known = book.get(request.key)
      const record: Record_ = known ?? {
        reference: request.key,
        accountId: request.accountId,
        amount: request.amount,
        status: code !== null ? 'declined' : asksCustomer ? 'awaiting' : 'paid',
        code,
        at: now(),
        refunds: [],
        dispute: null,
      }
      book.set(request.key, record)
      await hooks.afterCharge(request)
      if (play?.kind === 'lost_answer') return { kind: 'unknown' }
      if (play?.kind === 'mismatch' || play?.kind === 'key_used_otherwise') return { kind: play.kind }
      if (record.status === 'declined')
        return { kind: 'declined', code: record.code ?? 'unknown', ...(known && { replayed: true }) }
      if (record.status === 'awaiting') return { kind: 'needs_customer', payment: paymentOf(record, card) }
      return { kind: 'done', payment: paymentOf(record, card) }
    },

    async findPayment(reference) {
      calls.findPayment++
      return look(reference)
    },

    async refund(request): Promise<RefundOutcome> {
      calls.refund++
      state.live++
      calls.mostRefundsAtOnce = Math.max(calls.mostRefundsAtOnce, state.live)
      try {
        await hooks.beforeRefund(request)
        const play = refundPlays.shift()
        if (state.credentialsRefused) return { kind: 'credentials_refused' }
        if (play?.kind === 'lost_request' || state.silent) return { kind: 'unknown' }
        if (play?.kind === 'declined_replay') return { kind: 'declined', replayed: true }
        if (play?.kind === 'declined' || play?.kind === 'disputed' || play?.kind === 'not_sent') {
          return { kind: play.kind }
        }
        const record = book.get(request.payment.reference)
        if (!record) return { kind: 'declined' }
        if (record.dispute && record.dispute.status !== 'won') return { kind: 'disputed' }
        if (!record.refunds.some(({ reference }) => reference === request.key)) {
          if (refundedOf(record) + request.amount.minor > record.amount.minor) return { kind: 'declined' }
          const status = play?.kind === 'pending' ? 'pending' : 'succeeded'
          record.refunds.push({ reference: request.key, amount: request.amount, status })
        }
        if (play?.kind === 'lost_answer') return { kind: 'unknown' }
        if (play?.kind === 'mismatch') return { kind: 'mismatch' }
        return { kind: play?.kind === 'pending' ? 'pending' : 'done' }
      } finally {
        state.live--
      }
    },

    async exchange(authKey) {
      if (!authKey.startsWith('ak_test_')) return { kind: 'refused' }
      return { kind: 'done', billingKey: authKey.replace('ak_', 'bk_'), card }
    },
    customerOf: (billingKey) => (billingKey.includes(':') ? billingKey.split(':')[0]! : null),
    async describe(billingKey) {
      if (state.silent) return { kind: 'unknown' }
      return billingKey === 'bk_test_nobody' ? { kind: 'invalid' } : { kind: 'valid', card }
    },
    async listPayments() {
      return {
        kind: 'page',
        payments: [...book.values()].map((record) => paymentOf(record, card)),
        next: null,
      }
    },
    // It cannot tell what changed, so whatever may have is looked up.
    async cancelPayment(reference) {
      calls.cancelPayment++
      await hooks.beforeCancel(reference)
      const record = book.get(reference)
      if (state.silent || !record) return { kind: 'unknown' }
      const play = cancels.shift()
      if (play === 'unknown') return { kind: 'unknown' }
      if (record.status === 'awaiting') record.status = 'canceled'
      if (play === 'lost_answer') return { kind: 'unknown' }
      if (record.status === 'paid') return { kind: 'paid' }
      return { kind: record.status === 'canceled' ? 'canceled' : 'unknown' }
    },
    forget: async (billingKey) => {
      if (state.silent) return { kind: 'unknown' }
      forgotten.push(billingKey)
      return { kind: 'done' }
    },
    setUp: async (request) => {
      setups.push(request)
      if (state.silent) return { kind: 'unknown' }
      const customerKey = request.customerKey ?? `cus_${name}_${setups.length}`
      return {
        kind: 'done',
        customerKey,
        client: { customer_key: customerKey, secret: `secret_${setups.length}` },
      }
    },
    check: async () => [],
    listChanges: null,
    verifyWebhook: () => undefined,
    readWebhook: () => ({ type: 'none', reference: null, live: null }),
  }

  return {
    /** Where its time comes from; a world that opens on it turns its clock. */
    setting,
    /** For every world that opens on it, because a restored database is opened with the keys that sealed it. */
    vaultKey: randomBytes(32),
    provider,
    /** What setups were asked for. */
    setups,
    /** The cards it was asked to delete. */
    forgotten,
    book,
    hooks,
    calls,
    state,
    /** What the provider tells of every card. */
    card,
    /** What the next charges meet, in order. */
    nextCharges: (...plays: ChargePlay[]) => void charges.push(...plays),
    /** What was scripted for charges and did not come yet will not come. */
    forgetPlays: () => void charges.splice(0),
    nextRefunds: (...plays: RefundPlay[]) => void refundPlays.push(...plays),
    /** The next lookup reads the book at once, and its answer takes until `arrive` to come back. */
    slowNextLookup(): { readonly read: Promise<void>; arrive(): void } {
      const { findPayment } = provider
      let arrive = () => {}
      const arrival = new Promise<void>((resolve) => {
        arrive = resolve
      })
      const read = new Promise<void>((resolve) => {
        provider.findPayment = async (reference, providerId) => {
          provider.findPayment = findPayment
          const answer = await findPayment(reference, providerId)
          resolve()
          await arrival
          return answer
        }
      })
      return { read, arrive }
    },
    /** A card that is declined from now on; without a code it pays again. */
    declineCard(billingKey: string, code: DeclineCode | null) {
      if (code === null) declines.delete(billingKey)
      else declines.set(billingKey, code)
    },
    /** A card whose payments wait for its customer from now on, or no longer do. */
    askCustomer(billingKey: string, asks = true) {
      if (asks) asking.add(billingKey)
      else asking.delete(billingKey)
    },
    /** What the next cancellations of waiting payments meet, in order. */
    nextCancels: (...plays: ('unknown' | 'lost_answer')[]) => void cancels.push(...plays),
    /** The customer confirms in the browser. False: it was ended before, or is paid. */
    confirm(reference: string): boolean {
      const record = book.get(reference)
      if (record?.status !== 'awaiting') return false
      record.status = 'paid'
      return true
    },
    /** The bank takes a payment into dispute, or decides. */
    dispute(reference: string, status: 'open' | 'won' | 'lost', at: Date, minor?: bigint) {
      const record = book.get(reference)!
      const amount = record.dispute?.amount ?? {
        minor: minor ?? record.amount.minor - refundedOf(record),
        currency: record.amount.currency,
      }
      const openedAt = record.dispute?.openedAt ?? at
      record.dispute = { status, amount, openedAt, closedAt: status === 'open' ? null : at }
    },
    /** The bank has what is disputed before it decides, as Stripe's does, and for as long as it has not given it back. */
    withdraw(reference: string) {
      const record = book.get(reference)!
      record.dispute = { ...record.dispute!, alreadyLost: record.dispute!.amount }
    },
    /** What it has taken and neither given back nor lost to the bank, per currency. */
    balance(currency: Currency): bigint {
      return [...book.values()]
        .filter((record) => record.status === 'paid' && record.amount.currency === currency)
        .reduce((sum, record) => sum + record.amount.minor - refundedOf(record) - lostOf(record), 0n)
    },
  }
}

function refundedOf(record: Record_): bigint {
  return record.refunds.reduce(
    (sum, { status, amount }) => (status === 'failed' ? sum : sum + amount.minor),
    0n,
  )
}

function lostOf({ dispute }: Record_): bigint {
  return dispute ? lostIn(dispute) : 0n
}

function paymentOf(record: Record_, card: Card): ProviderPayment {
  return {
    reference: record.reference,
    providerId: `prov_${record.reference}`,
    status: record.status,
    declineCode: record.code,
    rawCode: null,
    nextAction:
      record.status === 'awaiting'
        ? {
            type: 'authenticate',
            clientSecret: `pi_${record.reference}_secret_of_the_browser`,
            url: null,
            expiresAt: new Date(record.at.getTime() + 86_400_000),
          }
        : null,
    amount: record.amount,
    refunded: { minor: refundedOf(record), currency: record.amount.currency },
    refunds: record.refunds.map((refund) => ({ ...refund })),
    dispute: record.dispute,
    ...(record.disputesHiddenSince && { disputesHiddenSince: record.disputesHiddenSince }),
    card: { ...card },
    at: record.at,
  }
}

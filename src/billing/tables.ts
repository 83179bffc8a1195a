import type { Generated, GeneratedAlways } from 'kysely'
import type { AuditTables } from '../platform/access/audit-rows.ts'
import type { IdempotencyTables } from '../platform/idempotency.ts'
import type { Currency } from './money.ts'
import type { Language, Seller } from './seller.ts'

/** What somebody agreed to, in the words of events and of the exported history. */
export type PlanTerms = {
  readonly plan_id: string
  readonly description: string
  readonly amount: number
  readonly currency: string
  readonly interval: string
  readonly interval_count: number
}

type SharedTables = AuditTables & IdempotencyTables

/** Billing's own tables, as rows. They become domain values in the `-rows.ts` files and nowhere else. */
export type BillingTables = SharedTables & {
  'billing.account': {
    id: string
    time_zone: string
    language: Generated<Language | null>
    invoice_count: Generated<number>
    created_at: Date
    erased_at: Date | null
  }
  'billing.account_contact': { account_id: string; sealed: Buffer; updated_at: Date }
  'billing.plan': {
    id: string
    name: string
    amount: bigint
    currency: Currency
    interval_unit: 'day' | 'week' | 'month' | 'year'
    interval_count: number
    trial_days: number
    active: boolean
    updated_at: Date
  }
  'billing.subscription': {
    id: string
    account_id: string
    plan_id: string
    description: string
    amount: bigint
    currency: Currency
    interval_unit: 'day' | 'week' | 'month' | 'year'
    interval_count: number
    time_zone: string
    status: 'incomplete' | 'trialing' | 'active' | 'past_due' | 'canceling' | 'canceled'
    anchor: Date
    last_k: number
    next_billing_at: Date | null
    period_start: Date
    period_end: Date
    trial_ends_at: Date | null
    cancel_at: Date | null
    canceled_at: Date | null
    cancel_code: string | null
    cancel_note: string | null
    payment_method_id: string | null
    created_at: Date
  }
  'billing.trial_grant': { account_id: string; subscription_id: string; plan_id: string; granted_at: Date }
  'billing.payment_method': {
    id: string
    account_id: string
    subscription_id: string
    provider: string
    purpose: 'first' | 'trial' | 'replacement'
    state: 'pending' | 'kept' | 'dropped'
    sealed: Buffer | null
    exchanged: boolean
    issued: Generated<boolean>
    bound: Generated<boolean>
    key_hash: Buffer | null
    brand: string | null
    last4: string | null
    expires: string | null
    plan_id: string | null
    plan_terms: PlanTerms | null
    failure: string | null
    next_lookup_at: Date | null
    created_at: Date
  }
  'billing.payment_method_to_delete': {
    payment_method_id: string
    account_id: string
    provider: string
    sealed: Buffer
    key_hash: Buffer | null
    tries: Generated<number>
    created_at: Date
    next_try_at: Date
  }
  'billing.setup': {
    id: string
    account_id: string
    provider: string
    customer_key: string | null
    created_at: Date
  }
  'billing.seller_logo': { sha256: string; content: Buffer }
  'billing.invoice': {
    id: string
    account_id: string
    subscription_id: string
    number: number
    description: string
    amount_due: bigint
    currency: Currency
    period_start: Date
    period_end: Date
    issued_at: Date
    issued_late: Generated<boolean>
    seller: Generated<Partial<Seller>>
    status: 'open' | 'paid' | 'partially_refunded' | 'refunded' | 'uncollectible' | 'void'
    apart: GeneratedAlways<string | null>
    amount_paid: Generated<bigint>
    amount_refunded: Generated<bigint>
    paid_at: Date | null
    hold: 'missed' | null
    attempt_count: Generated<number>
    first_failed_at: Date | null
    dunning: 'retry' | 'give_up' | null
    due_at: Date | null
  }
  'billing.period': { subscription_id: string; k: number; start_at: Date; end_at: Date; invoice_id: string }
  'billing.installation': {
    one: Generated<boolean>
    id: Generated<string>
    lookup_first_before: Date | null
  }
  'billing.payment': {
    id: string
    provider_reference: string
    invoice_id: string
    attempt: number
    subscription_id: string
    account_id: string
    payment_method_id: string
    provider: string
    amount: bigint
    currency: Currency
    status: 'sending' | 'unknown' | 'succeeded' | 'failed'
    code: string | null
    provider_code: Generated<string | null>
    provider_id: string | null
    captured: Generated<bigint>
    refunded: Generated<bigint>
    refund_pending: Generated<bigint>
    unmatched: Generated<boolean>
    settled_by_hand: Generated<bigint>
    due_before: Generated<Date | null>
    dispute_status: Generated<'open' | 'won' | 'lost' | null>
    dispute_amount: Generated<bigint | null>
    dispute_opened_at: Generated<Date | null>
    dispute_closed_at: Generated<Date | null>
    dispute_lookup_at: Generated<Date | null>
    dispute_lost: Generated<bigint>
    dispute_postings: Generated<number>
    disputed: GeneratedAlways<boolean>
    created_at: Date
    sent_at: Date | null
    settled_at: Date | null
    sending_until: Date | null
    next_lookup_at: Date | null
    lookup_by: Date | null
    lookup_count: Generated<number>
    unanswered: Generated<boolean>
    not_found_count: Generated<number>
    not_found_since: Date | null
    resend_declines: Generated<number>
    resend_code: string | null
    resend_since: Date | null
  }
  'billing.next_action': {
    payment_id: string
    invoice_id: string
    subscription_id: string
    sealed: Buffer
    expires_at: Date
  }
  'billing.refund': {
    id: string
    payment_id: string
    n: number | null
    provider_reference: string | null
    invoice_id: string
    account_id: string
    amount: bigint
    currency: Currency
    reason: 'duplicate' | 'fraudulent' | 'requested_by_customer' | 'other' | null
    note: string | null
    origin: 'request' | 'unmatched' | 'provider'
    status: 'pending' | 'succeeded' | 'failed'
    step: 'queued' | 'sending' | 'unknown' | 'accepted' | null
    code: string | null
    created_at: Date
    sent_at: Date | null
    remaining: bigint | null
    settled_at: Date | null
    sending_until: Date | null
    next_lookup_at: Date | null
    lookup_by: Date | null
    lookup_count: Generated<number>
    unanswered: Generated<boolean>
    not_found_count: Generated<number>
    not_found_since: Date | null
    resend_declines: Generated<number>
    resend_code: string | null
    resend_since: Date | null
  }
  'billing.provider_probe': { provider: string; next_at: Date }
  'billing.unmatched_settlement': {
    payment_id: string
    n: number
    amount: bigint
    note: string | null
    actor: string
    at: Date
  }
  'billing.ledger_transfer': {
    id: Generated<bigint>
    cause: string
    account_id: string
    currency: Currency
    occurred_at: Date
  }
  'billing.ledger_entry': { transfer_id: bigint; book: Book; amount: bigint }
  'billing.event': {
    id: string
    type: string
    account_id: string
    subscription_id: string | null
    occurred_at: Date
    data: unknown
  }
  'billing.webhook': {
    provider: string
    event_id: string
    body_hash: Buffer
    sealed: Buffer | null
    type: string
    claim: 'paid' | 'declined' | 'changed' | null
    reference: string | null
    provider_payment: Generated<string | null>
    status: 'waiting' | 'done' | 'ignored' | 'failed'
    tries: Generated<number>
    last_error: string | null
    received_at: Date
    settled_at: Date | null
    next_lookup_at: Date
  }
  'billing.charging_stop': {
    provider: string
    stopped_at: Date
    cause: string
    holds_due: Generated<boolean>
  }
  'billing.history_applied': { line: string; applied_at: Date }
}

/**
 * Where money can be: at the provider, earned, given back, taken for nothing and owed to whom it came from, lost in a
 * dispute, or paid by hand from elsewhere to settle what was owed.
 */
export type Book = 'provider' | 'revenue' | 'refunds' | 'unclaimed' | 'disputes' | 'settlements'

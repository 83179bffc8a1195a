import type Stripe from 'stripe'
import type { BookDispute, BookPayment } from '../book-payment.ts'
import { toWire } from './stripe-amounts.ts'
import { findStripeCard } from './stripe-cards.ts'
import { type Intent, seconds, unknownCard } from './stripe-objects.ts'

const disputeStatus = { open: 'needs_response', won: 'won', lost: 'lost' } as const
const answerWithinSeconds = 7 * 86_400

function disputeIdOf(chargeId: string): string {
  return chargeId.replace(/^ch_/, 'dp_')
}

export function renderDispute(intent: Intent, payment: BookPayment): Stripe.Dispute | undefined {
  const { dispute } = payment
  if (!dispute) return undefined
  const created = seconds(dispute.opened_at)
  const card = findStripeCard(intent.card ?? '') ?? unknownCard
  return {
    id: disputeIdOf(payment.id),
    object: 'dispute',
    amount: toWire(BigInt(dispute.amount), payment.currency),
    balance_transactions: balanceTransactionsOf(payment, dispute),
    charge: payment.id,
    created,
    currency: payment.currency.toLowerCase(),
    enhanced_eligibility_types: [],
    evidence: noEvidence,
    evidence_details: {
      due_by: created + answerWithinSeconds,
      enhanced_eligibility: {},
      has_evidence: false,
      past_due: false,
      submission_count: 0,
      submission_method: 'not_submitted',
    },
    intended_submission_method: null,
    is_charge_refundable: false,
    livemode: false,
    metadata: {},
    payment_intent: intent.id,
    payment_method_details: {
      card: { brand: card.brand, case_type: 'chargeback', network: card.brand, network_reason_code: '10.4' },
      type: 'card',
    },
    reason: 'fraudulent',
    status: disputeStatus[dispute.status],
  }
}

/** What it took when it was opened, and gave back when it was won. */
function balanceTransactionsOf(
  payment: BookPayment,
  { status, amount, opened_at, closed_at }: BookDispute,
): Stripe.BalanceTransaction[] {
  const booked = (at: string, minor: number, reporting_category: string): Stripe.BalanceTransaction => {
    const value = toWire(BigInt(minor), payment.currency)
    const created = seconds(at)
    return {
      id: `${disputeIdOf(payment.id).replace(/^dp_/, 'txn_')}_${reporting_category}`,
      object: 'balance_transaction',
      amount: value,
      available_on: created,
      balance_type: 'payments',
      created,
      currency: payment.currency.toLowerCase(),
      description: null,
      exchange_rate: null,
      fee: 0,
      fee_details: [],
      net: value,
      reporting_category,
      source: disputeIdOf(payment.id),
      status: 'available',
      type: 'adjustment',
    }
  }
  const withdrawn = booked(opened_at, -amount, 'dispute')
  if (status !== 'won' || closed_at === null) return [withdrawn]
  return [withdrawn, booked(closed_at, amount, 'dispute_reversal')]
}

const noEvidence = {
  access_activity_log: null,
  billing_address: null,
  cancellation_policy: null,
  cancellation_policy_disclosure: null,
  cancellation_rebuttal: null,
  customer_communication: null,
  customer_email_address: null,
  customer_name: null,
  customer_purchase_ip: null,
  customer_signature: null,
  duplicate_charge_documentation: null,
  duplicate_charge_explanation: null,
  duplicate_charge_id: null,
  enhanced_evidence: {},
  product_description: null,
  receipt: null,
  refund_policy: null,
  refund_policy_disclosure: null,
  refund_refusal_explanation: null,
  service_date: null,
  service_documentation: null,
  shipping_address: null,
  shipping_carrier: null,
  shipping_date: null,
  shipping_documentation: null,
  shipping_tracking_number: null,
  uncategorized_file: null,
  uncategorized_text: null,
}

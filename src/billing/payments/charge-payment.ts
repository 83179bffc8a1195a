import type { BillingApp } from '../app.ts'
import type { Card } from '../providers/port.ts'
import type { Attempt, MethodInUse, PaymentNews } from './payment.ts'
import { needsLookupFirst, newsOfCharge, newsOfLookup } from './payment.ts'
import { keepBillingKey, openMethod } from './payment-method-rows.ts'

/**
 * Asks the provider for the money of an attempt for the first time. One that comes late, or that a database since lost
 * may have sent, is looked up first. Records nothing but a fresh billing key.
 */
export async function chargePayment(app: BillingApp, attempt: Attempt): Promise<PaymentNews> {
  if (!needsLookupFirst(attempt, app.clock())) return sendCharge(app, attempt)
  const lookup = await app.provider.findPayment(attempt.reference)
  if (lookup.kind === 'none') return sendCharge(app, attempt)
  const { paymentId } = attempt
  // Nothing has left us as long as nobody answers.
  return { paymentId, outcome: lookup.kind === 'found' ? newsOfLookup(lookup) : { kind: 'not_sent' } }
}

/** Asks under the attempt's key, whether or not it was asked before. */
export async function sendCharge(app: BillingApp, attempt: Attempt): Promise<PaymentNews> {
  const { paymentId } = attempt
  const ready = await readyMethod(app, attempt.method)
  if (ready.kind !== 'ready') return { paymentId, outcome: ready }
  const outcome = await app.provider.charge({
    key: attempt.reference,
    accountId: attempt.accountId,
    amount: attempt.amount,
    billingKey: ready.billingKey,
    description: attempt.description,
  })
  return { paymentId, outcome: newsOfCharge(outcome) }
}

/** Charges, and where no clear answer comes looks once before giving up for now. */
export async function chargeOrLook(app: BillingApp, attempt: Attempt): Promise<PaymentNews> {
  const news = await chargePayment(app, attempt)
  if (news.outcome.kind !== 'unknown') return news
  return { ...news, outcome: newsOfLookup(await app.provider.findPayment(attempt.reference)) }
}

export type ReadyMethod =
  | { kind: 'ready'; billingKey: string; card: Card | null }
  | { kind: 'failed'; code: 'billing_key_invalid' }
  | { kind: 'not_sent' }

/**
 * A billing key that can be charged. A one-time key is exchanged first, and the result is stored before it is used.
 * An exchange without an answer moved no money and cannot be repeated, so it counts as not sent.
 */
export async function readyMethod(app: BillingApp, method: MethodInUse): Promise<ReadyMethod> {
  if (method.sealed === null) return { kind: 'failed', code: 'billing_key_invalid' }
  const given = openMethod(app.vault, { ...method, sealed: method.sealed })
  if ('billingKey' in given) return { kind: 'ready', billingKey: given.billingKey, card: null }

  const exchanged = await app.provider.exchange(given.authKey, given.customerKey)
  if (exchanged.kind === 'refused') return { kind: 'failed', code: 'billing_key_invalid' }
  if (exchanged.kind !== 'done') return { kind: 'not_sent' }
  await keepBillingKey(app.db, app.vault, method.methodId, exchanged.billingKey, exchanged.card)
  return { kind: 'ready', billingKey: exchanged.billingKey, card: exchanged.card }
}

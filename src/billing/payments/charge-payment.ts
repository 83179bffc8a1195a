import type { BillingApp } from '../app.ts'
import type { Card } from '../providers/port.ts'
import type { Attempt, MethodInUse, PaymentNews } from './payment.ts'
import { newsOfCharge, newsOfLookup } from './payment.ts'
import { keepBillingKey, openMethod } from './payment-method-rows.ts'

/** Asks the provider for the money of an attempt, whose id is the key. Records nothing but a fresh billing key. */
export async function chargePayment(app: BillingApp, attempt: Attempt): Promise<PaymentNews> {
  const { paymentId } = attempt
  const ready = await readyMethod(app, attempt.method)
  if (ready.kind !== 'ready') return { paymentId, outcome: ready }
  const outcome = await app.provider.charge({
    key: paymentId,
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
  return { ...news, outcome: newsOfLookup(await app.provider.findPayment(attempt.paymentId)) }
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

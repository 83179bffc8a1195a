import type { BillingApp } from '../app.ts'
import type { Card, ChargeOutcome, ChargeRequest, Provider } from '../providers/port.ts'
import type { Attempt, MethodInUse, MethodOffer, PaymentOutcome } from './payment.ts'
import { isUnproven, needsLookupFirst, outcomeOfCharge, outcomeOfLookup } from './payment.ts'
import { keepBillingKey, openMethod } from './payment-method-rows.ts'
import { isInvoiceOpen } from './payment-rows.ts'
import { mayUseCustomer } from './setup.ts'
import { findHolder } from './setup-rows.ts'

/**
 * Asks the provider for the money of an attempt for the first time. One that comes late, or that a database since lost
 * may have sent, is looked up first. Records nothing but a fresh billing key.
 */
export async function chargePayment(app: BillingApp, attempt: Attempt): Promise<PaymentOutcome> {
  if (needsLookupFirst(attempt, app.clock())) {
    const lookup = await app.providers.named(attempt.provider).findPayment(attempt.reference)
    const isKnown = lookup.kind === 'found' || lookup.kind === 'mismatch'
    if (isKnown) return outcomeOfLookup(lookup, attempt)
    // Nothing has left us as long as nobody answers.
    if (lookup.kind !== 'none') return { kind: 'not_sent' }
    // The lookup took its time, and the invoice may be withdrawn by now.
    if (!(await isInvoiceOpen(app.db, attempt.invoiceId))) return { kind: 'not_sent' }
  }
  const ready = await readyMethod(app, attempt.method)
  // The lost database may have charged a payment method that is gone, and may itself have spent a one-time key.
  if (ready.kind === 'failed' && attempt.maybeSentBefore) return { kind: 'unknown' }
  if (ready.kind !== 'ready') return ready
  const provider = app.providers.named(attempt.provider)
  const answer = await provider.charge(requestOf(attempt, ready.billingKey))
  // The lost database may have sent it too, and that send may still be running.
  if (attempt.maybeSentBefore && isUnproven(answer)) return { kind: 'unknown' }
  return outcomeOfCharge(answer, attempt)
}

/** Charges, and where no clear answer comes looks once before giving up for now. */
export async function chargeOrLook(app: BillingApp, attempt: Attempt): Promise<PaymentOutcome> {
  const outcome = await chargePayment(app, attempt)
  if (outcome.kind !== 'unknown') return outcome
  const found = outcomeOfLookup(
    await app.providers.named(attempt.provider).findPayment(attempt.reference, attempt.providerId),
    attempt,
  )
  return found.kind === 'unknown' ? { ...outcome, ...found } : found
}

/** Asks once more under the same key. What an earlier send did is not known, so only the outcome itself is told. */
export async function resendCharge(app: BillingApp, attempt: Attempt): Promise<ChargeOutcome> {
  // A restored attempt may have been charged elsewhere than its subscription's payment method of now is stored.
  if (attempt.provider !== attempt.method.provider) return { kind: 'unknown' }
  const ready = await readyMethod(app, attempt.method)
  if (ready.kind === 'ready')
    return app.providers.named(attempt.provider).charge(requestOf(attempt, ready.billingKey))
  if (ready.kind === 'not_sent') return ready
  // A payment method that is gone may have been charged. A one-time key that was never exchanged was not, but a backup
  // may have forgotten that it was.
  const wasNeverCharged = !attempt.method.exchanged && !attempt.maybeSentBefore
  return wasNeverCharged ? { kind: 'refused', code: ready.code, replayed: true } : { kind: 'unknown' }
}

function requestOf(attempt: Attempt, billingKey: string): ChargeRequest {
  return {
    key: attempt.reference,
    accountId: attempt.accountId,
    amount: attempt.amount,
    billingKey,
    description: attempt.description,
  }
}

export type ReadyMethod =
  | { kind: 'ready'; billingKey: string; card: Card | null }
  | { kind: 'failed'; code: 'billing_key_invalid' }
  | { kind: 'not_sent' }

/**
 * A billing key that can be charged. A one-time key is exchanged first, and the result is stored before it is used.
 * An exchange without an answer moved no money and cannot be repeated, so it counts as not sent. One that is offered is read
 * back where only that tells whose it is.
 */
export async function readyMethod(app: BillingApp, method: MethodInUse): Promise<ReadyMethod> {
  if (method.sealed === null) return { kind: 'failed', code: 'billing_key_invalid' }
  const given = openMethod(app.vault, { ...method, sealed: method.sealed })
  const provider = app.providers.named(method.provider)
  if ('billingKey' in given) {
    return method.offer && provider.guards.tellsOwner
      ? readOffered(app, provider, given.billingKey, method.offer)
      : { kind: 'ready', billingKey: given.billingKey, card: null }
  }

  const exchanged = await provider.exchange(given.authKey, given.customerKey)
  if (exchanged.kind === 'refused') return { kind: 'failed', code: 'billing_key_invalid' }
  if (exchanged.kind !== 'done') return { kind: 'not_sent' }
  await keepBillingKey(app.db, app, method, exchanged, app.clock())
  return { kind: 'ready', billingKey: exchanged.billingKey, card: exchanged.card }
}

/** A billing key says nothing by itself, so that another account's would be charged if nobody asked whose it is. */
async function readOffered(
  app: BillingApp,
  provider: Provider,
  billingKey: string,
  { accountId, bound }: MethodOffer,
): Promise<ReadyMethod> {
  const described = await provider.describe(billingKey)
  if (described.kind === 'invalid') return { kind: 'failed', code: 'billing_key_invalid' }
  // Not knowing whose it is, nothing is charged for a token of one account; one that reaches all of them could name any.
  if (described.kind !== 'valid')
    return bound ? { kind: 'not_sent' } : { kind: 'ready', billingKey, card: null }
  const { card, issuedTo = [] } = described
  const isOwn =
    issuedTo.length === 0 ||
    mayUseCustomer(await findHolder(app.db, { accountId, provider: provider.name, names: issuedTo }), bound)
  return isOwn ? { kind: 'ready', billingKey, card } : { kind: 'failed', code: 'billing_key_invalid' }
}

import { newId } from '../../platform/id.ts'
import type { Intent } from '../../platform/idempotency.ts'
import { ensureAccount, findContact } from '../accounts/account-rows.ts'
import { answerWithin } from '../answer-within.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import type { MoneyRequest } from '../money-request.ts'
import type { GivenMethod } from '../payments/payment-method-rows.ts'
import { mayUseCustomer } from '../payments/setup.ts'
import { findHolder, getSetup, insertSetup, isCustomerOf, keepCustomerKey } from '../payments/setup-rows.ts'
import type { ProviderProfile, SetUpOutcome } from '../providers/port.ts'
import { refuse } from '../refusals.ts'

/** Prepares the collecting of a card. It moves no money, and has the shape of what does. */
export function setUpPaymentMethod(
  app: BillingApp,
  asked: { accountId: string; actor: Actor },
): MoneyRequest<Intent & { readonly kind: 'setup' }, SetUp> {
  return {
    begin: async (tx) => {
      const provider = app.providers.forNew.name
      const setupId = await beginSetup(tx, app.clock(), { ...asked, provider }, app.terms.timeZone)
      return { kind: 'setup', id: setupId, subject: setupId }
    },
    finish: async ({ id }) => ({ state: 'done', result: await finishSetup(app, id) }),
  }
}

/** Records that an account is about to hand over a payment method. The provider is asked in `finishSetup`, after this commits. */
async function beginSetup(
  tx: BillingTx,
  now: Date,
  { accountId, actor, provider }: { accountId: string; actor: Actor; provider: string },
  defaultTimeZone: string,
): Promise<string> {
  const setupId = newId('setup_', now)
  await ensureAccount(tx, accountId, defaultTimeZone, now)
  await insertSetup(tx, { setupId, accountId, provider, now })
  const action = 'account.set_up_payment_method'
  await insertAudit(tx, { at: now, actor, action, accountId, target: setupId })
  return setupId
}

export type SetUp = {
  readonly setupId: string
  readonly provider: string
  /** What the provider's browser SDK needs. */
  readonly client: Readonly<Record<string, string>>
}

/** Asks the provider to prepare the collecting, and keeps under which name it knows this account. Moves no money. */
async function finishSetup(app: BillingApp, setupId: string): Promise<SetUp> {
  const { accountId, provider, customerKey } = await getSetup(app.db, setupId)
  const contact = await findContact(app.db, app.vault, accountId)
  let outcome: SetUpOutcome = { kind: 'unknown' }
  await answerWithin(app.terms, async () => {
    const asked = { setupId, accountId, customerKey, email: contact?.email ?? null }
    outcome = await app.providers.named(provider).setUp(asked)
  })
  return answerOf(app, { setupId, provider }, outcome)
}

async function answerOf(
  app: BillingApp,
  { setupId, provider }: { setupId: string; provider: string },
  outcome: SetUpOutcome,
): Promise<SetUp> {
  if (outcome.kind === 'refused') throw refuse('provider_error')
  if (outcome.kind !== 'done') throw refuse('provider_unavailable', { headers: { 'retry-after': '5' } })
  if (outcome.customerKey !== null) await keepCustomerKey(app.db, setupId, outcome.customerKey)
  return { setupId, provider, client: outcome.client }
}

/**
 * A payment method that comes with another account's customer key, or with a billing key that names another's customer, is
 * refused before anybody is asked about it.
 */
export async function requireOwnCustomer(
  tx: BillingTx,
  { name: provider, guards, customerOf }: ProviderProfile,
  { accountId, method, bound }: { accountId: string; method: GivenMethod; bound: boolean },
): Promise<void> {
  if (guards.anyCustomer) return
  if ('billingKey' in method) {
    const customer = customerOf(method.billingKey)
    if (customer === null) return
    const holder = await findHolder(tx, { accountId, provider, names: [customer] })
    if (!mayUseCustomer(holder, bound)) throw refuse('billing_key_invalid')
    return
  }
  if (!(await isCustomerOf(tx, { accountId, provider, customerKey: method.customerKey })))
    throw refuse('billing_key_invalid')
}

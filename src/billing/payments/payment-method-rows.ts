import { type RawBuilder, sql } from 'kysely'
import type { Vault } from '../../platform/vault/vault.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Card } from '../providers/port.ts'
import type { MethodInUse } from './payment.ts'
import { realTimeIn } from './payment-rows.ts'

/** What a caller hands over: a key that can be charged, or a one-time key to be exchanged for one. */
export type GivenMethod = { billingKey: string } | { authKey: string; customerKey: string }

export type MethodPurpose = 'first' | 'trial' | 'replacement'

export type StoredMethod = {
  readonly methodId: string
  readonly provider: string
  readonly accountId: string
  readonly subscriptionId: string
  readonly purpose: MethodPurpose
  readonly state: 'pending' | 'kept' | 'dropped'
  readonly sealed: Buffer | null
  readonly exchanged: boolean
  readonly described: boolean
  readonly planId: string | null
  readonly failure: string | null
}

export type NewMethod = {
  readonly methodId: string
  readonly provider: string
  readonly given: GivenMethod
  readonly accountId: string
  readonly subscriptionId: string
  readonly purpose: MethodPurpose
  readonly planId: string | null
  /** How long its request may work on it before the sweep does. */
  readonly leaseMs: number | null
  readonly now: Date
}

/** Seals what the caller handed over: nothing else of it reaches the database. */
export function sealMethod(
  vault: Vault,
  { methodId, provider, given }: NewMethod,
): MethodInUse & { sealed: Buffer } {
  const exchanged = 'billingKey' in given
  const text = 'billingKey' in given ? given.billingKey : JSON.stringify(given)
  return { methodId, provider, sealed: vault.seal(text, placeOf(methodId)), exchanged }
}

/** Keeps a payment method. */
export async function insertMethod(tx: BillingTx, vault: Vault, method: NewMethod): Promise<void> {
  await methodInsert(method, sealMethod(vault, method)).execute(tx)
}

/** The same as part of a larger statement. */
export function methodInsert(method: NewMethod, { sealed, exchanged }: MethodInUse): RawBuilder<unknown> {
  return sql`
    insert into billing.payment_method
      (id, account_id, subscription_id, provider, purpose, state, sealed, exchanged, plan_id, next_lookup_at, created_at)
    values (${method.methodId}, ${method.accountId}, ${method.subscriptionId}, ${method.provider}, ${method.purpose}, 'pending',
      ${sealed}, ${exchanged}, ${method.planId}, ${method.leaseMs === null ? null : realTimeIn(method.leaseMs)}, ${method.now})`
}

export function openMethod(
  vault: Vault,
  method: { methodId: string; sealed: Buffer; exchanged: boolean },
): GivenMethod {
  const text = vault.open(method.sealed, placeOf(method.methodId))
  return method.exchanged ? { billingKey: text } : (JSON.parse(text) as GivenMethod)
}

export async function findMethod(db: BillingDb, methodId: string): Promise<StoredMethod | undefined> {
  const row = await db
    .selectFrom('billing.payment_method')
    .select([
      'id',
      'account_id',
      'subscription_id',
      'provider',
      'purpose',
      'state',
      'sealed',
      'exchanged',
      'last4',
      'plan_id',
      'failure',
    ])
    .where('id', '=', methodId)
    .executeTakeFirst()
  return (
    row && {
      methodId: row.id,
      provider: row.provider,
      accountId: row.account_id,
      subscriptionId: row.subscription_id,
      purpose: row.purpose,
      state: row.state,
      sealed: row.sealed,
      exchanged: row.exchanged,
      described: row.last4 !== null,
      planId: row.plan_id,
      failure: row.failure,
    }
  )
}

/** The one-time key is spent; from here on the billing key stands in its place. */
export async function keepBillingKey(
  db: BillingDb,
  vault: Vault,
  methodId: string,
  billingKey: string,
  card: Card,
): Promise<void> {
  await db
    .updateTable('billing.payment_method')
    .set({ sealed: vault.seal(billingKey, placeOf(methodId)), exchanged: true, ...card })
    .where('id', '=', methodId)
    .where('exchanged', '=', false)
    .execute()
}

export async function describeMethod(tx: BillingTx, methodId: string, card: Card): Promise<void> {
  await tx
    .updateTable('billing.payment_method')
    .set({ ...card })
    .where('id', '=', methodId)
    .execute()
}

export type KeptMethod = { readonly methodId: string; readonly card: Card | null }

/** A card that is in use is kept. */
export async function keepMethod(tx: BillingTx, methodId: string): Promise<void> {
  await keptUpdate([{ methodId, card: null }]).execute(tx)
}

/** The same as part of a larger statement, with what was learnt of the cards on the way. */
export function keptUpdate(kept: readonly KeptMethod[]): RawBuilder<unknown> {
  return sql`
    update billing.payment_method m
    set state = 'kept', next_lookup_at = null, brand = coalesce(g.brand, m.brand), last4 = coalesce(g.last4, m.last4),
      expires = coalesce(g.expires, m.expires)
    from unnest(
      ${kept.map(({ methodId }) => methodId)}::text[],
      ${kept.map(({ card }) => card?.brand ?? null)}::text[],
      ${kept.map(({ card }) => card?.last4 ?? null)}::text[],
      ${kept.map(({ card }) => card?.expires ?? null)}::text[]
    ) as g (id, brand, last4, expires)
    where m.id = g.id and m.state <> 'dropped'`
}

/** A card that is not used is not kept either. */
export async function dropMethod(tx: BillingTx, methodId: string, failure: string): Promise<void> {
  await tx
    .updateTable('billing.payment_method')
    .set({ state: 'dropped', sealed: null, next_lookup_at: null, failure })
    .where('id', '=', methodId)
    .where('state', '=', 'pending')
    .execute()
}

/** Forgets every card of an account. */
export async function eraseMethods(tx: BillingTx, accountId: string): Promise<void> {
  await tx
    .updateTable('billing.payment_method')
    .set({ state: 'dropped', sealed: null, brand: null, last4: null, expires: null, next_lookup_at: null })
    .where('account_id', '=', accountId)
    .execute()
}

/** Pending cards whose request is gone. Each is leased to the caller. */
export async function leaseLostMethods(db: BillingDb, leaseMs: number, limit: number): Promise<string[]> {
  const found = await sql<{ id: string }>`
    update billing.payment_method
    set next_lookup_at = ${realTimeIn(leaseMs)}
    where id in (
      select id from billing.payment_method
      where state = 'pending' and next_lookup_at <= statement_timestamp()
      order by next_lookup_at limit ${limit} for update skip locked)
    returning id`.execute(db)
  return found.rows.map(({ id }) => id)
}

/** Cards that waited for the end of a doubt need not wait any longer. */
export async function wakeCards(tx: BillingTx, subscriptionIds: readonly string[]): Promise<void> {
  if (subscriptionIds.length === 0) return
  await sql`
    update billing.payment_method set next_lookup_at = clock_timestamp()
    where state = 'pending' and next_lookup_at > clock_timestamp() and subscription_id = any (${[...subscriptionIds]})`.execute(
    tx,
  )
}

function placeOf(methodId: string): string {
  return `payment_method:${methodId}`
}

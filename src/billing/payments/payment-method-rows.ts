import { createHmac } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { anyLength } from '../../platform/database/any-length.ts'
import type { Vault } from '../../platform/vault/vault.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Card } from '../providers/port.ts'
import type { PlanTerms } from '../tables.ts'
import type { MethodInUse, MethodOffer } from './payment.ts'
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
  readonly offer: MethodOffer | null
  readonly planId: string | null
  readonly planTerms: PlanTerms | null
  readonly failure: string | null
}

export type NewMethod = {
  readonly methodId: string
  readonly provider: string
  readonly given: GivenMethod
  readonly accountId: string
  /** The token that brings it reaches this account alone. */
  readonly bound: boolean
  readonly subscriptionId: string
  readonly purpose: MethodPurpose
  readonly planId: string | null
  /** Those of another plan, which a trial goes on with: as they were agreed on, whatever becomes of that plan. */
  readonly planTerms: PlanTerms | null
  /** How long its request may work on it before the sweep does. */
  readonly leaseMs: number | null
  readonly now: Date
}

/** What seals a payment method, and what tells two of them apart without opening them. */
export type Keys = { readonly vault: Vault; readonly fingerprintKey: Buffer }

type SealedMethod = MethodInUse & { readonly sealed: Buffer; readonly keyHash: Buffer | null }

/** Seals what the caller handed over: nothing else of it reaches the database. */
export function sealMethod(keys: Keys, method: NewMethod): SealedMethod {
  const { methodId, provider, given, accountId, bound } = method
  const exchanged = 'billingKey' in given
  const text = exchanged ? given.billingKey : JSON.stringify(given)
  const keyHash = exchanged ? hashOf(keys, provider, text) : null
  const sealed = keys.vault.seal(text, placeOf(methodId))
  return { methodId, provider, sealed, exchanged, offer: { accountId, bound }, keyHash }
}

function hashOf({ fingerprintKey }: Keys, provider: string, billingKey: string): Buffer {
  return createHmac('sha256', fingerprintKey).update(`card\n${provider}\n${billingKey}`).digest()
}

/** Keeps a payment method. */
export async function insertMethod(tx: BillingTx, keys: Keys, method: NewMethod): Promise<void> {
  await methodStatement(method, sealMethod(keys, method)).execute(tx)
}

/** The same as part of a larger statement. */
export function methodStatement(
  method: NewMethod,
  { sealed, exchanged, keyHash }: SealedMethod,
): RawBuilder<unknown> {
  return sql`
    insert into billing.payment_method
      (id, account_id, subscription_id, provider, purpose, state, sealed, exchanged, bound, key_hash, plan_id, plan_terms, next_lookup_at, created_at)
    values (${method.methodId}, ${method.accountId}, ${method.subscriptionId}, ${method.provider}, ${method.purpose}, 'pending',
      ${sealed}, ${exchanged}, ${method.bound}, ${keyHash}, ${method.planId}, ${method.planTerms && JSON.stringify(method.planTerms)},
      ${method.leaseMs === null ? null : realTimeIn(method.leaseMs)}, ${method.now})`
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
      'bound',
      'last4',
      'plan_id',
      'plan_terms',
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
      offer:
        row.state === 'pending' && row.last4 === null
          ? { accountId: row.account_id, bound: row.bound }
          : null,
      planId: row.plan_id,
      planTerms: row.plan_terms,
      failure: row.failure,
    }
  )
}

/**
 * The one-time key is spent; from here on the billing key stands in its place. One that was turned down or erased
 * meanwhile is not kept: the provider is asked to delete it again.
 */
export async function keepBillingKey(
  db: BillingDb,
  keys: Keys,
  { methodId, provider }: MethodInUse,
  issued: { billingKey: string; card: Card },
  now: Date,
): Promise<void> {
  const sealed = keys.vault.seal(issued.billingKey, placeOf(methodId))
  const keyHash = hashOf(keys, provider, issued.billingKey)
  await sql`
    with kept as (
      update billing.payment_method
      set sealed = ${sealed}, exchanged = true, issued = true, key_hash = ${keyHash},
        brand = ${issued.card.brand}, last4 = ${issued.card.last4}, expires = ${issued.card.expires}
      where id = ${methodId} and not exchanged and state <> 'dropped'
    )
    insert into billing.payment_method_to_delete
      (payment_method_id, account_id, provider, sealed, key_hash, created_at, next_try_at)
    select id, account_id, provider, ${sealed}, ${keyHash}, ${now}, clock_timestamp()
    from billing.payment_method where id = ${methodId} and not exchanged and state = 'dropped'
    on conflict do nothing`.execute(db)
}

export async function describeMethod(tx: BillingTx, methodId: string, card: Card): Promise<void> {
  await tx
    .updateTable('billing.payment_method')
    .set({ ...card })
    .where('id', '=', methodId)
    .execute()
}

/** Whether one payment method was offered before another. */
export async function isOfferedBefore(db: BillingDb, methodId: string, other: string): Promise<boolean> {
  const { rows } = await sql`
    select from billing.payment_method a, billing.payment_method b
    where a.id = ${methodId} and b.id = ${other} and (a.created_at, a.id) < (b.created_at, b.id)`.execute(db)
  return rows.length === 1
}

export type KeptMethod = { readonly methodId: string; readonly card: Card | null }

/** A payment method that is in use is kept. */
export async function keepMethod(tx: BillingTx, methodId: string): Promise<void> {
  await keptUpdate([{ methodId, card: null }]).execute(tx)
}

/** The same as part of a larger statement, with what was learnt of them on the way. */
export function keptUpdate(kept: readonly KeptMethod[]): RawBuilder<unknown> {
  return sql`
    update billing.payment_method m
    set state = 'kept', next_lookup_at = null, brand = coalesce(g.brand, m.brand), last4 = coalesce(g.last4, m.last4),
      expires = coalesce(g.expires, m.expires)
    from unnest(
      ${anyLength(kept.map(({ methodId }) => methodId))}::text[],
      ${anyLength(kept.map(({ card }) => card?.brand ?? null))}::text[],
      ${anyLength(kept.map(({ card }) => card?.last4 ?? null))}::text[],
      ${anyLength(kept.map(({ card }) => card?.expires ?? null))}::text[]
    ) as g (id, brand, last4, expires)
    where m.id = g.id and m.state <> 'dropped'`
}

/** A payment method that is not used is not kept either. One that the caller brought along stays theirs, and may be offered again. */
export async function dropMethod(tx: BillingTx, methodId: string, failure: string, now: Date): Promise<void> {
  await deleteLater(tx, sql`id = ${methodId} and state = 'pending' and issued`, now)
  await tx
    .updateTable('billing.payment_method')
    .set({ state: 'dropped', sealed: null, next_lookup_at: null, failure })
    .where('id', '=', methodId)
    .where('state', '=', 'pending')
    .execute()
}

/** Another payment method stands in its place. It is kept as long as a charge of it is in doubt, and then deleted. */
export async function retireMethods(tx: BillingTx, methodIds: readonly string[], now: Date): Promise<void> {
  if (methodIds.length > 0) await deleteLater(tx, sql`id = any (${[...methodIds]})`, now)
}

/** Forgets every payment method of an account. */
export async function eraseMethods(tx: BillingTx, accountId: string, now: Date): Promise<void> {
  await deleteLater(tx, sql`account_id = ${accountId}`, now)
  await tx
    .updateTable('billing.payment_method')
    .set({ state: 'dropped', sealed: null, brand: null, last4: null, expires: null, next_lookup_at: null })
    .where('account_id', '=', accountId)
    .execute()
}

/**
 * Has the provider delete payment methods once this is committed. A one-time key is stored nowhere. The lock keeps whoever
 * seals everything anew from passing by between what is read here and what is written.
 */
async function deleteLater(tx: BillingTx, which: RawBuilder<unknown>, now: Date): Promise<void> {
  await sql`
    insert into billing.payment_method_to_delete
      (payment_method_id, account_id, provider, sealed, key_hash, created_at, next_try_at)
    select id, account_id, provider, sealed, key_hash, ${now}, clock_timestamp()
    from billing.payment_method where ${which} and exchanged and sealed is not null
    order by id for no key update
    on conflict do nothing`.execute(tx)
}

/** Pending payment methods whose request is gone. Each is leased to the caller. */
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

/** The same for one. False: somebody is at it, it is decided, or an attempt carries it. */
export async function leaseLostMethod(db: BillingDb, methodId: string, leaseMs: number): Promise<boolean> {
  const { rows } = await sql`
    update billing.payment_method
    set next_lookup_at = ${realTimeIn(leaseMs)}
    where id = ${methodId} and state = 'pending' and next_lookup_at <= statement_timestamp()
    returning id`.execute(db)
  return rows.length === 1
}

/** When the sweep goes on with a pending payment method; null once an attempt carries it. */
export async function setMethodLookup(
  tx: BillingTx,
  methodId: string,
  afterMs: number | null,
): Promise<void> {
  await tx
    .updateTable('billing.payment_method')
    .set({ next_lookup_at: afterMs === null ? null : realTimeIn(afterMs) })
    .where('id', '=', methodId)
    .where('state', '=', 'pending')
    .execute()
}

/**
 * Payment methods that waited for the end of a doubt need not wait any longer. Of one that was neither exchanged nor described
 * so far somebody is asking the provider, and only its lease keeps others from asking too.
 */
export async function wakePendingMethods(tx: BillingTx, subscriptionIds: readonly string[]): Promise<void> {
  if (subscriptionIds.length === 0) return
  await sql`
    update billing.payment_method set next_lookup_at = clock_timestamp()
    where state = 'pending' and next_lookup_at > clock_timestamp() and exchanged and last4 is not null
      and subscription_id = any (${[...subscriptionIds]})`.execute(tx)
}

/** The providers that hold payment methods of subscriptions that have not ended, and of how many. */
export async function countByProvider(db: BillingDb): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ provider: string; count: number }>`
    select m.provider, count(*)::int as count
    from billing.subscription s join billing.payment_method m on m.id = s.payment_method_id
    where s.status <> 'canceled' group by 1 order by 1`.execute(db)
  return new Map(rows.map(({ provider, count }) => [provider, count]))
}

function placeOf(methodId: string): string {
  return `payment_method:${methodId}`
}

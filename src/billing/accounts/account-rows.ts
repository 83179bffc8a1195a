import type { Vault } from '../../platform/vault/vault.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Language } from '../seller.ts'

/** A customer of the service, by the caller's id. */
export type Account = {
  readonly accountId: string
  readonly timeZone: string
  /** Of its invoices; null is the installation's. */
  readonly language: Language | null
  readonly createdAt: Date
  readonly erasedAt: Date | null
}

export type Contact = { readonly email?: string; readonly name?: string }

export async function findAccount(db: BillingDb, accountId: string): Promise<Account | undefined> {
  const row = await db
    .selectFrom('billing.account')
    .select(['id', 'time_zone', 'language', 'created_at', 'erased_at'])
    .where('id', '=', accountId)
    .executeTakeFirst()
  return (
    row && {
      accountId: row.id,
      timeZone: row.time_zone,
      language: row.language,
      createdAt: row.created_at,
      erasedAt: row.erased_at,
    }
  )
}

/** Accounts by id, without the people behind them. */
export async function listAccounts(
  db: BillingDb,
  filter: { only: string | undefined; prefix: string | undefined; after: string | undefined; limit: number },
): Promise<Account[]> {
  let query = db
    .selectFrom('billing.account')
    .select(['id', 'time_zone', 'language', 'created_at', 'erased_at'])
    .orderBy('id')
    .limit(filter.limit)
  if (filter.only !== undefined) query = query.where('id', '=', filter.only)
  if (filter.prefix !== undefined)
    query = query
      .where('id', '>=', filter.prefix)
      .where('id', 'like', `${filter.prefix.replaceAll('_', '\\_')}%`)
  if (filter.after !== undefined) query = query.where('id', '>', filter.after)
  const rows = await query.execute()
  return rows.map((row) => ({
    accountId: row.id,
    timeZone: row.time_zone,
    language: row.language,
    createdAt: row.created_at,
    erasedAt: row.erased_at,
  }))
}

/** Makes the account on its first use, in the zone named or else the service's, and says which zone it has. */
export async function ensureAccount(
  tx: BillingTx,
  accountId: string,
  timeZone: string,
  now: Date,
): Promise<string> {
  const made = await tx
    .insertInto('billing.account')
    .values({ id: accountId, time_zone: timeZone, created_at: now, erased_at: null })
    .onConflict((conflict) => conflict.doNothing())
    .returning('time_zone')
    .executeTakeFirst()
  if (made) return made.time_zone
  const found = await tx
    .selectFrom('billing.account')
    .select('time_zone')
    .where('id', '=', accountId)
    .executeTakeFirstOrThrow()
  return found.time_zone
}

export async function updateTimeZone(tx: BillingTx, accountId: string, timeZone: string): Promise<void> {
  await tx
    .updateTable('billing.account')
    .set({ time_zone: timeZone })
    .where('id', '=', accountId)
    .where('time_zone', '<>', timeZone)
    .execute()
}

export async function updateLanguage(
  tx: BillingTx,
  accountId: string,
  language: Language | null,
): Promise<void> {
  await tx.updateTable('billing.account').set({ language }).where('id', '=', accountId).execute()
}

export async function findContact(db: BillingDb, vault: Vault, accountId: string): Promise<Contact> {
  const row = await db
    .selectFrom('billing.account_contact')
    .select('sealed')
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return row ? (JSON.parse(vault.open(row.sealed, placeOf(accountId))) as Contact) : {}
}

/** Replaces what is known of the person. Only its sealed form reaches the database. */
export async function putContact(
  tx: BillingTx,
  vault: Vault,
  accountId: string,
  contact: Contact,
  now: Date,
): Promise<void> {
  const sealed = vault.seal(JSON.stringify(contact), placeOf(accountId))
  await tx
    .insertInto('billing.account_contact')
    .values({ account_id: accountId, sealed, updated_at: now })
    .onConflict((conflict) => conflict.column('account_id').doUpdateSet({ sealed, updated_at: now }))
    .execute()
}

/** Locks the account against subscriptions that would begin meanwhile. False: there is none. */
export async function lockAccount(tx: BillingTx, accountId: string): Promise<boolean> {
  const found = await tx
    .selectFrom('billing.account')
    .select('id')
    .where('id', '=', accountId)
    .forUpdate()
    .executeTakeFirst()
  return found !== undefined
}

/** Forgets the person. The account's money and its trial stay. */
export async function eraseContact(tx: BillingTx, accountId: string, now: Date): Promise<void> {
  await tx.deleteFrom('billing.account_contact').where('account_id', '=', accountId).execute()
  await tx.updateTable('billing.account').set({ erased_at: now }).where('id', '=', accountId).execute()
}

/** Told anew who an erased account is, it is no longer erased. */
export async function unerase(tx: BillingTx, accountId: string): Promise<void> {
  await tx
    .updateTable('billing.account')
    .set({ erased_at: null })
    .where('id', '=', accountId)
    .where('erased_at', 'is not', null)
    .execute()
}

function placeOf(accountId: string): string {
  return `account_contact:${accountId}`
}

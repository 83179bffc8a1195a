import { sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Holder } from './setup.ts'

/** A card about to be collected in a browser. */
export type Setup = {
  readonly setupId: string
  readonly accountId: string
  readonly provider: string
  /** What the provider called this account in an earlier setup, so that it stays one customer there. */
  readonly customerKey: string | null
}

export async function insertSetup(
  tx: BillingTx,
  setup: { setupId: string; accountId: string; provider: string; now: Date },
): Promise<void> {
  await tx
    .insertInto('billing.setup')
    .values({
      id: setup.setupId,
      account_id: setup.accountId,
      provider: setup.provider,
      customer_key: null,
      created_at: setup.now,
    })
    .execute()
}

export async function getSetup(db: BillingDb, setupId: string): Promise<Setup> {
  const found = await sql<Setup>`
    select s.id as "setupId", s.account_id as "accountId", s.provider, (
      select o.customer_key from billing.setup o
      where o.account_id = s.account_id and o.provider = s.provider and o.customer_key is not null
      order by o.id desc limit 1) as "customerKey"
    from billing.setup s where s.id = ${setupId}`.execute(db)
  return found.rows[0]!
}

/** From here on a payment method may come with this customer key, from this account alone. */
export async function keepCustomerKey(db: BillingDb, setupId: string, customerKey: string): Promise<void> {
  // Whoever was forgotten meanwhile stays so.
  await sql`
    update billing.setup s set customer_key = ${customerKey}
    where s.id = ${setupId} and s.customer_key is null
      and not exists (select from billing.account a where a.id = s.account_id and a.erased_at >= s.created_at)`.execute(
    db,
  )
}

/** Whether a setup gave this customer key to this account. */
export async function isCustomerOf(
  db: BillingDb,
  { accountId, provider, customerKey }: { accountId: string; provider: string; customerKey: string },
): Promise<boolean> {
  const found = await db
    .selectFrom('billing.setup')
    .select('id')
    .where('account_id', '=', accountId)
    .where('provider', '=', provider)
    .where('customer_key', '=', customerKey)
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}

/** To which account setups with a provider gave one of these names. What is issued to an account by its own id is its own. */
export async function findHolder(
  db: BillingDb,
  { accountId, provider, names }: { accountId: string; provider: string; names: readonly string[] },
): Promise<Holder> {
  const found = await sql<{ account_id: string }>`
    select distinct account_id from billing.setup
    where provider = ${provider} and (id = any (${[...names]}) or customer_key = any (${[...names]}))`.execute(
    db,
  )
  const holders = found.rows.map((row) => row.account_id)
  if (holders.some((holder) => holder !== accountId)) return 'other'
  return holders.length > 0 || names.includes(accountId) ? 'own' : 'nobody'
}

/** What providers call an account is part of the person behind it. */
export async function eraseSetups(tx: BillingTx, accountId: string): Promise<void> {
  await tx
    .updateTable('billing.setup')
    .set({ customer_key: null })
    .where('account_id', '=', accountId)
    .where('customer_key', 'is not', null)
    .execute()
}

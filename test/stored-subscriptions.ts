import type pg from 'pg'

/** Stores many subscriptions like one that is there but for some columns, each of its own account: the n-th of so many. */
export async function storeSubscriptions(
  db: Pick<pg.Pool, 'query'>,
  modelAccount: string,
  count: number,
  butFor: Readonly<Record<string, string>> = {},
): Promise<void> {
  const columns = {
    id: "'sub_stored_' || lpad(n::text, 8, '0')",
    account_id: "'stored_' || n",
    ...butFor,
  }
  const changed = Object.entries(columns).map(([name, value]) => `'${name}', ${value}`)
  await db.query(
    `insert into billing.account (id, time_zone, invoice_count, created_at)
     select 'stored_' || n, 'UTC', 1, now() from generate_series(1, $1) n`,
    [count],
  )
  await db.query(
    `insert into billing.subscription
     select (jsonb_populate_record(s, jsonb_build_object(${changed.join(', ')}))).*
     from billing.subscription s, generate_series(1, $2) n where s.account_id = $1`,
    [modelAccount, count],
  )
}

/** Lets the next period of some subscriptions begin at an instant; a period follows from the anchor alone. */
export async function makeDue(db: Pick<pg.Pool, 'query'>, accounts: string, at: Date): Promise<void> {
  await db.query(
    `update billing.subscription
     set next_billing_at = $2::timestamptz, period_end = $2::timestamptz, anchor = $2::timestamptz - (last_k + 1) * interval '1 month'
     where account_id like $1 and status = 'active'`,
    [accounts, at],
  )
}

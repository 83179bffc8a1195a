import pg from 'pg'

/** As many as the sweep has on their way to the provider; each has a connection, and waits for none. */
const inFlight = 32

/** Renews so many, and says how many it did in a second. */
export type BareRenewals = (count: number) => Promise<number>

/**
 * Both transactions of a renewal as plain prepared statements, as many at a time as ours: no provider, no rules, no events'
 * readers. They go over the second half of so many stored subscriptions, again and again.
 */
export function openBareRenewals(url: string, stored: number): BareRenewals & { close(): Promise<void> } {
  const pool = new pg.Pool({ connectionString: url, max: inFlight })
  let done = 0
  const renewMany = async (count: number) => {
    const startedAt = performance.now()
    const end = done + count
    await Promise.all(
      Array.from({ length: inFlight }, async () => {
        const client = await pool.connect()
        while (done < end) {
          const n = done++
          await bareRenewal(client, n, stored - (n % Math.floor(stored / 2)))
        }
        client.release()
      }),
    )
    return count / ((performance.now() - startedAt) / 1000)
  }
  return Object.assign(renewMany, { close: () => pool.end() })
}

async function bareRenewal(client: pg.PoolClient, id: number, subscription: number): Promise<void> {
  const run = (name: string, text: string, values: unknown[]) => client.query({ name, text, values })
  const sub = `sub_stored_${String(subscription).padStart(8, '0')}`
  const account = `stored_${subscription}`
  const [invoice, payment] = [`inv_bare_${id}`, `pay_bare_${id}`]
  await client.query('begin')
  await run('b1', 'select * from billing.subscription where id = $1 for update', [sub])
  await run('b2', 'update billing.account set invoice_count = invoice_count + 1 where id = $1', [account])
  await run(
    'b3',
    `insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start, period_end, issued_at, status, attempt_count)
     select $1, $2, $3, invoice_count, 'x', 29000, 'KRW', now(), now() + interval '1 month', now(), 'open', 1 from billing.account where id = $2`,
    [invoice, account, sub],
  )
  await run(
    'b4',
    `insert into billing.period (subscription_id, k, start_at, end_at, invoice_id)
     values ($1, 1000000 + (random() * 1000000000)::int, now(), now() + interval '1 month', $2)`,
    [sub, invoice],
  )
  await run(
    'b5',
    `insert into billing.payment (id, provider_reference, invoice_id, attempt, subscription_id, account_id, payment_method_id, provider, amount, currency, status, created_at, sent_at, sending_until, next_lookup_at)
     values ($1, $1, $2, 1, $3, $4, 'pm', 'sandbox', 29000, 'KRW', 'sending', now(), now(), now(), now())`,
    [payment, invoice, sub, account],
  )
  await run('b6', 'update billing.subscription set last_k = last_k where id = $1', [sub])
  await client.query('commit')

  await client.query('begin')
  await run('b7', 'select * from billing.subscription where id = $1 for update', [sub])
  await run(
    'b8',
    "update billing.payment set status = 'succeeded', captured = amount, settled_at = now(), next_lookup_at = null, sending_until = null where id = $1",
    [payment],
  )
  await run(
    'b9',
    "update billing.invoice set status = 'paid', amount_paid = amount_due, paid_at = now() where id = $1",
    [invoice],
  )
  await run(
    'b10',
    `with t as (insert into billing.ledger_transfer (cause, account_id, currency, occurred_at) values ($1, $2, 'KRW', now()) returning id)
     insert into billing.ledger_entry (transfer_id, book, amount)
     select id, 'provider', 29000 from t union all select id, 'revenue', -29000 from t`,
    [`payment:${payment}`, account],
  )
  await run(
    'b11',
    "insert into billing.event (id, type, account_id, subscription_id, occurred_at, data) values ($1, 'invoice.paid', $2, $3, now(), '{}')",
    [`evt_bare_${id}`, account, sub],
  )
  await client.query('commit')
}

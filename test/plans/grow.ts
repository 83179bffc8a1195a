import type pg from 'pg'
import { storeSubscriptions } from '../stored-subscriptions.ts'

/** How many rows the tables that grow with customers, days and keywords get. */
export const stored = 8_000

/** Fills every table that grows, with rows at rest: none of them is due, so that a sweep finds only what a test left it. */
export async function grow(db: pg.Pool, modelAccount: string): Promise<void> {
  await storeSubscriptions(db, modelAccount, stored)
  const client = await db.connect()
  try {
    // A session may have planned the ledger's triggers when it was a page long, and then reads it whole for every row.
    await client.query('discard plans')
    await client.query('set enable_seqscan = off')
    for (const statement of [...billing, ...batch, ...platform]) await client.query(statement)
  } finally {
    client.release(true)
  }
  await db.query('analyze')
}

const subscriptions = `billing.subscription s where s.id like 'sub\\_stored\\_%'`
const n = `right(s.id, 8)`

const billing = [
  // They fall due one by one in the month that follows.
  `update billing.subscription s set status = 'active', cancel_at = null, canceled_at = null, last_k = 0,
     next_billing_at = '2030-02-01'::timestamptz + ${n}::int * interval '2 minutes',
     anchor = '2030-01-01'::timestamptz + ${n}::int * interval '2 minutes' where s.id like 'sub\\_stored\\_%'`,
  `insert into billing.payment_method (id, account_id, subscription_id, provider, purpose, state, sealed, exchanged, issued, key_hash, created_at)
   select 'pm_' || ${n}, account_id, id, 'sandbox', 'first', 'kept', '\\x00', true, false, sha256(id::bytea), created_at from ${subscriptions}`,
  `insert into billing.account_contact (account_id, sealed, updated_at) select account_id, '\\x00', created_at from ${subscriptions}`,
  `insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start, period_end, issued_at, status, amount_paid, paid_at)
   select 'inv_1q0stored_' || ${n} || '_' || k, account_id, id, k + 1, 'x', amount, currency, '2029-10-01'::timestamptz + k * interval '1 month',
     '2029-11-01'::timestamptz + k * interval '1 month', '2029-10-01'::timestamptz + k * interval '1 month', 'paid', amount, '2029-10-01'::timestamptz + k * interval '1 month'
   from generate_series(0, 2) k, ${subscriptions}`,
  `insert into billing.period (subscription_id, k, start_at, end_at, invoice_id)
   select subscription_id, 100 + number, period_start, period_end, id from billing.invoice where id like 'inv\\_1q0stored\\_%'`,
  `insert into billing.payment (id, provider_reference, invoice_id, attempt, subscription_id, account_id, payment_method_id, provider, amount, currency, status, captured, created_at, sent_at, settled_at)
   select replace(id, 'inv', 'pay'), replace(id, 'inv', 'rl'), id, 1, subscription_id, account_id, 'pm_x', 'sandbox', amount_due, currency, 'succeeded', amount_due, issued_at, issued_at, issued_at
   from billing.invoice where id like 'inv\\_1q0stored\\_%'`,
  `insert into billing.refund (id, payment_id, n, provider_reference, invoice_id, account_id, amount, currency, origin, status, created_at, settled_at)
   select replace(id, 'pay', 'ref'), id, 1, replace(id, 'pay', 'rf'), invoice_id, account_id, 1, currency, 'request', 'succeeded', created_at, created_at
   from billing.payment where id like 'pay\\_1q0stored\\_%\\_0'`,
  `insert into billing.event (id, type, account_id, subscription_id, occurred_at, data)
   select replace(id, 'inv', 'evt'), 'invoice.paid', account_id, subscription_id, issued_at, '{}' from billing.invoice where id like 'inv\\_1q0stored\\_%'`,
  `with t as (insert into billing.ledger_transfer (cause, account_id, currency, occurred_at)
     select 'payment:' || id, account_id, currency, created_at from billing.payment where id like 'pay\\_1q0stored\\_%' returning id)
   insert into billing.ledger_entry (transfer_id, book, amount) select id, 'provider', 1 from t union all select id, 'revenue', -1 from t`,
  `insert into billing.webhook (provider, event_id, body_hash, type, reference, status, received_at, settled_at, next_lookup_at)
   select 'sandbox', 'evt_w_' || ${n}, '\\x00', 'payment.paid', 'rl_1q0stored_' || ${n} || '_0', 'done', created_at, created_at, created_at from ${subscriptions}`,
  `insert into billing.setup (id, account_id, provider, customer_key, created_at)
   select 'stp_' || ${n}, account_id, 'sandbox', 'ck_' || ${n}, created_at from ${subscriptions}`,
  `insert into billing.trial_grant (account_id, subscription_id, plan_id, granted_at) select account_id, id, plan_id, created_at from ${subscriptions}`,
]

const numbers = `generate_series(1, ${stored}) g`

const batch = [
  `insert into batch.keyword (workspace_id, key, display, created_at) select 'ws_stored_' || g % 200, 'stored ' || g, 'stored ' || g, now() from ${numbers}`,
  `insert into batch.rank (workspace_id, keyword_id, engine, device, location, day, status, position, searched_depth, checked_at)
   select workspace_id, id, 'naver', 'mobile', 'KR', '2030-01-14'::date - d, 'ranked', 1 + (id + d) % 90, 100, '2030-01-14'::timestamptz - d * interval '1 day'
   from batch.keyword, generate_series(0, 4) d where key like 'stored %'`,
  // One workspace of many keywords, all of which moved.
  `insert into batch.keyword (workspace_id, key, display, created_at) select 'ws_moving', 'moving ' || g, 'moving ' || g, now() from ${numbers}`,
  `insert into batch.rank (workspace_id, keyword_id, engine, device, location, day, status, position, searched_depth, checked_at)
   select workspace_id, id, 'naver', 'mobile', 'KR', '2030-01-14'::date - d, 'ranked', 1 + d, 100, '2030-01-14'
   from batch.keyword, generate_series(0, 9) d where workspace_id = 'ws_moving'`,
  `insert into batch.monthly_volume (key, source, month, volume, volume_min, volume_max, quality, days_observed, updated_at)
   select 'stored ' || g, 'naver', '2029-12-01', g, g, g, 'reported', 31, now() from ${numbers}`,
  `insert into batch.volume_observation (key, source, day, kind, volume, revision)
   select 'stored ' || g, 'naver', '2029-12-01', 'month', g, 1 from ${numbers}`,
  `insert into batch.prediction (workspace_id, keyword_id, engine, device, location, day, model_id, horizon_days, rise, hold, fall, predicted, usable_days, naive_sign, features, contributions, predicted_at, outcome, settled_at)
   select k.workspace_id, k.id, 'naver', 'mobile', 'KR', '2030-01-10', m.id, 1, 0.2, 0.5, 0.3, 'hold', 5, 0, '{}', '{}', now(), 'hold', now()
   from batch.keyword k, (select id from batch.model limit 1) m where k.key like 'stored %'`,
  `insert into batch.run (id, task, trigger, status, queued_at, started_at, finished_at, leased_until)
   select 'run_stored_' || g, 'aggregate_volumes', 'schedule', 'succeeded', '2029-01-01'::timestamptz + g * interval '1 minute', '2029-01-01', '2029-01-01', '2029-01-01' from ${numbers}`,
]

const platform = [
  `insert into platform.audit (at, actor, action, account_id, target) select now(), 'tok_x', 'invoice.print', 'stored_' || g, 'inv_' || g from ${numbers}`,
  `insert into platform.idempotency_key (scope, key, fingerprint, intent, status, created_at) select 'x', sha256(g::text::bytea), '\\x00', 'x' || g, 200, '2030-01-14' from ${numbers}`,
  `insert into platform.rate_window (bucket, hits, admitted) select 'workspace:stored_' || g, array[now()], 1 from ${numbers}`,
  // A token has at most a hundred sessions, so that many sessions come of many tokens.
  `insert into platform.token (id, hash, name, scopes, created_at)
   select 'tok_stored_' || g, sha256(('t' || g)::bytea), 'stored', '{billing:read}', now() from generate_series(1, ${stored / 80}) g`,
  `insert into platform.session (hash, token_id, created_at, expires_at)
   select sha256(('s' || g)::bytea), 'tok_stored_' || 1 + g % ${stored / 80}, now(), now() + interval '1 hour' from ${numbers}`,
]

import type pg from 'pg'
import { storeSubscriptions } from '../stored-subscriptions.ts'
import { batchRows } from './grown-batch.ts'
import { billingRows, subscriptionsAtRest } from './grown-billing.ts'

/** How many rows the tables that grow with customers, days and keywords get. */
export const stored = 8_000

/** Fills every table that grows, with rows at rest: none of them is due, so that a sweep finds only what a test left it. */
export async function grow(db: pg.Pool, modelAccount: string): Promise<void> {
  await storeSubscriptions(db, modelAccount, stored, subscriptionsAtRest)
  const client = await db.connect()
  try {
    // A session may have planned the ledger's triggers when it was a page long, and then reads it whole for every row.
    await client.query('discard plans')
    await client.query('set enable_seqscan = off')
    for (const statement of [...billingRows, ...batchRows(numbers), ...platform, ...sandbox])
      await client.query(statement)
  } finally {
    client.release(true)
  }
  await db.query('analyze')
}

const numbers = `generate_series(1, ${stored}) g`

/** Tables that no number of customers, days or keywords makes long, and why not. */
export const staysShort: Readonly<Record<string, string>> = {
  'platform.alarm': 'what a person must look at',
  'platform.clock': 'one row',
  'platform.freed_job': 'jobs of dead workers',
  'platform.migration': 'a row for each release',
  'platform.secret': 'a handful',
  'platform.sign_in_code': 'links that were made and not used within minutes',
  'platform.vault_key': 'a handful',
  'platform.worker': 'a row for each process',
  'platform.write_probe': 'one row',
  'billing.charging_stop': 'a row for each provider',
  'billing.day_total_until': 'a row for each zone',
  'billing.history_applied': 'a row for each restore',
  'billing.installation': 'one row',
  'billing.plan': 'what is on offer',
  'billing.provider_probe': 'a row for each provider',
  'billing.seller_logo': 'a row for each logo there ever was',
  'billing.sweep_failure': 'what a person must look at',
  'batch.import_progress': 'imports that are under way or were broken off',
  'batch.live_quality': 'a row for each day of which a model spoke',
  'batch.model': 'one a night, none where the data are the same',
  'batch.schedule': 'a row for each task',
  'batch.source': 'a row for each source',
  'batch.volume_horizon': 'one row',
  'sandbox.faults': 'one row',
  'sandbox.secret_key': 'one row',
}

const platform = [
  `insert into platform.audit (at, actor, action, account_id, target) select now(), 'tok_x', 'invoice.print', 'stored_' || g, 'inv_' || g from ${numbers}`,
  `insert into platform.idempotency_key (scope, key, fingerprint, intent, status, created_at) select 'x', sha256(g::text::bytea), '\\x00', 'x' || g, 200, '2030-01-14' from ${numbers}`,
  `insert into platform.rate_window (bucket, hits, admitted) select 'workspace:stored_' || g, array[now()], 1 from ${numbers}`,
  `insert into platform.token (id, hash, name, scopes, created_at)
   select 'tok_stored_' || g, sha256(('t' || g)::bytea), 'stored', '{billing:read}', now() from ${numbers}`,
  // A token has at most a hundred of them.
  `insert into platform.session (hash, token_id, created_at, expires_at)
   select sha256(('s' || g)::bytea), 'tok_stored_' || 1 + g % ${stored / 80}, now(), now() + interval '1 hour' from ${numbers}`,
]

// The book of a provider is somebody else's; that of sandbox mode grows all the same.
const sandbox = [
  `insert into sandbox.payment (id, reference, account_id, billing_key, amount, currency, description, status, created_at, changed_at)
   select 'sp_stored_' || g, 'rl_stored_' || g, 'stored_' || g, 'bk_test_ok', 29000, 'KRW', 'x', 'paid', '2029-12-01', '2029-12-01' from ${numbers}`,
  `insert into sandbox.refund (id, payment_id, reference, amount, status, created_at)
   select 'sr_stored_' || g, 'sp_stored_' || g, 'rf_stored_' || g, 1, 'succeeded', '2029-12-01' from ${numbers}`,
  `insert into sandbox.delivery (event_id, type, reference, happened_at, due_at, status)
   select 'evt_stored_' || g, 'payment.paid', 'rl_stored_' || g, '2029-12-01', '2029-12-01', 'delivered' from ${numbers}`,
  `insert into sandbox.idempotency_key (key, fingerprint, claimed_by, running_until, status, answer, created_at)
   select 'key_stored_' || g, '\\x00', 'x', '2029-12-01', 200, '{}', '2039-01-01' from ${numbers}`,
  `insert into sandbox.wire_object (wire, kind, id, body, created_at)
   select 'stripe', 'payment_method', 'pm_stored_' || g, jsonb_build_object('customer', 'cus_' || g, 'reference', 'rl_' || g), '2029-12-01' from ${numbers}`,
  `insert into sandbox.wire_answer (wire, key, fingerprint, status, created_at)
   select 'stripe', 'key_stored_' || g, 'x', 200, '2039-01-01' from ${numbers}`,
]

/** What differs from the subscription that all are like. They fall due one by one in the month that follows. */
export const subscriptionsAtRest = {
  status: "'active'",
  cancel_at: 'null',
  canceled_at: 'null',
  last_k: '0',
  next_billing_at: "'2030-02-01'::timestamptz + n * interval '2 minutes'",
  anchor: "'2030-01-01'::timestamptz + n * interval '2 minutes'",
}

const subscriptions = `billing.subscription s where s.id like 'sub\\_stored\\_%'`
const payments = `billing.payment where id like 'pay\\_1q0stored\\_%'`
const n = `right(s.id, 8)`
/** As long as what is sealed really is; nobody opens it. */
const sealed = (bytes: number) => `decode(repeat('00', ${bytes}), 'hex')`

/** Three paid months of each stored subscription, with all that was kept of them. */
export const billingRows = [
  `insert into billing.payment_method (id, account_id, subscription_id, provider, purpose, state, sealed, exchanged, issued, key_hash, created_at)
   select 'pm_' || ${n}, account_id, id, 'sandbox', 'first', 'kept', ${sealed(60)}, true, false, sha256(id::bytea), created_at from ${subscriptions}`,
  `insert into billing.payment_method_to_delete (payment_method_id, account_id, provider, sealed, created_at, next_try_at)
   select id, account_id, provider, sealed, created_at, '2040-01-01' from billing.payment_method where id like 'pm\\_00%'`,
  `insert into billing.account_contact (account_id, sealed, updated_at) select account_id, ${sealed(90)}, created_at from ${subscriptions}`,
  `insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start, period_end, issued_at, status, amount_paid, paid_at)
   select 'inv_1q0stored_' || ${n} || '_' || k, account_id, id, k + 1, 'x', amount, currency, '2029-10-01'::timestamptz + k * interval '1 month',
     '2029-11-01'::timestamptz + k * interval '1 month', '2029-10-01'::timestamptz + k * interval '1 month', 'paid', amount, '2029-10-01'::timestamptz + k * interval '1 month'
   from generate_series(0, 2) k, ${subscriptions}`,
  `insert into billing.period (subscription_id, k, start_at, end_at, invoice_id)
   select subscription_id, 100 + number, period_start, period_end, id from billing.invoice where id like 'inv\\_1q0stored\\_%'`,
  `insert into billing.payment (id, provider_reference, invoice_id, attempt, subscription_id, account_id, payment_method_id, provider, amount, currency, status, captured, created_at, sent_at, settled_at)
   select replace(id, 'inv', 'pay'), replace(id, 'inv', 'rl'), id, 1, subscription_id, account_id, 'pm_x', 'sandbox', amount_due, currency, 'succeeded', amount_due, issued_at, issued_at, issued_at
   from billing.invoice where id like 'inv\\_1q0stored\\_%'`,
  `insert into billing.next_action (payment_id, invoice_id, subscription_id, sealed, expires_at)
   select id, invoice_id, subscription_id, ${sealed(90)}, '2040-01-01' from ${payments} and id like '%\\_1'`,
  `insert into billing.refund (id, payment_id, n, provider_reference, invoice_id, account_id, amount, currency, origin, status, created_at, settled_at)
   select replace(id, 'pay', 'ref'), id, 1, replace(id, 'pay', 'rf'), invoice_id, account_id, 1, currency, 'request', 'succeeded', created_at, created_at
   from ${payments} and id like '%\\_0'`,
  `insert into billing.unmatched_settlement (payment_id, n, amount, actor, at)
   select id, 1, 1, 'tok_x', created_at from ${payments} and id like '%\\_0'`,
  `insert into billing.duplicate_payment (provider, provider_id, payment_id, found_at)
   select 'sandbox', 'twice_' || id, id, created_at from ${payments} and id like '%\\_0'`,
  `insert into billing.event (id, type, account_id, subscription_id, occurred_at, data)
   select replace(id, 'inv', 'evt'), 'invoice.paid', account_id, subscription_id, issued_at, jsonb_build_object('invoice_id', id, 'amount', amount_due, 'currency', currency)
   from billing.invoice where id like 'inv\\_1q0stored\\_%'`,
  `with t as (insert into billing.ledger_transfer (cause, account_id, currency, occurred_at)
     select 'payment:' || id, account_id, currency, created_at from ${payments} returning id)
   insert into billing.ledger_entry (transfer_id, book, amount) select id, 'provider', 1 from t union all select id, 'revenue', -1 from t`,
  `insert into billing.day_total (zone, day, currency, paid, refunded)
   select 'Pacific/Chatham', '2029-12-31'::date - g / 4, (array['KRW', 'USD', 'JPY', 'EUR'])[1 + g % 4], g, 0 from generate_series(1, 8000) g`,
  `insert into billing.webhook (provider, event_id, body_hash, type, reference, status, received_at, settled_at, next_lookup_at)
   select 'sandbox', 'evt_w_' || ${n}, sha256(s.id::bytea), 'payment.paid', 'rl_1q0stored_' || ${n} || '_0', 'done', created_at, created_at, created_at from ${subscriptions}`,
  `insert into billing.setup (id, account_id, provider, customer_key, created_at)
   select 'stp_' || ${n}, account_id, 'sandbox', 'ck_' || ${n}, created_at from ${subscriptions}`,
  `insert into billing.trial_grant (account_id, subscription_id, plan_id, granted_at) select account_id, id, plan_id, created_at from ${subscriptions}`,
  `insert into billing.reconciliation (from_at, to_at, status, actor, started_at, finished_at, leased_until)
   select at, at + interval '1 day', 'done', 'tok_x', at, at, at
   from (select '2029-12-01'::timestamptz - g * interval '1 day' as at from generate_series(1, 8000) g) days`,
]

import type { Service } from '../fuzz/service.ts'
import { signStandardWebhook } from '../sign-webhook.ts'

const month = `interval '1 month'`
/** A subscription of those at rest, and what belongs to it. */
const sub = (n: number) => `sub_stored_${String(n).padStart(8, '0')}`

/** Leaves a few of each kind due, so that every sweep has something in hand. */
export async function leaveDue({ app, url, webhookSecret }: Service): Promise<void> {
  const now = app.clock()
  const run = (text: string, values: unknown[] = []) => app.pool.query(text, values)
  const openInvoice = async (n: number, more: string) => {
    await run(
      `insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start, period_end, issued_at, status, attempt_count, dunning, due_at, first_failed_at)
       select 'inv_due_' || $1::int, account_id, id, 89, 'x', amount, currency, $2, $2::timestamptz + ${month}, $2, 'open', 1, ${more}
       from billing.subscription where id = $3`,
      [n, now, sub(n)],
    )
    await run(
      `insert into billing.period (subscription_id, k, start_at, end_at, invoice_id) select subscription_id, 90, period_start, period_end, id from billing.invoice where id = $1`,
      [`inv_due_${n}`],
    )
  }
  /** `columns` and `values` of what is special about it; the rest is as of any attempt. */
  const attempt = (n: number, columns: string, values: string) =>
    run(
      `insert into billing.payment (id, provider_reference, invoice_id, attempt, subscription_id, account_id, payment_method_id, provider, amount, currency, created_at, ${columns})
       select 'pay_due_' || $1::int, 'rl_due_' || $1::int, i.id, 1, s.id, s.account_id, s.payment_method_id, 'sandbox', s.amount, s.currency, $2, ${values}
       from billing.invoice i join billing.subscription s on s.id = i.subscription_id where i.id = 'inv_due_' || $1::int`,
      [n, now],
    )

  // Their invoices are numbered on from those that are stored.
  await run('update billing.account set invoice_count = 90 where id = any ($1)', [
    Array.from({ length: 12 }, (_, at) => `stored_${at + 1}`),
  ])
  // Renewals, a cancellation and a trial that ends without a payment method.
  await run(
    `update billing.subscription set next_billing_at = $1, anchor = $1::timestamptz - ${month}, last_k = 0 where id = any ($2)`,
    [now, [1, 2, 3].map(sub)],
  )
  await run(`update billing.subscription set status = 'canceling', cancel_at = $1 where id = $2`, [
    now,
    sub(4),
  ])
  await run(
    `update billing.subscription set status = 'trialing', payment_method_id = null, trial_ends_at = $1, next_billing_at = $1 where id = $2`,
    [now, sub(5)],
  )
  // An invoice that is charged again, and one that is given up.
  for (const [n, dunning] of [
    [6, 'retry'],
    [7, 'give_up'],
  ] as const) {
    await openInvoice(n, `'${dunning}', $2, $2::timestamptz - interval '8 days'`)
    await attempt(n, 'status, code, sent_at, settled_at', `'failed', 'insufficient_funds', $2, $2`)
    await run(`update billing.subscription set status = 'past_due', last_k = 90 where id = $1`, [sub(n)])
  }
  // Charges: one in doubt, one never sent, and one that waits long because nobody answered.
  for (const n of [8, 9, 10]) await openInvoice(n, 'null, null, null')
  await attempt(8, 'status, sent_at, next_lookup_at', `'unknown', $2, now()`)
  await attempt(9, 'status, next_lookup_at', `'sending', now()`)
  await attempt(
    10,
    'status, sent_at, next_lookup_at, unanswered',
    `'unknown', $2, now() + interval '1 hour', true`,
  )
  await run('delete from billing.provider_probe')
  // Of what was paid: a dispute that is open, and a refund that was not sent.
  await run(
    `update billing.payment set dispute_status = 'open', dispute_amount = 1, dispute_opened_at = $1, dispute_lookup_at = $1
     where id = 'pay_1q0stored_00000011_2'`,
    [now],
  )
  await run(
    `insert into billing.refund (id, payment_id, n, provider_reference, invoice_id, account_id, amount, currency, origin, status, step, created_at, next_lookup_at)
     select 'ref_due', id, 1, billing.refund_reference(provider_reference, 1), invoice_id, account_id, 1, currency, 'request', 'pending', 'queued', $1, now()
     from billing.payment where id = 'pay_1q0stored_00000012_2'`,
    [now],
  )
  await run(`update billing.payment set refund_pending = 1 where id = 'pay_1q0stored_00000012_2'`)
  // Payment methods, sealed as they are and not the one that all at rest share: one whose request is gone, and one that nobody uses any more.
  const methodsOf = (status: string) =>
    `from billing.payment_method m join billing.subscription s on s.id = m.subscription_id
     where m.state = 'kept' and m.id not like 'pm\\_00%' and s.status = '${status}' and s.id not like 'sub\\_stored%' order by m.id desc limit 1`
  await run(
    `update billing.payment_method set state = 'pending', purpose = 'replacement', next_lookup_at = now()
     where id = (select m.id ${methodsOf('active')})`,
  )
  await run(
    `insert into billing.payment_method_to_delete (payment_method_id, account_id, provider, sealed, key_hash, created_at, next_try_at)
     select m.id, m.account_id, m.provider, m.sealed, m.key_hash, m.created_at, now() ${methodsOf('canceled')}
     on conflict (payment_method_id) do update set next_try_at = now()`,
  )
  // A notification that waits, one whose body is old, and a failure of a sweep that there no longer is.
  const body = Buffer.from(
    JSON.stringify({
      type: 'payment.paid',
      timestamp: now.toISOString(),
      data: { reference: 'rl_1q0stored_00000015_2' },
    }),
  )
  const headers = signStandardWebhook(webhookSecret, 'evt_due', body, new Date())
  const posted = await fetch(`${url}/api/billing/webhook`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: new Uint8Array(body),
  })
  if (posted.status !== 200) throw new Error(`The notification was answered ${posted.status}.`)
  await run(`update billing.webhook set next_lookup_at = now() where event_id = 'evt_due'`)
  await run(
    `update billing.webhook set sealed = '\\x00', received_at = $1::timestamptz - interval '91 days' where event_id = 'evt_w_00000016'`,
    [now],
  )
  await run(
    `insert into billing.sweep_failure (sweep, subject, reason, failures, first_at, last_at, next_try_at)
     values ('of_long_ago', 'x', 'Error', 1, $1, $1, now())`,
    [now],
  )
}

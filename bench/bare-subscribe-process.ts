import { createHash } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import pg from 'pg'
import { newId } from '../src/platform/id.ts'

/**
 * The floor of subscribing: a bare handler that takes the same three durable steps about the same charge, each in one round
 * trip: the key and the rows of the opening, what came of the charge, and the answer that is kept. No token, no limit, no
 * schema, no rules, nothing is sealed, nothing is looked at again.
 */
const [sandboxUrl, sandboxKey] = process.argv.slice(2)
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: 20 })
const http = fastify()

type Asked = { account_id: string; payment_method: { billing_key: string } }

http.post('/subscribe', async (request, reply) => {
  const { account_id: account, payment_method } = request.body as Asked
  const key = createHash('sha256').update(String(request.headers['idempotency-key'])).digest()
  const prefixes = ['sub_', 'pm_', 'inv_', 'pay_', 'evt_', 'evt_'] as const
  const ids = prefixes.map((prefix) => newId(prefix, new Date()))
  const [subscription, method, invoice, payment, created, paid] = ids
  const reference = `rl_${payment}`
  await pool.query({
    name: 'open',
    text: opening,
    values: [
      key,
      account,
      subscription,
      method,
      invoice,
      payment,
      reference,
      created,
      Buffer.from(payment_method.billing_key),
    ],
  })
  const charged = await fetch(`${sandboxUrl}/v1/charges`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${sandboxKey}`,
      'idempotency-key': `"${reference}"`,
    },
    body: JSON.stringify({
      reference,
      billing_key: payment_method.billing_key,
      account_id: account,
      amount: 29000,
      currency: 'KRW',
      description: 'Pro',
    }),
  })
  if (!charged.ok) throw new Error(`The charge was answered ${charged.status}.`)
  const { id } = (await charged.json()) as { id: string }
  await pool.query({
    name: 'settle',
    text: settling,
    values: [account, subscription, method, invoice, payment, id, `payment:${payment}`, paid],
  })
  const answer = JSON.stringify({ success: true, data: { subscription_id: subscription, status: 'active' } })
  await pool.query({
    name: 'keep',
    text: `update platform.idempotency_key set status = 201, sealed = $2, leased_until = null where scope = 'bare' and key = $1`,
    values: [key, Buffer.from(answer)],
  })
  return reply.code(201).type('application/json').send(answer)
})

const opening = `
  with claimed as (
    insert into platform.idempotency_key (scope, key, fingerprint, intent, subject, leased_until, created_at)
    values ('bare', $1, $1, $6, $3, now() + interval '1 minute', now())
  ),
  account as (insert into billing.account (id, time_zone, invoice_count, created_at) values ($2, 'UTC', 1, now())),
  subscription as (
    insert into billing.subscription (id, account_id, plan_id, description, amount, currency, interval_unit, interval_count, time_zone,
      status, anchor, last_k, next_billing_at, period_start, period_end, payment_method_id, created_at)
    values ($3, $2, 'pro-monthly', 'Pro', 29000, 'KRW', 'month', 1, 'UTC', 'incomplete', now(), 0, now() + interval '1 month',
      now(), now() + interval '1 month', $4, now())
  ),
  method as (
    insert into billing.payment_method (id, account_id, subscription_id, provider, purpose, state, sealed, exchanged, key_hash, created_at)
    values ($4, $2, $3, 'sandbox', 'first', 'pending', $9, true, $1, now())
  ),
  invoice as (
    insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start, period_end, issued_at, status, attempt_count)
    values ($5, $2, $3, 1, 'Pro', 29000, 'KRW', now(), now() + interval '1 month', now(), 'open', 1)
  ),
  period as (
    insert into billing.period (subscription_id, k, start_at, end_at, invoice_id) values ($3, 0, now(), now() + interval '1 month', $5)
  ),
  noted as (
    insert into platform.audit (at, actor, action, account_id, target) values (now(), 'bare', 'subscription.subscribe', $2, $3)
  ),
  told as (
    insert into billing.event (id, type, account_id, subscription_id, occurred_at, data) values ($8, 'subscription.created', $2, $3, now(), '{}')
  )
  insert into billing.payment (id, provider_reference, invoice_id, attempt, subscription_id, account_id, payment_method_id, provider,
    amount, currency, status, created_at, sent_at, sending_until, next_lookup_at)
  values ($6, $7, $5, 1, $3, $2, $4, 'sandbox', 29000, 'KRW', 'sending', now(), now(), now() + interval '1 minute', now() + interval '1 minute')`

const settling = `
  with taken as (
    update billing.payment set status = 'succeeded', provider_id = $6, captured = amount, settled_at = now(), sending_until = null,
      next_lookup_at = null
    where id = $5
  ),
  invoiced as (update billing.invoice set status = 'paid', amount_paid = amount_due, paid_at = now() where id = $4),
  started as (update billing.subscription set status = 'active' where id = $2),
  kept as (update billing.payment_method set state = 'kept', last4 = '4242' where id = $3),
  posted as (
    insert into billing.ledger_transfer (cause, account_id, currency, occurred_at) values ($7, $1, 'KRW', now()) returning id
  ),
  entered as (
    insert into billing.ledger_entry (transfer_id, book, amount)
    select id, book, amount from posted, (values ('provider', 29000), ('revenue', -29000)) as e (book, amount)
  )
  insert into billing.event (id, type, account_id, subscription_id, occurred_at, data) values ($8, 'invoice.paid', $1, $2, now(), '{}')`

await http.listen({ host: '127.0.0.1', port: 0 })
process.send!({ port: (http.server.address() as AddressInfo).port })

import { afterEach, beforeEach, expect, test } from 'vitest'
import { sendingLeaseMs } from '../../src/billing/payments/payment-rows.ts'
import { requestRefund } from '../../src/billing/refunds/request-refund.ts'
import { openSlowProvider } from '../slow-provider.ts'
import { makeDue, storeSubscriptions } from '../stored-subscriptions.ts'
import { openWorld, type World } from '../world.ts'
import { type ServiceProcess, startService } from './service-process.ts'

let world: World
let provider: Awaited<ReturnType<typeof openSlowProvider>>
let worker: ServiceProcess | undefined

beforeEach(async () => {
  world = await openWorld()
  provider = await openSlowProvider(world.app.sandboxUrl!, 500)
})
afterEach(async () => {
  worker?.child.kill('SIGKILL')
  worker = undefined
  provider.close()
  await world.close()
})

const timeoutMs = 3_000

function work(): ServiceProcess {
  worker = startService(['work'], {
    ...world.environment,
    PROVIDER_BASE_URL: provider.url,
    PROVIDER_TIMEOUT_MS: String(timeoutMs),
  })
  return worker
}

async function subscribe(accountId: string): Promise<string> {
  const answer = await world.post('/api/billing/subscribe', {
    account_id: accountId,
    plan_id: 'pro-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  })
  expect(answer.status).toBe(201)
  return answer.body.data.subscription_id
}

async function firstInvoice(accountId: string): Promise<string> {
  const { body } = await world.get(`/api/billing/invoices?account_id=${accountId}`)
  return body.data.invoices.at(-1).invoice_id
}

const one = async (text: string, values: unknown[] = []) =>
  (await world.query<{ v: unknown }>(text, values))[0]?.v

/** A wave that would keep the provider's places for `charges` busy for as long as the test runs. */
async function startWave(count: number): Promise<void> {
  await subscribe('model')
  await storeSubscriptions(world.app.pool, 'model', count)
  await makeDue(world.app.pool, 'stored_%', new Date(Date.now() - 60_000))
}

const stillDue = () =>
  one(
    `select count(*)::int as v from billing.subscription where account_id like 'stored_%' and next_billing_at <= now()`,
  )

test('in a wave of renewals a lost answer, a refund, a cancellation and a notification all have their turn', {
  retry: 3,
}, async () => {
  await startWave(3_000)
  const canceled = await subscribe('cancels')
  await world.post('/api/billing/cancel', { subscription_id: canceled })
  await subscribe('refunds')
  const refundId = await askForRefund('refunds')
  await subscribe('notified')
  // Its renewal is the first of all, and the answer to its charge is lost.
  await subscribe('doubtful')
  await makeDue(world.app.pool, 'doubtful', new Date(Date.now() - 120_000))
  provider.state.losesAnswer = ({ what, body }) => what === 'POST /v1/charges' && body.includes('"doubtful"')

  const started = work()
  await started.event('service.started')
  await expect.poll(() => provider.charges().length).toBeGreaterThan(64)
  await world.query(`update billing.subscription set cancel_at = now() + interval '1 second' where id = $1`, [
    canceled,
  ])
  await world.query(
    `insert into billing.webhook (provider, event_id, body_hash, type, claim, reference, status, received_at, next_lookup_at)
     select p.provider, 'evt_1', '\\x00', 'payment.updated', 'changed', p.provider_reference, 'waiting', now(), now()
     from billing.payment p where p.account_id = 'notified'`,
  )

  const settled = () =>
    one(
      `select array[
      (select status from billing.invoice where account_id = 'doubtful' order by id desc limit 1),
      (select status from billing.refund where id = $1),
      (select status from billing.subscription where id = $2),
      (select status from billing.webhook where event_id = 'evt_1')] as v`,
      [refundId, canceled],
    )
  await expect.poll(settled, { interval: 100 }).toEqual(['paid', 'succeeded', 'canceled', 'done'])
  // All of that happened while the wave goes on.
  expect(await stillDue()).toBeGreaterThan(1_000)
})

test('asked to stop in a wave, a process begins no call any more, ends soon, and what it had claimed is charged once', {
  retry: 3,
}, async () => {
  await startWave(200)
  const stopping = work()
  await expect.poll(() => provider.charges().length).toBeGreaterThan(64)
  const stoppedAt = performance.now()
  const ended = stopping.stop('SIGTERM')
  await stopping.event('service.stopping')
  const heardAt = performance.now()
  expect(await ended).toBe(0)
  expect(performance.now() - stoppedAt).toBeLessThan(timeoutMs + 5_000)
  // What left the process before it heard of the signal may arrive a moment later.
  expect(provider.calls.filter(({ at }) => at > heardAt + 100)).toEqual([])
  expect(await stillDue()).toBeGreaterThan(0)
  // Nothing is left in doubt: what was on its way has its outcome, and the rest is known not to have been sent.
  expect(
    await world.query(`select status, sent_at is null as unsent, count(*)::int from billing.payment
                       where status <> 'succeeded' and sent_at is not null group by 1, 2`),
  ).toEqual([])

  provider.state.delayMs = 0
  const next = work()
  await next.event('service.started')
  await expect
    .poll(() =>
      one(
        `select count(*)::int as v from billing.invoice where account_id like 'stored_%' and status = 'paid'`,
      ),
    )
    .toBe(200)
  expect(
    await one(
      `select count(distinct account_id)::int as v from sandbox.payment where account_id like 'stored_%'`,
    ),
  ).toBe(200)
  expect(await one(`select count(*)::int as v from sandbox.payment where account_id like 'stored_%'`)).toBe(
    200,
  )
  expect(await next.stop()).toBe(0)
})

/** Written and not sent: nobody but the worker's sweep does it. */
async function askForRefund(accountId: string): Promise<string> {
  const invoiceId = await firstInvoice(accountId)
  const asked = { invoiceId, amount: 100, reason: null, note: null, actor: 'test', mayTouch: () => true }
  const { db, clock, terms } = world.app.billing
  const leaseMs = sendingLeaseMs(terms)
  const refundId = await db.transaction().execute((tx) => requestRefund(tx, clock(), asked, leaseMs))
  await world.query('update billing.refund set next_lookup_at = now() where id = $1', [refundId])
  return refundId
}

import { afterEach, beforeEach, expect, test } from 'vitest'
import { liftChargingStop } from '../../src/billing/charging-stop.ts'
import { listAlarms } from '../../src/platform/alarm.ts'
import { type Answer, openWorld, type World } from '../world.ts'

let world: World
beforeEach(async () => {
  world = await openWorld({ now: '2026-11-14T00:00:00Z', worker: true })
})
afterEach(() => world.close())

let accounts = 0
const newAccount = () => `acct_${++accounts}`

function subscribe(card: string, accountId = newAccount(), key?: string): Promise<Answer> {
  const method = card.startsWith('ak_') ? { auth_key: card, customer_key: 'cust_1' } : { billing_key: card }
  return world.post(
    '/api/billing/subscribe',
    { account_id: accountId, plan_id: 'starter-monthly', payment_method: method },
    key === undefined ? {} : { headers: { 'idempotency-key': key } },
  )
}

const invoicesOf = async (accountId: string) =>
  (await world.get(`/api/billing/invoices?account_id=${accountId}`)).body.data.invoices

/** The provider's own book, of one account. */
async function taken(
  accountId: string,
): Promise<{ status: string; amount: number; amount_refunded: number }[]> {
  const book = (await world.get('/api/sandbox/provider/payments?limit=100')).body.data.payments
  return book.filter((payment: { account_id: string }) => payment.account_id === accountId)
}

async function until<T>(read: () => Promise<T>, isThere: (value: T) => boolean): Promise<T> {
  const deadline = Date.now() + 180_000
  for (;;) {
    const value = await read()
    if (isThere(value) || Date.now() > deadline) return value
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

test('each test card of the sandbox does to a subscription what its name says', async () => {
  const answers: string[] = []
  for (const card of [
    'bk_test_ok',
    'ak_test_ok',
    'bk_test_insufficient_funds',
    'bk_test_stolen',
    'bk_test_expired',
    'bk_test_slow',
    'bk_test_nobody',
    'ak_test_nobody',
    'bk_test_timeout_after_charge',
  ]) {
    const { status, body } = await subscribe(card)
    const { error, data } = body
    const told = [error?.code, error?.details?.[0]?.code, data?.payment_method?.last4]
    answers.push([card, status, ...told].filter(Boolean).join(' '))
  }
  expect(answers).toEqual([
    'bk_test_ok 201 4242',
    'ak_test_ok 201 4242',
    'bk_test_insufficient_funds 402 payment_declined insufficient_funds',
    'bk_test_stolen 402 payment_declined lost_or_stolen',
    'bk_test_expired 402 payment_declined expired_card',
    'bk_test_slow 201 7726',
    'bk_test_nobody 422 billing_key_invalid',
    'ak_test_nobody 422 billing_key_invalid',
    'bk_test_timeout_after_charge 201 0005',
  ])
})

test('an error before the charge leaves it incomplete, nothing is taken, and it ends when it cannot arrive any more', async () => {
  const account = newAccount()
  const first = await subscribe('bk_test_error_before_charge', account, 'error-key')
  expect(first).toMatchObject({ status: 202, body: { data: { status: 'incomplete' } } })
  const moved = await world.advanceBy('P2D')
  expect(moved.status).toBe(200)
  const { body } = await world.get(`/api/billing/subscriptions/${first.body.data.subscription_id}`)
  expect(body.data).toMatchObject({ status: 'canceled', cancel_reason: 'provider_error' })
  expect(await invoicesOf(account)).toMatchObject([{ status: 'void' }])
  expect((await taken(account)).filter(({ status }) => status === 'paid')).toEqual([])
})

test('refunds that fail or time out at the provider end as what they are', async () => {
  const failing = newAccount()
  await subscribe('bk_test_refund_fails', failing)
  const [invoice] = await invoicesOf(failing)
  expect(await world.post('/api/billing/refund', { invoice_id: invoice.invoice_id })).toMatchObject({
    status: 402,
    body: { error: { code: 'refund_declined' } },
  })
  const silent = newAccount()
  await subscribe('bk_test_refund_timeout', silent)
  const [other] = await invoicesOf(silent)
  expect(
    await world.post('/api/billing/refund', { invoice_id: other.invoice_id, amount: 400 }),
  ).toMatchObject({
    status: 200,
    body: { data: { status: 'succeeded' } },
  })
  expect(await taken(silent)).toMatchObject([{ amount: 9900, amount_refunded: 400 }])
})

test('money given back in the provider’s own console is recorded with the refund that it stood in the way of', async () => {
  const account = newAccount()
  await subscribe('bk_test_ok', account)
  const [{ invoice_id, payments }] = await invoicesOf(account)
  const byHand = await fetch(`${world.app.sandboxUrl}/v1/charges/${payments[0].reference}/refunds`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${world.app.sandboxKey}`,
      'idempotency-key': 'by-hand',
      'content-type': 'application/json',
    },
    body: JSON.stringify({ reference: 'by-hand', amount: 4000 }),
  })
  expect(byHand.status).toBe(200)
  const refund = () => world.post('/api/billing/refund', { invoice_id, amount: 1900 })
  expect(await refund()).toMatchObject({ status: 402, body: { error: { code: 'refund_declined' } } })
  expect(await invoicesOf(account)).toMatchObject([{ amount_refunded: 4000 }])
  expect(await refund()).toMatchObject({ status: 200, body: { data: { status: 'succeeded' } } })
  expect(await invoicesOf(account)).toMatchObject([{ amount_refunded: 5900 }])
  expect(await taken(account)).toMatchObject([{ amount: 9900, amount_refunded: 5900 }])
})

test('what was unknown settles by itself once the provider answers again', async () => {
  const account = newAccount()
  await world.post('/api/sandbox/provider/faults', { down: true })
  const first = await subscribe('bk_test_ok', account, 'down-key')
  expect(first).toMatchObject({ status: 202, body: { data: { status: 'incomplete' } } })
  await world.post('/api/sandbox/provider/faults', {})
  const [invoice] = await until(
    () => invoicesOf(account),
    ([one]) => one.status !== 'open',
  )
  expect(invoice).toMatchObject({ status: 'paid', attempt_count: 1 })
  expect(await taken(account)).toHaveLength(1)
  expect(await subscribe('bk_test_ok', account, 'down-key')).toMatchObject({
    status: 201,
    body: { data: { status: 'active', subscription_id: first.body.data.subscription_id } },
  })
})

test('a year of the sandbox clock renews month by month, and both books agree', async () => {
  const account = newAccount()
  const started = await subscribe('bk_test_ok', account)
  const doomed = await subscribe('bk_test_fails_on_renewal')
  const moved = await world.advanceBy('P1Y')
  expect(moved).toMatchObject({ status: 200, body: { data: { unsettled: 0 } } })
  expect(await invoicesOf(account)).toHaveLength(13)
  expect(await taken(account)).toHaveLength(13)
  const status = async (answer: Answer) =>
    (await world.get(`/api/billing/subscriptions/${answer.body.data.subscription_id}`)).body.data.status
  expect(await status(started)).toBe('active')
  expect(await status(doomed)).toBe('canceled')
  const [ours] = await world.query<{ sum: string }>(
    `select sum(amount)::text as sum from billing.ledger_entry where book = 'provider'`,
  )
  const { payments } = (await world.get('/api/sandbox/provider/payments?limit=100')).body.data
  const theirs = payments
    .filter((one: { status: string }) => one.status === 'paid')
    .reduce((sum: number, one: { amount: number }) => sum + one.amount, 0)
  expect(Number(ours!.sum)).toBe(theirs)
})

test('a revoked secret key stops charging, over HTTP and with an alarm; nobody pays for it', async () => {
  const account = newAccount()
  const faults = (body: object) => world.post('/api/sandbox/provider/faults', body)
  await faults({ refuse_credentials: true })
  const body = {
    account_id: account,
    plan_id: 'starter-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  }
  const refused = await world.post('/api/billing/subscribe', body)
  expect([refused.status, refused.body.error.code]).toEqual([503, 'provider_unavailable'])
  await faults({})
  // The key works again, and still nothing is charged until somebody has looked.
  expect((await world.post('/api/billing/subscribe', body)).status).toBe(503)
  expect(await taken(account)).toEqual([])
  expect(await listAlarms(world.app.billing.db, 9)).toMatchObject([
    { kind: 'credentials_refused', subject: 'sandbox' },
  ])
  expect(await liftChargingStop(world.app.billing)).toBe(true)
  await expect.poll(async () => (await world.post('/api/billing/subscribe', body)).status).toBe(201)
  expect(await listAlarms(world.app.billing.db, 9)).toEqual([])
  expect(await taken(account)).toMatchObject([{ amount: 9900 }])
})

import { afterEach, expect, test } from 'vitest'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

test('a subscription lives a year, is refunded in two parts and ends a minute before its next billing date', async () => {
  world = await openBillingWorld({ now: '2026-01-31T09:00:00+09:00' })
  const started = await world.subscribe('acct_1')
  expect(started.status).toBe(201)
  expect(started.data).toMatchObject({
    account_id: 'acct_1',
    plan_id: 'starter-monthly',
    amount: 9900,
    currency: 'KRW',
    interval: 'month',
    interval_count: 1,
    timezone: 'Asia/Seoul',
    status: 'active',
    next_billing_at: '2026-02-28T09:00:00.000+09:00',
    current_period_start: '2026-01-31T09:00:00.000+09:00',
    current_period_end: '2026-02-28T09:00:00.000+09:00',
    trial_ends_at: null,
    cancel_at: null,
    canceled_at: null,
    cancel_reason: null,
    payment_method: { brand: 'test', last4: '4242', expires: '12/2030' },
    created_at: '2026-01-31T09:00:00.000+09:00',
    access: true,
    allowed_actions: ['cancel', 'change_payment_method'],
  })
  expect(await world.books()).toEqual({ provider: 9900, revenue: -9900 })

  await world.advanceTo('2027-01-31T09:00:00+09:00')
  const invoices = await world.invoices('acct_1')
  expect(invoices).toHaveLength(13)
  expect(
    invoices
      .map((one: { period_start: string }) => one.period_start.slice(0, 10))
      .reverse()
      .slice(0, 4),
  ).toEqual(['2026-01-31', '2026-02-28', '2026-03-31', '2026-04-30'])
  expect(invoices.map((one: { number: string }) => one.number).reverse()).toEqual(
    Array.from({ length: 13 }, (_, index) => `acct_1-${String(index + 1).padStart(6, '0')}`),
  )
  expect(new Set(invoices.map((one: { status: string }) => one.status))).toEqual(new Set(['paid']))
  expect(await world.books()).toEqual({ provider: 13 * 9900, revenue: -13 * 9900 })
  expect(world.script.balance('KRW')).toBe(13n * 9900n)

  const invoiceId = invoices[0].invoice_id
  const part = await world.post('/refund', {
    invoice_id: invoiceId,
    amount: 900,
    reason: 'other',
    note: 'a word',
  })
  expect(part).toMatchObject({
    status: 200,
    data: { invoice_id: invoiceId, amount: 900, currency: 'KRW', status: 'succeeded' },
  })
  expect((await world.get(`/invoices/${invoiceId}`)).data).toMatchObject({
    status: 'partially_refunded',
    amount_refunded: 900,
  })
  const rest = await world.post('/refund', { invoice_id: invoiceId })
  expect(rest).toMatchObject({ status: 200, data: { amount: 9000, status: 'succeeded' } })
  expect((await world.get(`/invoices/${invoiceId}`)).data).toMatchObject({
    status: 'refunded',
    amount_refunded: 9900,
  })
  expect(await world.post('/refund', { invoice_id: invoiceId })).toMatchObject({
    status: 409,
    body: { error: { code: 'nothing_to_refund' } },
  })
  expect(await world.books()).toEqual({ provider: 12 * 9900, revenue: -13 * 9900, refunds: 9900 })
  expect(world.script.balance('KRW')).toBe(12n * 9900n)

  const id = started.data.subscription_id
  const canceled = await world.post('/cancel', { subscription_id: id, reason: 'too dear' })
  expect(canceled).toMatchObject({
    status: 200,
    data: {
      status: 'canceling',
      cancel_at: '2027-02-28T08:59:00.000+09:00',
      next_billing_at: '2027-02-28T09:00:00.000+09:00',
      cancel_reason: 'too dear',
      allowed_actions: ['resume', 'change_payment_method'],
    },
  })
  expect((await world.post('/cancel', { subscription_id: id })).data.status).toBe('canceling')
  await world.advanceTo('2027-02-28T08:58:59+09:00')
  expect((await world.subscription(id)).status).toBe('canceling')
  await world.advanceTo('2027-06-01T00:00:00+09:00')
  expect(await world.subscription(id)).toMatchObject({
    status: 'canceled',
    canceled_at: '2027-02-28T08:59:00.000+09:00',
    next_billing_at: null,
    cancel_reason: 'too dear',
    access: false,
    allowed_actions: [],
  })
  expect(await world.invoices('acct_1')).toHaveLength(13)
  expect(await world.post('/cancel', { subscription_id: id })).toMatchObject({
    status: 409,
    body: { error: { code: 'already_canceled' } },
  })
})

test('a declined first charge leaves a canceled subscription and a void invoice, and the same answer for good', async () => {
  world = await openBillingWorld()
  world.script.declineCard('bk_test_poor', 'insufficient_funds')
  const declined = await world.subscribe('acct_1', { card: 'bk_test_poor', key: 'k1' })
  expect(declined).toMatchObject({
    status: 402,
    body: { error: { code: 'payment_declined', details: [{ code: 'insufficient_funds' }] } },
  })
  const again = await world.subscribe('acct_1', { card: 'bk_test_poor', key: 'k1' })
  expect(again.text).toBe(declined.text)
  expect(again.headers['idempotent-replayed']).toBe('true')

  expect((await world.get('/subscriptions?account_id=acct_1')).data.subscriptions).toMatchObject([
    { status: 'canceled', cancel_reason: 'payment_declined', access: false },
  ])
  expect(await world.invoices('acct_1')).toMatchObject([
    { status: 'void', amount_paid: 0, payments: [{ status: 'failed', failure_code: 'insufficient_funds' }] },
  ])
  expect(await world.books()).toEqual({})
  expect((await world.subscribe('acct_1')).status).toBe(201)
})

test('what the provider refuses, or cannot be asked, leaves nothing alive and frees the key', async () => {
  world = await openBillingWorld()
  expect(await world.subscribe('acct_1', { card: 'bk_test_nobody', key: 'k' })).toMatchObject({
    status: 422,
    body: { error: { code: 'billing_key_invalid' } },
  })
  world.script.nextCharges({ kind: 'not_sent' }, { kind: 'refuse', code: 'provider_error' })
  const away = await world.subscribe('acct_1', { key: 'k2' })
  expect(away).toMatchObject({ status: 503, body: { error: { code: 'provider_unavailable' } } })
  expect(Number(away.headers['retry-after'])).toBeGreaterThan(0)
  expect(await world.subscribe('acct_1', { key: 'k2' })).toMatchObject({
    status: 502,
    body: { error: { code: 'provider_error' } },
  })
  expect((await world.subscribe('acct_1', { key: 'k2' })).status).toBe(201)
  expect(await world.subscribe('acct_1', { plan: 'nothing' })).toMatchObject({
    status: 404,
    body: { error: { code: 'plan_not_found' } },
  })
  await world.ask('PUT', '/plans/yen', { name: 'Yen', amount: 100, currency: 'JPY', interval: 'month' })
  expect(await world.subscribe('acct_2', { plan: 'yen' })).toMatchObject({
    status: 422,
    body: { error: { code: 'currency_not_supported' } },
  })
})

test('a hundred equal requests with one key make one subscription and one charge', async () => {
  world = await openBillingWorld()
  const replies = await Promise.all(
    Array.from({ length: 100 }, () => world.subscribe('acct_1', { key: 'same' })),
  )
  const codes = replies.map(({ status, body }) => `${status} ${body.error?.code ?? ''}`)
  expect(codes.filter((code) => code !== '201 ' && code !== '409 request_in_progress')).toEqual([])
  expect(new Set(replies.filter(({ status }) => status === 201).map(({ text }) => text)).size).toBe(1)
  expect(world.script.book.size).toBe(1)
  expect((await world.subscribe('acct_1', { key: 'same' })).status).toBe(201)
  expect(await world.subscribe('acct_1', { key: 'same', plan: 'pro-monthly' })).toMatchObject({
    status: 422,
    body: { error: { code: 'idempotency_key_reused' } },
  })
  const others = await Promise.all(
    Array.from({ length: 20 }, (_, n) => world.subscribe('acct_1', { key: `other${n}` })),
  )
  expect(new Set(others.map(({ body }) => body.error?.code))).toEqual(new Set(['subscription_exists']))
  expect(world.script.book.size).toBe(1)
})

test('twenty different keys at once still start one subscription only', async () => {
  world = await openBillingWorld()
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, n) => world.subscribe('acct_1', { key: `k${n}` })),
  )
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(replies.filter(({ body }) => body.error?.code === 'subscription_exists')).toHaveLength(19)
  expect(world.script.book.size).toBe(1)
})

test('editing a plan or a zone changes no running subscription', async () => {
  world = await openBillingWorld()
  const { data } = await world.subscribe('acct_1')
  await world.ask('PUT', '/plans/starter-monthly', {
    name: 'Dearer',
    amount: 50_000,
    currency: 'KRW',
    interval: 'year',
  })
  await world.ask('PUT', '/accounts/acct_1', { timezone: 'America/New_York' })
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect(await world.subscription(data.subscription_id)).toMatchObject({
    amount: 9900,
    interval: 'month',
    timezone: 'Asia/Seoul',
    next_billing_at: '2026-05-05T09:00:00.000+09:00',
  })
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ amount_due: 9900, status: 'paid' })
  expect((await world.subscribe('acct_2')).data).toMatchObject({ amount: 50_000, interval: 'year' })
})

test('a cancellation can be taken back until it ran', async () => {
  world = await openBillingWorld()
  const id = (await world.subscribe('acct_1')).data.subscription_id
  expect(await world.post('/resume', { subscription_id: id })).toMatchObject({
    status: 409,
    body: { error: { code: 'not_canceling' } },
  })
  await world.post('/cancel', { subscription_id: id })
  expect(await world.post('/resume', { subscription_id: id })).toMatchObject({
    status: 200,
    data: { status: 'active', cancel_at: null, cancel_reason: null },
  })
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect(await world.invoices('acct_1')).toHaveLength(2)
})

test('with less than the lead left a cancellation acts at once, and a late worker charges nothing', async () => {
  world = await openBillingWorld()
  const id = (await world.subscribe('acct_1')).data.subscription_id
  world.skipTo('2026-04-05T08:59:30+09:00')
  expect((await world.post('/cancel', { subscription_id: id })).data.status).toBe('canceled')

  const late = (await world.subscribe('acct_2')).data.subscription_id
  world.skipTo('2026-05-07T00:00:00+09:00')
  expect((await world.post('/cancel', { subscription_id: late })).data.status).toBe('canceled')
  await world.runDue()
  expect(world.script.book.size).toBe(2)
})

test('an outage of a hundred days charges the newest period and holds the others', async () => {
  world = await openBillingWorld()
  const id = (await world.subscribe('acct_1')).data.subscription_id
  world.skipTo('2026-06-13T09:00:00+09:00')
  await world.runDue()
  const invoices = (await world.invoices('acct_1')).reverse()
  expect(
    invoices.map(
      (one: { issued_at: string; status: string; hold: string | null; next_attempt_at: string | null }) => [
        one.issued_at.slice(0, 10),
        one.status,
        one.hold,
        one.next_attempt_at,
      ],
    ),
  ).toEqual([
    ['2026-03-05', 'paid', null, null],
    ['2026-04-05', 'open', 'missed', null],
    ['2026-05-05', 'open', 'missed', null],
    ['2026-06-05', 'paid', null, null],
  ])
  expect(await world.subscription(id)).toMatchObject({
    status: 'active',
    next_billing_at: '2026-07-05T09:00:00.000+09:00',
    current_period_start: '2026-06-05T09:00:00.000+09:00',
  })
  expect(world.script.book.size).toBe(2)
})

test('what is malformed is refused with every reason named', async () => {
  world = await openBillingWorld()
  const good = {
    account_id: 'acct_1',
    plan_id: 'starter-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  }
  const details = async (body: object) => {
    const reply = await world.post('/subscribe', body)
    expect([reply.status, reply.body.error.code]).toEqual([400, 'validation_failed'])
    return reply.body.error.details.map(({ path, code }: { path: string; code: string }) => `${path} ${code}`)
  }
  expect(await details({ ...good, plan_id: undefined })).toEqual(['plan_id required'])
  expect(await details({ ...good, color: 'red' })).toEqual(['color unknown_field'])
  expect(await details({ ...good, account_id: 'a b' })).toEqual(['account_id wrong_form'])
  expect(await details({ ...good, payment_method: {} })).toContain('payment_method not_allowed')
  expect(await details({ ...good, payment_method: { billing_key: 7 } })).toContain(
    'payment_method not_allowed',
  )
  expect(await details({ ...good, timezone: 'Moon/Base' })).toEqual(['timezone unknown_zone'])
  expect(await details({ ...good, customer: { email: 'nobody' } })).toEqual(['customer.email wrong_form'])
  for (const id of ['sub_1', 'inv_1', '../x', `sub_${'0'.repeat(26)}`]) {
    expect((await world.get(`/subscriptions/${encodeURIComponent(id)}`)).body.error.code).toBe(
      'subscription_not_found',
    )
    expect((await world.post('/cancel', { subscription_id: id })).status).toBe(404)
  }
  expect((await world.get('/invoices?from=2026-01-01')).status).toBe(400)
  expect((await world.get('/invoices?limit=101')).status).toBe(400)
  expect((await world.get('/invoices?cursor=nonsense')).status).toBe(400)
})

test('lists are paged newest first without losing or doubling a row', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  await world.advanceTo('2026-09-05T09:00:00+09:00')
  const all = (await world.invoices('acct_1')).map((one: { invoice_id: string }) => one.invoice_id)
  const seen: string[] = []
  let cursor = ''
  do {
    const { data } = await world.get(`/invoices?account_id=acct_1&limit=3${cursor}`)
    seen.push(...data.invoices.map((one: { invoice_id: string }) => one.invoice_id))
    cursor = data.next_cursor === null ? '' : `&cursor=${data.next_cursor}`
  } while (cursor !== '')
  expect(seen).toEqual(all)
  const from = encodeURIComponent('2026-05-05T09:00:00+09:00')
  const to = encodeURIComponent('2026-07-05T09:00:00+09:00')
  expect((await world.get(`/invoices?from=${from}&to=${to}`)).data.invoices).toHaveLength(2)
  expect((await world.get('/invoices?status=open')).data.invoices).toEqual([])
})

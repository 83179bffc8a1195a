import { afterEach, expect, test } from 'vitest'
import { resumePaymentMethods } from '../../src/billing/collection/try-payment-method.ts'
import { subscribe } from '../../src/billing/lifecycle/subscribe.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

const trial = (accountId: string, plan = 'starter-monthly') =>
  world.post('/trial', { account_id: accountId, plan_id: plan })

test('two hundred requests at once grant one trial', async () => {
  world = await openBillingWorld()
  const replies = await Promise.all(Array.from({ length: 200 }, () => trial('acct_1')))
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(replies.filter(({ body }) => body.error?.code === 'trial_already_used')).toHaveLength(199)
})

test('a trial without a card ends without a charge; its account never gets another', async () => {
  world = await openBillingWorld()
  const started = await trial('acct_1')
  expect(started.data).toMatchObject({
    status: 'trialing',
    trial_ends_at: '2026-03-19T09:00:00.000+09:00',
    next_billing_at: '2026-03-19T09:00:00.000+09:00',
    payment_method: null,
    access: true,
  })
  await world.advanceTo('2026-03-19T09:00:00+09:00')
  expect(await world.subscription(started.data.subscription_id)).toMatchObject({
    status: 'canceled',
    cancel_reason: 'trial_ended',
    canceled_at: '2026-03-19T09:00:00.000+09:00',
  })
  expect(await world.invoices('acct_1')).toEqual([])
  expect((await world.ask('DELETE', '/accounts/acct_1')).status).toBe(200)
  await world.ask('PUT', '/accounts/acct_1', { customer: { name: 'Again' } })
  expect((await trial('acct_1', 'pro-monthly')).body.error.code).toBe('trial_already_used')
  await expect(world.app.pool.query('delete from billing.trial_grant')).rejects.toThrow(
    'never changed or removed',
  )
})

test('a trial with a card is charged where it ends, on the plan it was converted to', async () => {
  world = await openBillingWorld()
  const started = await trial('acct_1')
  await world.advanceTo('2026-03-10T00:00:00+09:00')
  const converted = await world.subscribe('acct_1', { plan: 'pro-monthly', key: 'k' })
  expect(converted).toMatchObject({
    status: 201,
    data: {
      subscription_id: started.data.subscription_id,
      status: 'trialing',
      plan_id: 'pro-monthly',
      amount: 29_000,
      trial_ends_at: '2026-03-19T09:00:00.000+09:00',
      payment_method: { last4: '4242' },
    },
  })
  expect((await world.subscribe('acct_1', { plan: 'pro-monthly', key: 'k' })).text).toBe(converted.text)
  expect((await world.subscribe('acct_1', { key: 'k2' })).body.error.code).toBe('subscription_exists')
  expect(world.script.book.size).toBe(0)
  await world.advanceTo('2026-03-19T09:00:00+09:00')
  expect(await world.subscription(started.data.subscription_id)).toMatchObject({
    status: 'active',
    current_period_start: '2026-03-19T09:00:00.000+09:00',
    next_billing_at: '2026-04-19T09:00:00.000+09:00',
  })
  expect(await world.invoices('acct_1')).toMatchObject([{ status: 'paid', amount_paid: 29_000 }])
})

test('a trial takes a card only of a provider that takes its currency', async () => {
  world = await openBillingWorld()
  const { provider } = world.script
  Object.assign(provider, { guards: { ...provider.guards, currencies: new Set(['KRW']) } })
  // It needs no card, and may go on with another plan.
  const { subscription_id } = (await trial('acct_1', 'global-monthly')).data
  const offer = () =>
    world.post('/payment-method', { subscription_id, payment_method: { billing_key: 'bk_test_ok' } })
  const refused = { status: 422, body: { error: { code: 'currency_not_supported' } } }
  expect(await offer()).toMatchObject(refused)
  expect(await world.subscribe('acct_1', { plan: 'global-monthly' })).toMatchObject(refused)
  // Its terms are those of its beginning, whatever the plan says by now.
  const edited = { name: 'Global', amount: 1900, currency: 'KRW', interval: 'month' }
  expect((await world.ask('PUT', '/plans/global-monthly', edited)).status).toBe(200)
  expect(await offer()).toMatchObject(refused)
  expect(await world.subscribe('acct_1', { plan: 'global-monthly' })).toMatchObject(refused)
  expect(await world.subscription(subscription_id)).toMatchObject({
    status: 'trialing',
    currency: 'USD',
    payment_method: null,
  })

  expect(await world.subscribe('acct_1', { plan: 'starter-monthly' })).toMatchObject({
    status: 201,
    data: { subscription_id, currency: 'KRW' },
  })
  expect((await offer()).status).toBe(200)
  await world.advanceTo('2026-03-19T09:00:00+09:00')
  expect(await world.subscription(subscription_id)).toMatchObject({ status: 'active' })
})

test('a trial goes on with another plan at the price that was agreed on, however long its card waits', async () => {
  world = await openBillingWorld()
  const { subscription_id } = (await trial('acct_1')).data
  const request = {
    accountId: 'acct_1',
    planId: 'pro-monthly',
    method: { billingKey: 'bk_test_ok' },
    bound: false,
    timeZone: undefined,
    contact: undefined,
    actor: 'test',
  } as const
  // As a request leaves it that died while the provider described its card.
  const { id } = await world.app.db.transaction().execute(subscribe(world.app, request).begin)
  expect(await resumePaymentMethods(world.app)).toBe(0)
  const dearer = { name: 'Pro', amount: 58_000, currency: 'USD', interval: 'year' }
  expect((await world.ask('PUT', '/plans/pro-monthly', dearer)).status).toBe(200)
  await world.rows(`update billing.payment_method set next_lookup_at = now() where id = $1`, [id])
  expect(await resumePaymentMethods(world.app)).toBe(1)
  const agreed = { plan_id: 'pro-monthly', amount: 29_000, currency: 'KRW', interval: 'month' }
  expect(await world.subscription(subscription_id)).toMatchObject(agreed)
  await world.advanceTo('2026-03-19T09:00:00+09:00')
  expect(await world.invoices('acct_1')).toMatchObject([{ status: 'paid', amount_paid: 29_000 }])
})

test('a trial keeps its currency, and with it the card, though the plan is sold in another by now', async () => {
  world = await openBillingWorld()
  const { provider } = world.script
  Object.assign(provider, { guards: { ...provider.guards, currencies: new Set(['KRW']) } })
  expect((await trial('acct_1')).status).toBe(201)
  const edited = { name: 'Starter', amount: 900, currency: 'USD', interval: 'month' }
  expect((await world.ask('PUT', '/plans/starter-monthly', edited)).status).toBe(200)
  expect(await world.subscribe('acct_1')).toMatchObject({ status: 201, data: { currency: 'KRW' } })
  expect((await world.subscribe('acct_2')).body.error.code).toBe('currency_not_supported')
})

test('a trial whose card is declined at its end is past due', async () => {
  world = await openBillingWorld()
  const id = (await trial('acct_1')).data.subscription_id
  world.script.declineCard('bk_test_poor', 'insufficient_funds')
  await world.subscribe('acct_1', { card: 'bk_test_poor' })
  await world.advanceTo('2026-03-19T09:00:00+09:00')
  expect((await world.subscription(id)).status).toBe('past_due')
})

test('a trial can be canceled and resumed, and ends just before it would be charged', async () => {
  world = await openBillingWorld()
  const id = (await trial('acct_1')).data.subscription_id
  await world.subscribe('acct_1')
  expect((await world.post('/cancel', { subscription_id: id })).data).toMatchObject({
    status: 'canceling',
    cancel_at: '2026-03-19T08:59:00.000+09:00',
  })
  expect((await world.post('/resume', { subscription_id: id })).data.status).toBe('trialing')
  await world.post('/cancel', { subscription_id: id })
  await world.advanceTo('2026-03-20T00:00:00+09:00')
  expect((await world.subscription(id)).status).toBe('canceled')
  expect(world.script.book.size).toBe(0)
})

test('a grant that could not be used is not used up', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  expect(await trial('acct_1')).toMatchObject({
    status: 409,
    body: { error: { code: 'subscription_exists' } },
  })
  await world.ask('PUT', '/plans/strict', { name: 'Strict', amount: 1, currency: 'KRW', interval: 'day' })
  expect(await trial('acct_2', 'strict')).toMatchObject({
    status: 422,
    body: { error: { code: 'plan_has_no_trial' } },
  })
  expect(await trial('acct_2', 'none')).toMatchObject({
    status: 404,
    body: { error: { code: 'plan_not_found' } },
  })
  expect((await trial('acct_2')).status).toBe(201)
})

test('an erased account loses its person, its cards and its words, and keeps its money', async () => {
  world = await openBillingWorld()
  await world.ask('PUT', '/accounts/acct_1', { customer: { email: 'mina@example.com', name: 'Mina' } })
  const id = (await world.subscribe('acct_1')).data.subscription_id
  const invoiceId = (await world.invoices('acct_1'))[0].invoice_id
  await world.post('/refund', { invoice_id: invoiceId, amount: 1, note: 'Mina asked' })
  expect((await world.get('/accounts/acct_1')).data).toMatchObject({
    timezone: 'Asia/Seoul',
    customer: { email: 'mina@example.com', name: 'Mina' },
  })
  expect(await world.ask('DELETE', '/accounts/acct_1')).toMatchObject({
    status: 409,
    body: { error: { code: 'subscription_exists' } },
  })
  await world.post('/cancel', { subscription_id: id, reason: 'Mina leaves' })
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect((await world.ask('DELETE', '/accounts/acct_1')).status).toBe(200)

  expect((await world.get('/accounts/acct_1')).data.customer).toEqual({ email: null, name: null })
  expect(await world.subscription(id)).toMatchObject({ payment_method: null, cancel_reason: 'requested' })
  expect((await world.invoices('acct_1'))[0]).toMatchObject({
    amount_paid: 9900,
    refunds: [{ note: null, amount: 1 }],
  })
  const left = await world.rows<{ found: number }>(
    `select count(*)::int as found from billing.payment_method where sealed is not null or last4 is not null`,
  )
  expect(left).toEqual([{ found: 0 }])
  expect(await world.books()).toEqual({ provider: 9899, revenue: -9900, refunds: 1 })
})

test('a token sees its own account and nothing of others', async () => {
  world = await openBillingWorld()
  const mine = (await world.subscribe('acct_1')).data.subscription_id
  const theirs = (await world.subscribe('acct_2')).data.subscription_id
  const theirInvoice = (await world.invoices('acct_2'))[0].invoice_id
  const token = await world.makeToken({ account: 'acct_1' })
  const nobody = await world.makeToken({ account: null })

  expect((await world.get('/subscriptions', { token })).data.subscriptions).toMatchObject([
    { subscription_id: mine },
  ])
  expect((await world.get('/invoices', { token })).data.invoices).toMatchObject([{ account_id: 'acct_1' }])
  expect((await world.get('/invoices?account_id=acct_2', { token })).status).toBe(403)
  expect((await world.get('/invoices', { token: nobody })).status).toBe(403)
  expect((await world.get('/events', { token: nobody })).status).toBe(403)
  expect((await world.get(`/subscriptions/${theirs}`, { token })).status).toBe(404)
  expect((await world.get(`/subscriptions/${theirs}/timeline`, { token })).status).toBe(404)
  expect((await world.get(`/invoices/${theirInvoice}`, { token })).status).toBe(404)
  for (const path of ['/cancel', '/resume']) {
    expect((await world.post(path, { subscription_id: theirs }, { token })).body.error.code).toBe(
      'subscription_not_found',
    )
  }
  const card = { subscription_id: theirs, payment_method: { billing_key: 'bk_test_ok' } }
  expect((await world.post('/payment-method', card, { token })).status).toBe(404)
  expect((await world.post('/refund', { invoice_id: theirInvoice }, { token })).body.error.code).toBe(
    'invoice_not_found',
  )
  expect(
    (await world.post('/trial', { account_id: 'acct_2', plan_id: 'pro-monthly' }, { token })).status,
  ).toBe(403)
  expect((await world.ask('DELETE', '/accounts/acct_2', undefined, { token })).status).toBe(403)
  const reader = await world.makeToken({ scopes: ['billing:write'] })
  expect((await world.post('/refund', { invoice_id: theirInvoice }, { token: reader })).status).toBe(403)
  expect(
    (
      await world.ask(
        'PUT',
        '/plans/x',
        { name: 'x', amount: 1, currency: 'KRW', interval: 'day' },
        { token: reader },
      )
    ).status,
  ).toBe(403)
})

test('the timeline tells what is in doubt, and when somebody looks next', async () => {
  world = await openBillingWorld()
  const paid = (await world.subscribe('acct_1')).data.subscription_id
  world.script.state.silent = true
  const { data: doubtful } = await world.subscribe('acct_2')
  const [invoice] = await world.invoices('acct_1')
  expect((await world.post('/refund', { invoice_id: invoice.invoice_id })).status).toBe(202)

  const nextOf = async (id: string) => (await world.get(`/subscriptions/${id}/timeline`)).data.next
  const now = world.app.clock().getTime()
  for (const [id, what] of [
    [doubtful.subscription_id, 'payment.lookup'],
    [paid, 'refund.lookup'],
  ] as const) {
    const [next] = await nextOf(id)
    expect(next.what).toBe(what)
    expect(Date.parse(next.at) - now).toBeGreaterThanOrEqual(0)
    expect(Date.parse(next.at) - now).toBeLessThan(60_000)
  }
  world.script.state.silent = false
  await world.forgetLeases()
  await world.runDue()
  await world.runDue()
  expect((await nextOf(doubtful.subscription_id)).map((one: { what: string }) => one.what)).toEqual([
    'renewal.charge',
  ])
})

test('the timeline tells what happened and what comes next, and upcoming charges are told without running them', async () => {
  world = await openBillingWorld()
  const id = (await world.subscribe('acct_1')).data.subscription_id
  await trial('acct_2')
  await world.subscribe('acct_2')
  const { data } = await world.get(`/subscriptions/${id}/timeline`)
  expect(data.facts.map((fact: { what: string }) => fact.what)).toEqual([
    'asked.subscription.subscribe',
    'subscription.created',
    'invoice.paid',
    'subscription.activated',
  ])
  expect(data.next).toEqual([{ at: '2026-04-05T09:00:00.000+09:00', what: 'renewal.charge' }])

  const upcoming = await world.get(`/upcoming?until=${encodeURIComponent('2026-05-05T09:00:00+09:00')}`)
  const summary = upcoming.data.charges.map(
    (one: { account_id: string; at: string; what: string; amount: number }) =>
      [one.account_id, one.at.slice(0, 10), one.what, one.amount].join(' '),
  )
  expect(summary).toEqual([
    'acct_2 2026-03-19 trial_end 9900',
    'acct_1 2026-04-05 renewal 9900',
    'acct_2 2026-04-19 renewal 9900',
    'acct_1 2026-05-05 renewal 9900',
  ])
  const paged = await world.get(`/upcoming?limit=3&until=2026-05-05T00:00:00Z`)
  const last = await world.get(
    `/upcoming?limit=3&until=2026-05-05T00:00:00Z&cursor=${paged.data.next_cursor}`,
  )
  expect([paged.data.charges.length, last.data.charges.length, last.data.next_cursor]).toEqual([3, 1, null])
  expect((await world.get('/upcoming?until=tomorrow')).status).toBe(400)
  expect(world.script.book.size).toBe(1)
  expect(
    (await world.get('/events?account_id=acct_1')).data.events.map((one: { type: string }) => one.type),
  ).toContain('invoice.paid')
})

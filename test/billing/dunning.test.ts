import { afterEach, expect, test } from 'vitest'
import { listAlarms } from '../../src/platform/alarm.ts'
import { newId } from '../../src/platform/id.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

async function failingRenewal(
  code: 'insufficient_funds' | 'lost_or_stolen' = 'insufficient_funds',
): Promise<string> {
  world = await openBillingWorld()
  const id = (await world.subscribe('acct_1', { card: 'bk_test_old' })).data.subscription_id
  world.script.declineCard('bk_test_old', code)
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  return id
}

const changeCard = (id: string, card: string, key?: string) =>
  world.post(
    '/payment-method',
    { subscription_id: id, payment_method: { billing_key: card } },
    key === undefined ? {} : { key },
  )

test('a failed renewal is retried on days 1, 3, 5 and 7 and then the subscription ends', async () => {
  const id = await failingRenewal()
  expect(await world.subscription(id)).toMatchObject({
    status: 'past_due',
    access: true,
    next_billing_at: '2026-05-05T09:00:00.000+09:00',
  })
  const retries: string[] = []
  for (let days = 0; days < 4; days++) {
    const { attempt_count, next_attempt_at } = (await world.invoices('acct_1'))[0]
    expect(attempt_count).toBe(days + 1)
    retries.push(next_attempt_at)
    await world.advanceTo(next_attempt_at)
  }
  expect(retries.map((at) => at.slice(5, 16))).toEqual([
    '04-06T09:00',
    '04-08T09:00',
    '04-10T09:00',
    '04-12T09:00',
  ])
  expect(await world.subscription(id)).toMatchObject({ status: 'canceled', cancel_reason: 'payment_failed' })
  expect((await world.invoices('acct_1'))[0]).toMatchObject({
    status: 'uncollectible',
    attempt_count: 5,
    next_attempt_at: null,
  })
  expect(new Set(world.script.book.keys()).size).toBe(6)
})

test('a retry that is paid brings the subscription back on its original anchor', async () => {
  const id = await failingRenewal()
  world.script.declineCard('bk_test_old', null)
  await world.advanceTo('2026-04-06T09:00:00+09:00')
  expect(await world.subscription(id)).toMatchObject({
    status: 'active',
    next_billing_at: '2026-05-05T09:00:00.000+09:00',
  })
  await world.advanceTo('2026-05-05T09:00:00+09:00')
  expect(await world.invoices('acct_1')).toMatchObject([
    { status: 'paid' },
    { status: 'paid' },
    { status: 'paid' },
  ])
})

test('a stolen card is not tried again, and the subscription waits for another until the last dunning day', async () => {
  const id = await failingRenewal('lost_or_stolen')
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ attempt_count: 1, next_attempt_at: null })
  await world.advanceTo('2026-04-12T08:59:59+09:00')
  expect((await world.subscription(id)).status).toBe('past_due')
  await world.advanceTo('2026-04-12T09:00:00+09:00')
  expect(await world.subscription(id)).toMatchObject({ status: 'canceled', cancel_reason: 'payment_failed' })
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'uncollectible', attempt_count: 1 })
})

test('a new card pays what is owed at once; one that is declined is not kept', async () => {
  const id = await failingRenewal('lost_or_stolen')
  world.script.declineCard('bk_test_poor', 'do_not_honor')
  const offer = (card: string, key?: string) => changeCard(id, card, key)
  const declined = await offer('bk_test_poor', 'k')
  expect(declined).toMatchObject({
    status: 402,
    body: { error: { code: 'payment_declined', details: [{ code: 'do_not_honor' }] } },
  })
  expect((await offer('bk_test_poor', 'k')).text).toBe(declined.text)
  expect((await world.subscription(id)).status).toBe('past_due')
  expect(await offer('bk_test_nobody')).toMatchObject({
    status: 422,
    body: { error: { code: 'billing_key_invalid' } },
  })

  expect(await offer('bk_test_new')).toMatchObject({ status: 200, data: { status: 'active' } })
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 3 })
  await world.advanceTo('2026-05-05T09:00:00+09:00')
  expect((await world.invoices('acct_1'))[0].status).toBe('paid')
})

test('a new card that nobody could be asked for ends nothing, also after the last dunning day', async () => {
  const id = await failingRenewal()
  await world.advanceTo('2026-04-10T09:00:00+09:00')
  world.skipTo('2026-04-13T09:00:00+09:00')
  world.script.nextCharges({ kind: 'not_sent' })
  expect((await changeCard(id, 'bk_test_new')).status).toBe(503)
  expect(await world.subscription(id)).toMatchObject({ status: 'past_due' })
  const { attempt_count } = (await world.invoices('acct_1'))[0]

  // Its own card has its last try, late as it is.
  world.script.declineCard('bk_test_old', null)
  await world.runDue()
  expect(await world.subscription(id)).toMatchObject({ status: 'active' })
  expect((await world.invoices('acct_1'))[0]).toMatchObject({
    status: 'paid',
    attempt_count: attempt_count + 1,
  })
})

test('a retry that falls due while a new card is in doubt is made when that is declined', async () => {
  const id = await failingRenewal()
  await world.advanceTo('2026-04-12T08:59:00+09:00')
  world.script.declineCard('bk_test_new', 'do_not_honor')
  world.script.nextCharges({ kind: 'lost_answer' })
  world.script.hooks.afterCharge = async () => {
    world.script.state.silent = true
  }
  expect((await changeCard(id, 'bk_test_new')).status).toBe(202)
  world.script.hooks.afterCharge = async () => {}
  world.skipTo('2026-04-12T09:30:00+09:00')
  world.script.state.silent = false
  world.script.declineCard('bk_test_old', null)
  await world.forgetLeases()
  await world.runDue()
  await world.runDue()
  expect(await world.subscription(id)).toMatchObject({ status: 'active' })
  const { payments } = (await world.invoices('acct_1'))[0]
  expect(
    payments.slice(-2).map(({ status, failure_code }: Record<string, string>) => [status, failure_code]),
  ).toEqual([
    ['failed', 'do_not_honor'],
    ['succeeded', null],
  ])
})

test('an invoice lists its attempts in their order, also those that two processes made within one millisecond', async () => {
  world = await openBillingWorld()
  const { data } = await world.subscribe('acct_1', { card: 'bk_test_old' })
  world.script.declineCard('bk_test_old', 'insufficient_funds')
  world.script.declineCard('bk_test_new', 'lost_or_stolen')
  const instant = new Date('2026-04-05T09:00:00+09:00')
  newId('pay_', instant)
  await world.advanceTo(instant)
  // Whoever has been elsewhere in time counts the millisecond from its beginning, like another process.
  newId('pay_', new Date('2026-04-06T09:00:00+09:00'))
  const { subscription_id } = data
  await world.post('/payment-method', { subscription_id, payment_method: { billing_key: 'bk_test_new' } })
  const made = await world.rows<{ id: string; code: string }>(
    'select id, code from billing.payment where created_at = $1 order by attempt',
    [instant],
  )
  expect(made.map(({ code }) => code)).toEqual(['insufficient_funds', 'lost_or_stolen'])
  expect(made[0]!.id > made[1]!.id).toBe(true)
  const [{ payments }] = await world.invoices('acct_1')
  expect(payments.map(({ payment_id }: { payment_id: string }) => payment_id)).toEqual(
    made.map((one) => one.id),
  )
})

test('a new card without an answer is 202 and kept once its charge is found', async () => {
  const id = await failingRenewal()
  world.script.state.silent = false
  world.script.hooks.beforeCharge = async () => {
    world.script.state.silent = true
  }
  const body = { subscription_id: id, payment_method: { billing_key: 'bk_test_new' } }
  expect(await world.post('/payment-method', body, { key: 'k' })).toMatchObject({
    status: 202,
    data: { status: 'past_due' },
  })
  world.script.hooks.beforeCharge = async () => {}
  world.script.state.silent = false
  await world.forgetLeases()
  await world.runDue()
  expect(await world.post('/payment-method', body, { key: 'k' })).toMatchObject({
    status: 200,
    data: { status: 'active' },
  })
  expect([...world.script.book.values()].filter(({ status }) => status === 'paid')).toHaveLength(2)
})

test('no period is issued while past due; on recovery the newest is charged and older ones are held', async () => {
  world = await openBillingWorld()
  await world.ask('PUT', '/plans/daily', { name: 'Daily', amount: 100, currency: 'KRW', interval: 'day' })
  const id = (await world.subscribe('acct_1', { plan: 'daily', card: 'bk_test_old' })).data.subscription_id
  world.script.declineCard('bk_test_old', 'insufficient_funds')
  await world.advanceTo('2026-03-11T08:00:00+09:00')
  expect(await world.invoices('acct_1')).toHaveLength(2)
  world.script.declineCard('bk_test_old', null)
  await world.advanceTo('2026-03-11T09:00:00+09:00')
  expect((await world.subscription(id)).status).toBe('active')
  expect(
    (await world.invoices('acct_1')).map(
      (one: { status: string; hold: string | null }) => `${one.status} ${one.hold}`,
    ),
  ).toEqual([
    'paid null',
    'open missed',
    'open missed',
    'open missed',
    'open missed',
    'paid null',
    'paid null',
  ])
})

test('retries missed in an outage become one', async () => {
  const id = await failingRenewal()
  const before = world.script.calls.charge
  world.skipTo('2026-04-11T00:00:00+09:00')
  await world.runDue()
  await world.runDue()
  expect(world.script.calls.charge).toBe(before + 1)
  expect((await world.invoices('acct_1'))[0].next_attempt_at).toBe('2026-04-12T09:00:00.000+09:00')
  expect((await world.subscription(id)).status).toBe('past_due')
})

test('canceling a past due subscription ends it at once and voids what it owed', async () => {
  const id = await failingRenewal()
  expect((await world.post('/cancel', { subscription_id: id })).data.status).toBe('canceled')
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'void', next_attempt_at: null })
  const before = world.script.calls.charge
  await world.advanceTo('2026-05-01T00:00:00+09:00')
  expect(world.script.calls.charge).toBe(before)
})

test('a cancel that comes while the renewal is being charged ends the new period, or everything if it fails', async () => {
  world = await openBillingWorld()
  const paid = (await world.subscribe('acct_1')).data.subscription_id
  const failed = (await world.subscribe('acct_2', { card: 'bk_test_old' })).data.subscription_id
  world.script.declineCard('bk_test_old', 'insufficient_funds')
  const answers: string[] = []
  world.script.hooks.beforeCharge = async ({ accountId }) => {
    const id = accountId === 'acct_1' ? paid : failed
    answers.push((await world.post('/cancel', { subscription_id: id })).data.cancel_at)
  }
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect(answers).toEqual(['2026-05-05T08:59:00.000+09:00', '2026-05-05T08:59:00.000+09:00'])
  expect((await world.subscription(paid)).status).toBe('canceling')
  expect(await world.subscription(failed)).toMatchObject({
    status: 'canceled',
    cancel_reason: 'payment_failed',
  })
  expect((await world.invoices('acct_2'))[0].status).toBe('uncollectible')
})

test('a new card offered while a retry is in doubt waits for its outcome, and only then is charged', async () => {
  const id = await failingRenewal()
  world.script.nextCharges({ kind: 'lost_request' })
  await world.app.pool.query(
    `update billing.invoice set due_at = '2026-04-05T09:00:01+09:00' where due_at is not null`,
  )
  world.skipTo('2026-04-05T09:00:01+09:00')
  world.script.hooks.beforeCharge = async () => {
    world.script.state.silent = true
  }
  await world.runDue()
  const body = { subscription_id: id, payment_method: { billing_key: 'bk_test_new' } }
  world.script.provider.describe = async () => ({
    kind: 'valid',
    card: { brand: 'new', last4: '0001', expires: '01/2031' },
  })
  const sent = world.script.calls.charge
  expect((await world.post('/payment-method', body, { key: 'k' })).status).toBe(202)
  expect(world.script.calls.charge).toBe(sent)

  world.script.hooks.beforeCharge = async () => {}
  world.script.state.silent = false
  for (let round = 0; round < 3; round++) {
    await world.forgetLeases()
    await world.runDue()
  }
  expect(await world.post('/payment-method', body, { key: 'k' })).toMatchObject({
    status: 200,
    data: { status: 'active', payment_method: { last4: '0001' } },
  })
  expect((await world.invoices('acct_1'))[0].payments.map((one: { status: string }) => one.status)).toEqual([
    'failed',
    'failed',
    'succeeded',
  ])
})

test('a provider that refuses our requests is an alarm until it takes a charge again; a declined card is none', async () => {
  world = await openBillingWorld()
  const alarms = () => listAlarms(world.app.db, 10)
  const id = (await world.subscribe('acct_1')).data.subscription_id
  const other = (await world.subscribe('acct_2')).data.subscription_id
  const statuses = async () =>
    [(await world.subscription(id)).status, (await world.subscription(other)).status].sort()
  world.script.nextCharges(
    { kind: 'decline', code: 'do_not_honor' },
    { kind: 'decline', code: 'do_not_honor' },
  )
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect(await alarms()).toEqual([])

  const wrong = { kind: 'refuse', code: 'provider_error', raw: 'CHANNEL_NOT_FOUND' } as const
  world.script.nextCharges(wrong, wrong)
  await world.advanceTo('2026-04-06T09:00:00+09:00')
  expect(await world.subscription(id)).toMatchObject({ status: 'past_due' })
  const [alarm, ...others] = await alarms()
  expect(others).toEqual([])
  expect(alarm).toMatchObject({ kind: 'charge_refused', subject: 'scripted' })
  expect(alarm?.note).toContain('scripted rejects our charge requests (CHANNEL_NOT_FOUND)')

  // A decline says nothing about our settings, and neither does a card that is gone.
  world.script.nextCharges(
    { kind: 'decline', code: 'do_not_honor' },
    { kind: 'refuse', code: 'billing_key_invalid' },
  )
  await world.advanceTo('2026-04-08T09:00:00+09:00')
  expect(await alarms()).toMatchObject([{ kind: 'charge_refused', count: alarm!.count }])

  // Both were charged at once, and whose card is gone is whose charge came second.
  await world.advanceTo('2026-04-10T09:00:00+09:00')
  expect(await statuses()).toEqual(['active', 'past_due'])
  expect(await alarms()).toEqual([])
})

test('a currency that is no longer taken is an alarm until a charge in it is', async () => {
  world = await openBillingWorld()
  const alarms = () => listAlarms(world.app.db, 10)
  const refused = { kind: 'refuse', code: 'currency_not_supported', raw: 'NOT_SUPPORTED_CURRENCY' } as const
  // Whoever begins is told.
  world.script.nextCharges(refused)
  expect((await world.subscribe('acct_1', { plan: 'global-monthly' })).status).toBe(422)
  expect(await alarms()).toEqual([])

  const { subscription_id } = (await world.subscribe('acct_1', { plan: 'global-monthly' })).data
  world.script.nextCharges(refused)
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect(await world.subscription(subscription_id)).toMatchObject({ status: 'past_due' })
  const [alarm, ...others] = await alarms()
  expect(others).toEqual([])
  expect(alarm).toMatchObject({ kind: 'charge_refused', subject: 'scripted USD' })
  expect(alarm?.note).toContain('scripted does not take charges in USD (NOT_SUPPORTED_CURRENCY)')

  expect((await world.subscribe('acct_2')).status).toBe(201)
  expect(await alarms()).toHaveLength(1)
  await world.advanceTo('2026-04-06T09:00:00+09:00')
  expect(await world.subscription(subscription_id)).toMatchObject({ status: 'active' })
  expect(await alarms()).toEqual([])
})

test('a charge that was begun before the provider refused one does not end the alarm', async () => {
  world = await openBillingWorld()
  world.script.nextCharges({ kind: 'lost_request' })
  expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(202)
  // Nothing runs meanwhile, so that it is still in doubt when the other one is refused.
  world.skipTo('2026-03-05T09:01:00+09:00')
  world.script.nextCharges({ kind: 'refuse', code: 'provider_error', raw: 'not a code, <b>' })
  expect((await world.subscribe('acct_2')).status).toBe(502)
  await world.forgetLeases()
  await world.runDue()
  expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(201)
  const alarms = await listAlarms(world.app.db, 10)
  expect(alarms).toMatchObject([{ kind: 'charge_refused', subject: 'scripted' }])
  expect(alarms[0]?.note).not.toContain('<b>')
  expect((await world.subscribe('acct_2')).status).toBe(201)
  expect(await listAlarms(world.app.db, 10)).toEqual([])
})

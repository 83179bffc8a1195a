import { afterEach, expect, test } from 'vitest'
import { liftCredentialStop } from '../../src/billing/charging-stop.ts'
import { findChargingStop } from '../../src/billing/charging-stop-rows.ts'
import { verifyStandardWebhook } from '../../src/billing/providers/standard-webhooks.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { listUnsent } from '../../src/billing/summary/vitals-rows.ts'
import { listAlarms } from '../../src/platform/alarm.ts'
import { signStandardWebhook } from '../sign-webhook.ts'
import { createDatabase, dropDatabase } from '../world.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'
import { scriptedProvider } from './scripted-provider.ts'

// A house moves: cards that the old provider stored stay there, and new ones go to the new provider.

type Script = ReturnType<typeof scriptedProvider>
type WorldOptions = NonNullable<Parameters<typeof openBillingWorld>[0]>

const march = '2026-03-05T09:00:00+09:00'
const april = '2026-04-05T09:00:00+09:00'
const may = '2026-05-05T09:00:00+09:00'

let world: BillingWorld | undefined
let url: string | undefined
afterEach(async () => {
  await world?.leave()
  if (url) await dropDatabase(url)
  world = url = undefined
})

/** A customer whose card the old provider stored, in a house that has not moved yet. */
async function openOldHouse(
  plan = 'starter-monthly',
): Promise<{ old: Script; young: Script; world: BillingWorld }> {
  const old = scriptedProvider({}, 'old-house')
  const young = { ...scriptedProvider({}, 'new-house'), vaultKey: old.vaultKey }
  url = await createDatabase()
  world = await openBillingWorld({ on: { url, script: old }, now: march })
  expect((await world.subscribe('loyal', { plan })).status).toBe(201)
  return { old, young, world }
}

/** The same database under another configuration. */
async function reopen(options: WorldOptions): Promise<BillingWorld> {
  await world!.leave()
  world = await openBillingWorld(options)
  return world
}

const chargesAt = (script: Script) => script.calls.charge

/** From here on it takes won alone, as Toss does. */
function takesWonAlone({ provider }: Script): void {
  Object.assign(provider, { guards: { ...provider.guards, currencies: new Set(['KRW']) } })
}

test('old cards are charged, looked up and refunded where they are, and new cards go to the new provider', async () => {
  const { old, young } = await openOldHouse()
  const moved = await reopen({ on: { url: url!, script: young }, others: [old], now: march })
  expect((await moved.subscribe('fresh')).status).toBe(201)
  expect([chargesAt(old), chargesAt(young)]).toEqual([1, 1])

  await moved.advanceTo(april)
  expect([chargesAt(old), chargesAt(young)]).toEqual([2, 2])

  const [invoice] = await moved.invoices('loyal')
  expect((await moved.post('/refund', { invoice_id: invoice.invoice_id })).status).toBe(200)
  expect([old.calls.refund, young.calls.refund]).toEqual([1, 0])

  const { subscription_id } = invoice
  const change = { subscription_id, payment_method: { billing_key: 'bk_test_new' } }
  expect((await moved.post('/payment-method', change)).status).toBe(200)
  await moved.advanceTo(may)
  expect([chargesAt(old), chargesAt(young)]).toEqual([2, 4])

  const books = await reconcilePayments(moved.app, new Date(march), new Date('2026-06-01T00:00:00Z'))
  expect(books).toMatchObject({ compared: 6, repaired: [], differences: [] })
  expect(
    await moved.rows(
      `select account_id, provider, count(*)::int as n from billing.payment group by 1, 2 order by 1, 2`,
    ),
  ).toEqual([
    { account_id: 'fresh', provider: 'new-house', n: 3 },
    { account_id: 'loyal', provider: 'new-house', n: 1 },
    { account_id: 'loyal', provider: 'old-house', n: 2 },
  ])
})

test('a card of a provider that does not take the currency is refused, and the card that pays stays', async () => {
  const { old, young } = await openOldHouse('global-monthly')
  takesWonAlone(young)
  const moved = await reopen({ on: { url: url!, script: young }, others: [old], now: march })
  const [{ subscription_id }] = await moved.invoices('loyal')
  const before = await moved.subscription(subscription_id)
  const change = { subscription_id, payment_method: { billing_key: 'bk_test_new' } }
  for (const _twice of [1, 2])
    expect(await moved.post('/payment-method', change, { key: 'k' })).toMatchObject({
      status: 422,
      body: { error: { code: 'currency_not_supported' } },
    })
  expect(await moved.subscription(subscription_id)).toEqual(before)
  await moved.advanceTo(april)
  expect(old.forgotten).toEqual([])
  expect([chargesAt(old), chargesAt(young)]).toEqual([2, 0])
  expect((await moved.invoices('loyal'))[0]).toMatchObject({ status: 'paid', currency: 'USD' })

  // What is past due is not charged to it either.
  old.declineCard('bk_test_ok', 'insufficient_funds')
  await moved.advanceTo(may)
  expect((await moved.post('/payment-method', change)).body.error.code).toBe('currency_not_supported')
  expect(await moved.subscription(subscription_id)).toMatchObject({ status: 'past_due' })
  expect((await moved.invoices('loyal'))[0]).toMatchObject({ attempt_count: 1 })
})

test('a price that is not taken any more keeps the card that pays it, and another card is refused', async () => {
  const { old, young } = await openOldHouse()
  for (const { provider } of [old, young])
    Object.assign(provider, { guards: { ...provider.guards, takesAmount: () => false } })
  const moved = await reopen({ on: { url: url!, script: young }, others: [old], now: march })
  const [{ subscription_id }] = await moved.invoices('loyal')
  const change = { subscription_id, payment_method: { billing_key: 'bk_test_new' } }
  expect(await moved.post('/payment-method', change)).toMatchObject({
    status: 422,
    body: {
      error: { code: 'currency_not_supported', details: [{ code: 'amount_not_supported' }] },
    },
  })
  await moved.advanceTo(april)
  expect([chargesAt(old), chargesAt(young)]).toEqual([2, 0])
  expect((await moved.invoices('loyal'))[0]).toMatchObject({ status: 'paid' })

  // Once it is refused at the charge, a person is told, as ever.
  old.nextCharges({ kind: 'refuse', code: 'provider_error' })
  await moved.advanceTo(may)
  expect(await moved.subscription(subscription_id)).toMatchObject({ status: 'past_due' })
  expect(await listAlarms(moved.app.db, 10)).toMatchObject([{ kind: 'charge_refused' }])
})

test('what was taken under our reference at another provider than our row names is a difference', async () => {
  const { old, young } = await openOldHouse()
  const moved = await reopen({ on: { url: url!, script: young }, others: [old], now: march })
  const [{ reference }] = (await moved.rows<{ reference: string }>(
    'select provider_reference as reference from billing.payment',
  )) as [{ reference: string }]
  await young.provider.charge({
    key: reference,
    accountId: 'loyal',
    amount: { minor: 9900n, currency: 'KRW' },
    billingKey: 'bk_test_ok',
    description: 'x',
  })
  const books = await reconcilePayments(moved.app, new Date('2026-03-01'), new Date('2026-04-01'))
  expect(books.differences).toMatchObject([{ reference, paymentId: null }])
})

test('while the keys of a provider are not set, what is due there waits and nobody is past due by it', async () => {
  const { old, young } = await openOldHouse()
  let moved = await reopen({ on: { url: url!, script: young }, now: march })
  expect((await moved.subscribe('fresh')).status).toBe(201)
  await moved.advanceTo(april)
  expect([chargesAt(old), chargesAt(young)]).toEqual([1, 2])
  const statuses = () => moved.rows(`select account_id, status from billing.subscription order by account_id`)
  expect(await statuses()).toEqual([
    { account_id: 'fresh', status: 'active' },
    { account_id: 'loyal', status: 'active' },
  ])
  expect(await listAlarms(moved.app.db, 10)).toMatchObject([
    { kind: 'provider_missing', subject: 'old-house' },
  ])
  expect(await listUnsent(moved.app.db, 10)).toMatchObject([
    { account_id: 'loyal', provider: 'old-house', blocked_by: 'provider_missing', cause: null },
  ])
  // Weeks go by: nothing is given up.
  await moved.forgetLeases()
  moved.skipTo('2026-04-28T09:00:00+09:00')
  await moved.runDue()
  expect((await moved.invoices('loyal'))[0].status).toBe('open')
  const [invoice] = (await moved.invoices('loyal')).slice(-1)
  const refund = await moved.post('/refund', { invoice_id: invoice.invoice_id })
  expect([refund.status, refund.body.error?.code]).toEqual([503, 'provider_unavailable'])

  const books = await reconcilePayments(moved.app, new Date(march), new Date(may))
  expect(books.differences.length).toBeGreaterThan(0)

  moved = await reopen({ on: { url: url!, script: young }, others: [old], now: '2026-04-28T10:00:00+09:00' })
  await moved.forgetLeases()
  await moved.runDue()
  expect((await moved.invoices('loyal'))[0].status).toBe('paid')
  expect(chargesAt(old)).toBe(2)
})

test('one provider that cannot be sent to keeps nobody of another waiting', async () => {
  const { old, young } = await openOldHouse()
  for (let n = 0; n < 40; n++) expect((await world!.subscribe(`loyal${n}`)).status).toBe(201)
  let moved = await reopen({ on: { url: url!, script: young }, others: [old], now: march })
  expect((await moved.subscribe('fresh')).status).toBe(201)
  // Neither can be reached when the renewals fall due.
  const { charge } = young.provider
  young.provider.charge = async () => ({ kind: 'not_sent' })
  moved = await reopen({ on: { url: url!, script: young }, now: march })
  await moved.advanceTo(april)
  young.provider.charge = charge
  // Those of the old house are due first.
  await moved.forgetLeases()
  await moved.rows(`update billing.payment set next_lookup_at = next_lookup_at - interval '1 hour'
    where provider = 'old-house' and status in ('sending', 'unknown')`)
  await moved.runDue()
  expect((await moved.invoices('fresh'))[0].status).toBe('paid')
  expect((await moved.invoices('loyal'))[0].status).toBe('open')
})

test('refused credentials stop charging through that provider alone, until they are taken again', async () => {
  const { old, young } = await openOldHouse()
  const moved = await reopen({ on: { url: url!, script: young }, others: [old], stoppable: true, now: march })
  expect((await moved.subscribe('fresh')).status).toBe(201)
  old.state.credentialsRefused = true
  await moved.advanceTo(april)
  expect(await findChargingStop(moved.app.db, 'old-house')).toMatchObject({ cause: 'credentials_refused' })
  expect(await findChargingStop(moved.app.db, 'new-house')).toBeUndefined()
  expect((await moved.invoices('fresh'))[0].status).toBe('paid')
  expect((await moved.invoices('loyal'))[0].status).toBe('open')

  old.state.credentialsRefused = false
  expect(await liftCredentialStop(moved.app, 'new-house')).toBe(false)
  expect(await liftCredentialStop(moved.app, 'old-house')).toBe(true)
  await expect
    .poll(async () => {
      await moved.forgetLeases()
      await moved.runDue()
      return (await moved.invoices('loyal'))[0].status
    })
    .toBe('paid')
  expect(await listAlarms(moved.app.db, 10)).toEqual([])
})

test('a silent provider is asked on its own, and its answer wakes what waits there and nothing else', async () => {
  const { old, young } = await openOldHouse()
  const moved = await reopen({ on: { url: url!, script: young }, others: [old], now: march })
  expect((await moved.subscribe('fresh')).status).toBe(201)
  old.state.silent = true
  young.state.silent = true
  await moved.advanceTo(april)
  const waits = () =>
    moved.rows(`select account_id, next_lookup_at > clock_timestamp() + interval '1 minute' as long
      from billing.payment where status in ('sending', 'unknown') order by account_id`)
  await moved.rows(`update billing.payment set next_lookup_at = clock_timestamp() + interval '1 hour', lookup_by = null,
    sending_until = null where status in ('sending', 'unknown')`)
  old.state.silent = false
  await moved.runDue()
  await moved.runDue()
  expect((await moved.invoices('loyal'))[0].status).toBe('paid')
  expect(await waits()).toEqual([{ account_id: 'fresh', long: true }])
})

test('an event belongs to the provider whose secret verifies it, and its id to that provider alone', async () => {
  const secrets = {
    'old-house': `whsec_${btoa('o'.repeat(32))}`,
    'new-house': `whsec_${btoa('n'.repeat(32))}`,
  }
  const { old, young } = await openOldHouse()
  for (const { provider } of [old, young]) {
    provider.verifyWebhook = verifyStandardWebhook
    provider.readWebhook = (body) => ({ ...(body as { type: string; reference: string }), live: false })
  }
  const moved = await reopen({
    on: { url: url!, script: young },
    others: [old],
    now: march,
    terms: {
      webhookSecrets: Object.fromEntries(Object.entries(secrets).map(([name, one]) => [name, [one]])),
    },
  })
  const tell = async (from: keyof typeof secrets, path = '', reference = 'pay_none') => {
    const payload = Buffer.from(JSON.stringify({ type: 'payment.paid', reference }))
    const headers = signStandardWebhook(secrets[from], 'evt_1', payload, new Date())
    return moved.deliver(`/webhook${path}`, payload, headers)
  }
  expect(await tell('old-house')).toMatchObject({ status: 200, data: { duplicate: false } })
  expect(await tell('new-house')).toMatchObject({ status: 200, data: { duplicate: false } })
  expect(await tell('old-house', '/old-house')).toMatchObject({ status: 200, data: { duplicate: true } })
  expect((await tell('old-house', '/new-house')).status).toBe(401)
  expect((await tell('old-house', '/nobody')).status).toBe(404)
  expect(await moved.rows('select provider from billing.webhook order by 1')).toEqual([
    { provider: 'new-house' },
    { provider: 'old-house' },
  ])
})

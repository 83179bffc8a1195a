import { afterEach, expect, test } from 'vitest'
import { settleFromProvider } from '../../src/billing/collection/settle-from-provider.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

async function paidInvoice(): Promise<string> {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  return (await world.invoices('acct_1'))[0].invoice_id
}

test('fifty refunds at once never give back more than was taken, and are sent one after another', async () => {
  const invoiceId = await paidInvoice()
  world.script.hooks.beforeRefund = () => new Promise((resolve) => setTimeout(resolve, 2))
  const replies = await Promise.all(
    Array.from({ length: 50 }, () => world.post('/refund', { invoice_id: invoiceId, amount: 500 })),
  )
  const succeeded = replies.filter(({ status }) => status === 200)
  expect(succeeded).toHaveLength(19)
  const refused = replies.filter(({ status }) => status !== 200)
  expect(new Set(refused.map(({ body }) => body.error.code))).toEqual(new Set(['refund_exceeds_remaining']))
  expect(world.script.calls.mostRefundsAtOnce).toBe(1)
  expect(world.script.balance('KRW')).toBe(400n)
  expect(await world.books()).toEqual({ provider: 400, revenue: -9900, refunds: 9500 })
  expect((await world.get(`/invoices/${invoiceId}`)).data).toMatchObject({
    amount_refunded: 9500,
    status: 'partially_refunded',
  })
})

test('a refund with an answer that was lost is found by one lookup', async () => {
  const invoiceId = await paidInvoice()
  world.script.nextRefunds({ kind: 'lost_answer' })
  expect(await world.post('/refund', { invoice_id: invoiceId, amount: 1 })).toMatchObject({
    status: 200,
    data: { status: 'succeeded' },
  })
  expect(world.script.balance('KRW')).toBe(9899n)
})

test('a refund in doubt is pending, blocks others, and becomes final under the same key', async () => {
  const invoiceId = await paidInvoice()
  world.script.state.silent = true
  const first = await world.post('/refund', { invoice_id: invoiceId, amount: 100 }, { key: 'k' })
  expect(first).toMatchObject({ status: 202, data: { status: 'pending' } })
  expect(await world.post('/refund', { invoice_id: invoiceId, amount: 1 })).toMatchObject({
    status: 409,
    body: { error: { code: 'refund_in_doubt' } },
  })
  world.script.state.silent = false
  await world.forgetLeases()
  await world.runDue()
  const final = await world.post('/refund', { invoice_id: invoiceId, amount: 100 }, { key: 'k' })
  expect(final).toMatchObject({ status: 200, data: { status: 'succeeded', refund_id: first.data.refund_id } })
  expect((await world.get(`/refunds/${first.data.refund_id}`)).data).toMatchObject({
    status: 'succeeded',
    amount: 100,
  })
  expect(world.script.balance('KRW')).toBe(9800n)
})

test('what the provider says no to is told and gives the amount free again', async () => {
  const invoiceId = await paidInvoice()
  world.script.nextRefunds({ kind: 'declined' }, { kind: 'not_sent' }, { kind: 'disputed' })
  const refund = (key: string) => world.post('/refund', { invoice_id: invoiceId }, { key })
  const declined = await refund('a')
  expect(declined).toMatchObject({ status: 402, body: { error: { code: 'refund_declined' } } })
  expect((await refund('a')).text).toBe(declined.text)
  expect(await refund('b')).toMatchObject({ status: 503, body: { error: { code: 'provider_unavailable' } } })
  expect(await refund('c')).toMatchObject({ status: 409, body: { error: { code: 'payment_disputed' } } })
  expect(await refund('d')).toMatchObject({ status: 409, body: { error: { code: 'payment_disputed' } } })
  expect(await world.books()).toEqual({ provider: 9900, revenue: -9900 })
})

test('refunds are refused for what is not there, not paid or too much', async () => {
  const invoiceId = await paidInvoice()
  const code = async (body: object) => {
    const reply = await world.post('/refund', body)
    return `${reply.status} ${reply.body.error.code}`
  }
  expect(await code({ invoice_id: invoiceId, amount: 9901 })).toBe('422 refund_exceeds_remaining')
  expect(await code({ invoice_id: 'inv_nonsense' })).toBe('404 invoice_not_found')
  expect(await code({ invoice_id: `inv_${'0'.repeat(26)}` })).toBe('404 invoice_not_found')
  expect(await code({ invoice_id: invoiceId, amount: 0 })).toBe('400 validation_failed')
  expect(await code({ invoice_id: invoiceId, amount: '7' })).toBe('400 validation_failed')
  expect(await code({ invoice_id: invoiceId, color: 'red' })).toBe('400 validation_failed')
  world.script.declineCard('bk_test_poor', 'insufficient_funds')
  await world.subscribe('acct_2', { card: 'bk_test_poor' })
  expect(await code({ invoice_id: (await world.invoices('acct_2'))[0].invoice_id })).toBe(
    '409 invoice_not_paid',
  )
})

test('a refund that fails later is taken back by a new transfer; one made elsewhere is noted', async () => {
  const invoiceId = await paidInvoice()
  const { data } = await world.post('/refund', { invoice_id: invoiceId, amount: 900 })
  const record = [...world.script.book.values()][0]!
  record.refunds[0]!.status = 'failed'
  await settleFromProvider(world.app, record.reference)
  await settleFromProvider(world.app, record.reference)
  expect((await world.get(`/refunds/${data.refund_id}`)).data.status).toBe('failed')
  expect((await world.get(`/invoices/${invoiceId}`)).data).toMatchObject({
    status: 'paid',
    amount_refunded: 0,
  })
  expect(await world.books()).toEqual({ provider: 9900, revenue: -9900, refunds: 0 })

  record.refunds.push({ reference: null, amount: { minor: 300n, currency: 'KRW' }, status: 'succeeded' })
  world.script.dispute(record.reference, 'open', new Date())
  await settleFromProvider(world.app, record.reference)
  await settleFromProvider(world.app, record.reference)
  expect((await world.get(`/invoices/${invoiceId}`)).data).toMatchObject({
    status: 'partially_refunded',
    amount_refunded: 300,
    payments: [{ disputed: true }],
  })
  expect(await world.books()).toEqual({ provider: 9600, revenue: -9900, refunds: 300 })
})

test('a refund that the provider works on is pending until it says more', async () => {
  const invoiceId = await paidInvoice()
  world.script.nextRefunds({ kind: 'pending' })
  const { status, data } = await world.post('/refund', { invoice_id: invoiceId, amount: 900 })
  expect([status, data.status]).toEqual([202, 'pending'])
  expect(await world.post('/refund', { invoice_id: invoiceId, amount: 9001 })).toMatchObject({ status: 422 })
  const record = [...world.script.book.values()][0]!
  record.refunds[0]!.status = 'succeeded'
  await settleFromProvider(world.app, record.reference)
  expect((await world.get(`/refunds/${data.refund_id}`)).data.status).toBe('succeeded')
  expect(await world.books()).toEqual({ provider: 9000, revenue: -9900, refunds: 900 })
})

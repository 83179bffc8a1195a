import { afterEach, expect, test } from 'vitest'
import { settleFromProvider } from '../../src/billing/collection/settle-from-provider.ts'
import type { PaymentLookup } from '../../src/billing/providers/port.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

const april = '2026-04-05T09:00:00+09:00'

/** The provider calls its declines this from now on. */
function declineAs(raw: string): void {
  const { provider, declineCard } = world.script
  const { charge, findPayment } = provider
  declineCard('bk_test_ok', 'do_not_honor')
  provider.charge = async (request) => {
    const answer = await charge(request)
    return answer.kind === 'declined' ? { ...answer, raw } : answer
  }
  provider.findPayment = async (reference, providerId): Promise<PaymentLookup> => {
    const found = await findPayment(reference, providerId)
    return found.kind === 'found' && found.payment.status === 'declined'
      ? { kind: 'found', payment: { ...found.payment, rawCode: raw } }
      : found
  }
}

const paymentsOf = async (token?: string) => {
  const { data } = await world.get('/invoices?account_id=acct_1', token === undefined ? {} : { token })
  return data.invoices.map((invoice: { payments: object[] }) => invoice.payments[0])
}

test('an operator reads who was asked, the id there and the code it gave; the customer’s own token does not', async () => {
  world = await openBillingWorld()
  const id = (await world.subscribe('acct_1')).data.subscription_id
  const token = await world.makeToken({ account: 'acct_1' })
  declineAs('51_generic_refusal')
  await world.advanceTo(april)

  const [failed, paid] = await paymentsOf()
  expect(failed).toMatchObject({
    status: 'failed',
    failure_code: 'do_not_honor',
    provider: 'scripted',
    provider_id: null,
    provider_code: '51_generic_refusal',
  })
  expect(paid).toMatchObject({ provider: 'scripted', provider_id: expect.stringMatching(/^prov_rl_/) })
  expect(paid.provider_code).toBeNull()

  const factsOf = async (more = {}) => (await world.get(`/subscriptions/${id}/timeline`, more)).data.facts
  const [fact] = (await factsOf()).filter(({ what }: { what: string }) => what === 'payment.failed')
  expect(fact.data).toMatchObject({
    code: 'do_not_honor',
    provider: 'scripted',
    provider_code: '51_generic_refusal',
  })

  const seen = [...(await paymentsOf(token)), ...(await factsOf({ token }))]
  const inv = (await world.invoices('acct_1'))[0].invoice_id
  seen.push((await world.get(`/invoices/${inv}`, { token })).data)
  expect(seen.length).toBeGreaterThan(5)
  expect(JSON.stringify(seen)).not.toMatch(/"provider|prov_rl|51_generic/)
})

test('a decline that only a lookup tells keeps the code too, and a payment found later keeps none', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  declineAs('card_velocity')
  world.script.nextCharges({ kind: 'lost_answer' })
  await world.advanceTo(april)
  await world.forgetLeases()
  await world.runDue()
  expect(await paymentsOf()).toMatchObject([{ status: 'failed', provider_code: 'card_velocity' }, {}])

  const [{ reference }] = await paymentsOf()
  world.script.book.get(reference)!.status = 'paid'
  await settleFromProvider(world.app, reference)
  expect((await paymentsOf())[0]).toMatchObject({ status: 'succeeded', provider_code: null })
})

test('whatever a provider puts into its code, the decline is recorded, cut to its bound and without secrets', async () => {
  world = await openBillingWorld()
  const { subscription_id } = (await world.subscribe('acct_1')).data
  declineAs(`\u0000\ud800 ${'sk_live'}_4eC39HqLyjWDarjtT1zdp7dc 4242424242424242 ${'x'.repeat(5000)}`)
  await world.advanceTo(april)
  expect((await world.subscription(subscription_id)).status).toBe('past_due')
  const [{ provider_code }] = await paymentsOf()
  expect(provider_code).toMatch(/^\?\? \[masked\] \[masked\] x+$/)
  expect(provider_code).toHaveLength(200)
})

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { guardProvider } from '../../src/billing/providers/guarded-provider.ts'
import type { ChargeRequest, Provider } from '../../src/billing/providers/port.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'

let world: ProviderWorld
let provider: Provider

beforeAll(async () => {
  world = await openProviderWorld({ timeoutMs: 1_000 })
  provider = guardProvider(world.provider, { timeoutMs: 3_000 }).uses.requests
})
afterAll(() => world.close())

/** The rule every caller of the port lives by: look an unknown charge up before sending it again under the same key. */
async function settle(request: ChargeRequest): Promise<'paid' | 'declined'> {
  for (;;) {
    const outcome = await provider.charge(request)
    if (outcome.kind === 'done') return 'paid'
    if (outcome.kind === 'declined') return 'declined'
    const lookup = await provider.findPayment(request.key)
    if (lookup.kind === 'found') return lookup.payment.status === 'paid' ? 'paid' : 'declined'
    await sleep(10)
  }
}

test('whatever goes wrong at the provider, a patient client and its book agree in the end, to the unit', async () => {
  await world.setFaults({
    error_before_rate: 0.1,
    error_after_rate: 0.1,
    timeout_before_rate: 0.1,
    timeout_after_rate: 0.1,
    wrong_amount_rate: 0.1,
    garbage_rate: 0.1,
    lookup_error_rate: 0.3,
    duplicate_references: true,
    seed: 42,
  })
  const requests = Array.from(
    { length: 150 },
    (_, n): ChargeRequest => ({
      key: `pay_${n}`,
      accountId: `acct_${n}`,
      amount: { minor: BigInt(1_000 + n), currency: 'KRW' },
      billingKey: n % 10 === 9 ? 'bk_test_insufficient_funds' : 'bk_test_ok',
      description: 'Pro',
    }),
  )
  const settled = await Promise.all(requests.map(settle))

  for (const [n, request] of requests.entries()) {
    const paid = settled[n] === 'paid'
    expect(paid).toBe(request.billingKey === 'bk_test_ok')
    expect(await world.taken(request.key)).toEqual({
      times: paid ? 1 : 0,
      amount: paid ? request.amount.minor : 0n,
      refunded: 0n,
    })
  }
})

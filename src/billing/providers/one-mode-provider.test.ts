import { expect, test } from 'vitest'
import { absentProvider } from './absent-provider.ts'
import { oneModeProvider } from './one-mode-provider.ts'
import type { Provider, ProviderPayment } from './port.ts'

const payment = (live?: boolean): ProviderPayment => {
  const amount = { minor: 9900n, currency: 'KRW' } as const
  return {
    reference: 'rl_1',
    providerId: 'p_1',
    status: 'paid',
    declineCode: null,
    rawCode: null,
    nextAction: null,
    amount,
    refunded: { ...amount, minor: 0n },
    refunds: [],
    dispute: null,
    card: null,
    at: new Date(0),
    ...(live !== undefined && { live }),
  }
}

function providerOf(
  mode: 'sandbox' | 'live',
  answer: Partial<Provider>,
  liveIs: 'mismatch' | 'unknown' = 'mismatch',
) {
  const told: string[] = []
  const plain = { ...absentProvider('p', async () => {}), ...answer }
  const provider = oneModeProvider(plain, mode, async () => void told.push('live'), liveIs)
  return { provider, told }
}

test.each([
  ['sandbox', undefined, 'found', 0],
  ['sandbox', false, 'found', 0],
  ['sandbox', true, 'mismatch', 1],
  ['live', undefined, 'found', 0],
  ['live', true, 'found', 0],
  ['live', false, 'mismatch', 0],
] as const)('in %s mode a payment with live: %s is %s', async (mode, live, kind, stops) => {
  const { provider, told } = providerOf(mode, {
    findPayment: async () => ({ kind: 'found', payment: payment(live) }),
    listPayments: async () => ({ kind: 'page', payments: [payment(live)], next: null }),
  })
  expect(await provider.findPayment('rl_1')).toMatchObject({ kind })
  expect(told).toHaveLength(stops)
  const listed = await provider.listPayments(new Date(0), new Date(1), null)
  expect(listed).toMatchObject({ payments: kind === 'found' ? [payment(live)] : [] })
})

test('an adapter that tells a contradiction of real money stops a sandbox too', async () => {
  const { provider, told } = providerOf('sandbox', { charge: async () => ({ kind: 'mismatch', live: true }) })
  const request = {
    key: 'k',
    accountId: 'a',
    amount: payment().amount,
    billingKey: 'b',
    description: 'd',
  }
  expect(await provider.charge(request)).toMatchObject({ kind: 'mismatch' })
  expect(told).toEqual(['live'])
})

test('whoever may be in sandbox mode by mistake takes real money for no answer, so that nothing is made of it', async () => {
  const answer: Partial<Provider> = {
    charge: async () => ({ kind: 'mismatch', live: true }),
    findPayment: async () => ({ kind: 'found', payment: payment(true) }),
    listPayments: async () => ({ kind: 'page', payments: [payment(true)], next: null }),
  }
  const { provider, told } = providerOf('sandbox', answer, 'unknown')
  const { amount } = payment()
  const request = { key: 'k', accountId: 'a', amount, billingKey: 'b', description: 'd' }
  const unknown = { kind: 'unknown' }
  expect(await provider.charge(request)).toEqual(unknown)
  expect(await provider.findPayment('rl_1')).toEqual(unknown)
  expect(await provider.listPayments(new Date(0), new Date(1), null)).toEqual(unknown)
  expect(told).toHaveLength(3)
})

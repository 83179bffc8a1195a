import { expect, test } from 'vitest'
import { absentProvider } from './absent-provider.ts'
import type { Provider } from './port.ts'
import { openStopSwitch, stoppableProvider } from './stoppable-provider.ts'

const amount = { minor: 9900n, currency: 'KRW' } as const
const [from, to] = [new Date(0), new Date(1)]

/** Every call in which a provider can refuse our credentials; the compiler asks for what is missing. */
type Call = Exclude<
  keyof Provider,
  'name' | 'guards' | 'customerOf' | 'check' | 'verifyWebhook' | 'readWebhook'
>
const calls: Record<Call, (provider: Provider) => Promise<{ kind: string }>> = {
  charge: (provider) =>
    provider.charge({ key: 'k', accountId: 'a', amount, billingKey: 'b', description: 'd' }),
  findPayment: (provider) => provider.findPayment('rl_1'),
  cancelPayment: (provider) => provider.cancelPayment('rl_1', 'p_1'),
  refund: (provider) => {
    const payment = { reference: 'rl_1', providerId: 'p_1' }
    return provider.refund({ key: 'k', payment, amount, remaining: amount, reason: 'r' })
  },
  exchange: (provider) => provider.exchange('ak', 'ck'),
  describe: (provider) => provider.describe('bk'),
  forget: (provider) => provider.forget('bk'),
  setUp: (provider) => provider.setUp({ setupId: 's', accountId: 'a', customerKey: null, email: null }),
  listPayments: (provider) => provider.listPayments(from, to, null),
  listChanges: (provider) => provider.listChanges!(from, to, null),
}

test.each(Object.keys(calls) as Call[])('credentials refused to %s stop charging', async (call) => {
  const refused = async () => ({ kind: 'credentials_refused' }) as const
  const plain = { ...absentProvider('p', async () => {}), [call]: refused }
  let stops = 0
  const stop = openStopSwitch({
    isStopped: async () => false,
    onCredentialsRefused: async () => void stops++,
  })
  const provider = stoppableProvider(plain, stop)
  expect(await calls[call](provider)).toEqual({ kind: 'credentials_refused' })
  expect(stops).toBe(1)
  expect(await calls.charge(provider)).toEqual({ kind: 'not_sent' })
})

test('a provider that cannot list what changed still cannot', () => {
  const stop = openStopSwitch({ isStopped: async () => false, onCredentialsRefused: async () => {} })
  expect(
    stoppableProvider(
      absentProvider('p', async () => {}),
      stop,
    ).listChanges,
  ).toBeNull()
})

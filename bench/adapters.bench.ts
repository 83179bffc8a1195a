import { randomUUID } from 'node:crypto'
import type { Provider } from '../src/billing/providers/port.ts'
import { portoneProvider } from '../src/billing/providers/portone/portone.ts'
import { stripeProvider } from '../src/billing/providers/stripe/stripe.ts'
import { tossProvider } from '../src/billing/providers/toss/toss.ts'
import { renew } from './renew.ts'
import { type BenchResult, interleave, median } from './result.ts'
import { openStage } from './stage.ts'
import { storeSubscriptions } from './stored-subscriptions.ts'

const names = ['stripe', 'toss', 'portone'] as const
type Name = (typeof names)[number]

/** What an adapter adds to a bare fetch of the same call, and renewals over each simulator beside those over the sandbox. */
export async function bench(): Promise<BenchResult[]> {
  return [...(await besideBareFetch()), ...(await renewalsBesideSandbox())]
}

const calls = 100

async function besideBareFetch(): Promise<BenchResult[]> {
  const results: BenchResult[] = []
  for (const name of names) {
    const stage = await openStage()
    try {
      const { port } = await stage.start('./simulator-process.ts', [name])
      const url = `http://127.0.0.1:${port}`
      const adapter = adapters[name](url)
      const charge = () => adapter.charge({ ...asked(), billingKey: 'bk_test_ok', accountId: 'acct_bench' })
      const bare = () => bareCharges[name](url)
      await p50(charge, 30)
      await p50(bare, 30)
      const { ours, floor } = await interleave({
        rounds: 5,
        ours: () => p50(charge, calls),
        floor: () => p50(bare, calls),
      })
      results.push({
        promise: `a charge through the adapter to ${name}, beside a bare fetch`,
        unit: 'ms (p50)',
        ours,
        floor,
        ratio: ours / floor,
        goal: 'ours - floor <= 1',
      })
    } finally {
      await stage.close()
    }
  }
  return results
}

const atOnce = 300

async function renewalsBesideSandbox(): Promise<BenchResult[]> {
  const results: BenchResult[] = []
  for (const name of names) {
    const stages = [await openStage(), await openStage()]
    try {
      const [simulated, sandbox] = await Promise.all(
        [name, 'sandbox'].map(async (one, at) => {
          const api = await stages[at]!.start('./provider-renewal-process.ts', [one])
          await storeSubscriptions(stages[at]!, api, 2_500)
          await renew(api.process, 200)
          return api
        }),
      )
      const measured = await interleave({
        rounds: 5,
        ours: () => renew(simulated!.process, atOnce),
        floor: () => renew(sandbox!.process, atOnce),
      })
      results.push({
        promise: `renewals over the simulator of ${name}, beside the sandbox`,
        unit: 'renewals/s',
        ...measured,
        goal: 'ratio >= 0.8',
      })
    } finally {
      for (const stage of stages) await stage.close()
    }
  }
  return results
}

async function p50(call: () => Promise<unknown>, times: number): Promise<number> {
  const took: number[] = []
  for (let n = 0; n < times; n++) {
    const before = performance.now()
    await call()
    took.push(performance.now() - before)
  }
  return median(took)
}

const timeoutMs = 10_000
const adapters: Readonly<Record<Name, (url: string) => Provider>> = {
  stripe: (baseUrl) => stripeProvider({ secretKey: 'sk_test_bench', baseUrl, timeoutMs }),
  toss: (baseUrl) => tossProvider({ secretKey: 'test_sk_bench', baseUrl, timeoutMs }),
  portone: (baseUrl) =>
    portoneProvider({ apiSecret: 'bench', storeId: 's', channelKey: 'c', baseUrl, timeoutMs }),
}

function asked() {
  const key = `pay_${randomUUID().replaceAll('-', '')}`
  return { key, amount: { minor: 9900n, currency: 'KRW' as const }, description: 'Pro' }
}

/** The same calls of the same content by `fetch`, believing whatever is answered. */
const bareCharges: Readonly<Record<Name, (url: string) => Promise<void>>> = {
  async stripe(url) {
    const { key } = asked()
    const form = new URLSearchParams({
      amount: '9900',
      currency: 'krw',
      payment_method: 'bk_test_ok',
      off_session: 'true',
      confirm: 'true',
      description: 'Pro',
      'metadata[order_id]': key,
      'metadata[account_id]': 'acct_bench',
      'expand[0]': 'latest_charge',
    })
    await answered(`${url}/v1/payment_intents`, `Bearer sk_test_bench`, key, String(form), true)
  },
  async toss(url) {
    const { key } = asked()
    const body = { amount: 9900, customerKey: 'acct_bench', orderId: key, orderName: 'Pro' }
    const authorization = `Basic ${Buffer.from('test_sk_bench:').toString('base64')}`
    await answered(`${url}/v1/billing/bk_test_ok`, authorization, key, JSON.stringify(body))
  },
  // Two calls, because a paid answer names no amount: whoever wants to know it looks.
  async portone(url) {
    const { key } = asked()
    const body = { billingKey: 'bk_test_ok', orderName: 'Pro', amount: { total: 9900 }, currency: 'KRW' }
    await answered(`${url}/payments/${key}/billing-key`, 'PortOne bench', `"${key}"`, JSON.stringify(body))
    await answered(`${url}/payments/${key}`, 'PortOne bench')
  },
}

async function answered(url: string, authorization: string, key?: string, body?: string, isForm = false) {
  const answer = await fetch(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      authorization,
      ...(key !== undefined && { 'idempotency-key': key }),
      ...(body !== undefined && {
        'content-type': isForm ? 'application/x-www-form-urlencoded' : 'application/json',
      }),
    },
    ...(body !== undefined && { body }),
  })
  await answer.json()
  if (!answer.ok) throw new Error(`the bare call was answered ${answer.status}`)
}

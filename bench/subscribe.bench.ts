import { setTimeout as sleep } from 'node:timers/promises'
import { type BenchResult, interleave, median } from './result.ts'
import { sized } from './size.ts'
import { openStage } from './stage.ts'

/**
 * What subscribing adds to the provider's own time: our route's median against the provider's, one at a time; and how far that is
 * from what its own durable writes cost here: against a bare handler that does no more than write the same rows and charge.
 */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    const api = await stage.start('./renewal-process.ts')
    const authorization = `Bearer ${api.token}`
    const bare = await stage.start('./bare-subscribe-process.ts', [api.sandboxUrl!, api.sandboxKey!])
    let n = 0
    const times = async (ask: (n: number) => Promise<Response>, status: number) => {
      const ms: number[] = []
      for (let at = 0; at < sized(60, 10); at++) {
        ms.push(await timeOf(() => ask(n++), status))
      }
      return ms
    }
    const post = (url: string, body: unknown, headers: Record<string, string>) =>
      fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      })
    const asked = (at: number) =>
      [
        { account_id: `s_${at}`, plan_id: 'pro-monthly', payment_method: { billing_key: 'bk_test_ok' } },
        { authorization, 'idempotency-key': `k_${at}` },
      ] as const
    const subscribe = (at: number) => post(`http://127.0.0.1:${api.port}/api/billing/subscribe`, ...asked(at))
    const subscribeBare = (at: number) => post(`http://127.0.0.1:${bare.port}/subscribe`, ...asked(at))
    const charge = (at: number) =>
      post(
        `${api.sandboxUrl}/v1/charges`,
        {
          reference: `bench_${at}`,
          billing_key: 'bk_test_ok',
          account_id: `p_${at}`,
          amount: 29000,
          currency: 'KRW',
          description: 'x',
        },
        { authorization: `Bearer ${api.sandboxKey}`, 'idempotency-key': `"bench_${at}"` },
      )
    const measured = await interleave({
      rounds: 7,
      ours: async () => median(await times(subscribe, 201)),
      floor: async () => median(await times(charge, 200)),
    })
    const besideBare = await interleave({
      rounds: 7,
      ours: async () => median(await times(subscribe, 201)),
      floor: async () => median(await times(subscribeBare, 201)),
    })
    const paced = await interleave({
      rounds: 3,
      ours: async () => p99(await pacedTimes(() => subscribe(n++), 201)),
      floor: async () => p99(await pacedTimes(() => charge(n++), 200)),
    })
    return [
      {
        promise: 'subscribe, beside the provider alone (p50)',
        unit: 'ms',
        ...measured,
        goal: 'ours - floor <= 6',
      },
      {
        promise: `subscribe at ${perSecond} a second, beside the provider alone (p99)`,
        unit: 'ms',
        ...paced,
        goal: 'ours - floor <= 30',
      },
      {
        promise: 'subscribe, beside its durable writes alone around the same charge (p50)',
        unit: 'ms',
        ...besideBare,
        goal: 'told in docs/scaling.md',
      },
    ]
  } finally {
    await stage.close()
  }
}

const perSecond = 50

/** One request every so often, whether or not those before are answered, as callers who know nothing of each other ask. */
async function pacedTimes(ask: () => Promise<Response>, status: number): Promise<number[]> {
  const times: Promise<number>[] = []
  const startedAt = performance.now()
  for (let at = 0; at < perSecond * sized(20, 2); at++) {
    await sleep(Math.max(0, startedAt + (at * 1000) / perSecond - performance.now()))
    times.push(timeOf(ask, status))
  }
  return Promise.all(times)
}

async function timeOf(ask: () => Promise<Response>, status: number): Promise<number> {
  const askedAt = performance.now()
  const answer = await ask()
  await answer.arrayBuffer()
  if (answer.status !== status) throw new Error(`answered ${answer.status}`)
  return performance.now() - askedAt
}

function p99(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.99)]!
}

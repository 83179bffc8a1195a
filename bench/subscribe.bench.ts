import { type BenchResult, interleave, median } from './result.ts'
import { openStage } from './stage.ts'

/** What subscribing adds to the provider's own time: our route's median against the provider's, one at a time. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    const api = await stage.start('./renewal-process.ts')
    const authorization = `Bearer ${api.token}`
    let n = 0
    const times = async (ask: (n: number) => Promise<Response>, status: number) => {
      const ms: number[] = []
      for (let at = 0; at < 60; at++) {
        const startedAt = performance.now()
        const answer = await ask(n++)
        await answer.arrayBuffer()
        ms.push(performance.now() - startedAt)
        if (answer.status !== status) throw new Error(`answered ${answer.status}`)
      }
      return median(ms)
    }
    const post = (url: string, body: unknown, headers: Record<string, string>) =>
      fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      })
    const measured = await interleave({
      rounds: 7,
      ours: () =>
        times(
          (at) =>
            post(
              `http://127.0.0.1:${api.port}/api/billing/subscribe`,
              {
                account_id: `s_${at}`,
                plan_id: 'pro-monthly',
                payment_method: { billing_key: 'bk_test_ok' },
              },
              { authorization, 'idempotency-key': `k_${at}` },
            ),
          201,
        ),
      floor: () =>
        times(
          (at) =>
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
            ),
          200,
        ),
    })
    return [
      {
        promise: 'subscribe, beside the provider alone (p50)',
        unit: 'ms',
        ...measured,
        goal: 'ours - floor <= 10',
      },
    ]
  } finally {
    await stage.close()
  }
}

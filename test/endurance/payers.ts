import { setTimeout as sleep } from 'node:timers/promises'
import { seededRandom } from '../simulation/random.ts'
import { again, arrive } from './arrivals.ts'
import { type Call, type Client, dataOf, openClient, type Tally } from './client.ts'

/**
 * Customers who come at a steady pace whatever the provider does: some subscribe, some want money back, and the clock
 * brings renewals. Nobody tries again by itself; `repeatDoubtful` does so when all is well.
 */
export type Payers = {
  readonly tally: Tally
  stop(): Promise<void>
  /** Repeats each subscribe that got no final answer, with its key, and lists those that still get none. */
  repeatDoubtful(withinMs: number): Promise<string[]>
}

const subscribesPerSecond = 5
const refundsPerSecond = 2
// A hang lasts for less than the day after which the provider forgets a key.
const clockEveryMs = 4_000
// These renew every day of the moved clock; the others have come to stay for a month.
const daily = 60

export async function openPayers(url: string, token: string, seed: number): Promise<Payers> {
  const client = openClient({ url: () => url, token, connections: 1_000 })
  await client.ask('PUT /api/billing/plans/{plan_id}', {
    at: ['daily'],
    body: { name: 'Daily', amount: 900, currency: 'KRW', interval: 'day' },
    expect: [200, 201],
  })
  const random = seededRandom(seed)
  const doubtful: Call[] = []
  const accounts: string[] = []
  let made = 0

  const subscribe = async () => {
    const account_id = `payer_${++made}`
    const call: Call = {
      body: {
        account_id,
        plan_id: made <= daily ? 'daily' : 'pro-monthly',
        payment_method: { billing_key: 'bk_test_ok' },
      },
      headers: { 'idempotency-key': `subscribe-${account_id}` },
      // 202: nobody knows yet. 503: certainly nothing was sent.
      expect: [201, 202, 503],
    }
    const { status } = await client.ask('POST /api/billing/subscribe', call)
    if (status === 201) accounts.push(account_id)
    else doubtful.push(call)
  }
  const refund = async () => {
    if (accounts.length > 0) await refundSome(client, random.pick(accounts), `refund-${++made}`)
  }
  const turnClock = () =>
    client.ask('POST /api/sandbox/clock', { body: { advance_by: 'PT2H' }, expect: [200, 202] })

  const arrivals = [
    arrive(1000 / subscribesPerSecond, subscribe),
    arrive(1000 / refundsPerSecond, refund),
    again(clockEveryMs, turnClock),
  ]
  return {
    tally: client.tally,
    async stop() {
      await Promise.all(arrivals.map((one) => one.stop()))
    },
    async repeatDoubtful(withinMs) {
      const until = performance.now() + withinMs
      let open = doubtful
      while (open.length > 0 && performance.now() < until) {
        const left: Call[] = []
        for (const call of open) {
          const { status } = await client.ask('POST /api/billing/subscribe', call)
          if (status !== 201) left.push(call)
        }
        open = left
        if (open.length > 0) await sleep(500)
      }
      client.close()
      return open.map(({ body }) => (body as { account_id: string }).account_id)
    },
  }
}

async function refundSome(client: Client, account_id: string, key: string): Promise<void> {
  const query = { account_id, status: 'paid' }
  const listed = await client.ask('GET /api/billing/invoices', { query, expect: [200] })
  const [invoice] = dataOf(listed).invoices ?? []
  if (!invoice) return
  await client.ask('POST /api/billing/refund', {
    body: { invoice_id: invoice.invoice_id, amount: 100 },
    headers: { 'idempotency-key': key },
    // 409: an earlier one is in doubt.
    expect: [200, 202, 409, 503],
  })
}

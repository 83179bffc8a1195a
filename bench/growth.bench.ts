import { costOf, count, growthGoal as goal, onTwoStages } from './growing.ts'
import { renew } from './renew.ts'
import { type BenchResult, interleave } from './result.ts'
import { sized } from './size.ts'
import { openStage, type Started } from './stage.ts'
import { storeSubscriptions } from './stored-subscriptions.ts'

/** What one unit of work costs when much is stored, against the same when little is. */
export async function bench(): Promise<BenchResult[]> {
  return [...(await pagesAtDepth()), await renewals(), await lookups()]
}

async function renewals(): Promise<BenchResult> {
  const [few, many] = [sized(10_000, 500), sized(1_000_000, 5_000)]
  return onTwoStages(async (open) => {
    const [small, large] = [few, many].map((stored) => async () => {
      const stage = await open()
      const api = await stage.start('./renewal-process.ts')
      await storeSubscriptions(stage, api, stored)
      await renew(api.process, sized(200, 20))
      return api
    })
    const [first, second] = [await large!(), await small!()]
    const cost = async (api: Started) => 1000 / (await renew(api.process, sized(300, 40)))
    const measured = await interleave({ rounds: 5, ours: () => cost(first), floor: () => cost(second) })
    return {
      promise: `a renewal with ${count(many)} stored, not ${count(few)}`,
      unit: 'ms',
      ...measured,
      goal,
    }
  })
}

const monthsEach = 12

async function lookups(): Promise<BenchResult> {
  const [few, many] = [sized(1_000_000, 5_000), sized(20_000_000, 50_000)]
  return onTwoStages(async (open) => {
    const filled = async (rows: number) => {
      const stage = await open()
      const keywords = Math.floor(rows / monthsEach)
      await stage.db.query(
        `insert into batch.monthly_volume
           (key, source, month, volume, volume_min, volume_max, quality, days_observed, updated_at)
         select 'keyword ' || k, 'naver', m::date, k, k, k, 'reported', 30, now()
         from generate_series(0, $1 - 1) k, generate_series('2025-11-01'::date, '2026-10-01', '1 month') m`,
        [keywords],
      )
      await stage.db.query('vacuum analyze batch.monthly_volume')
      const api = await stage.start('./api-process.ts')
      return () =>
        costOf(stage, api, '/api/batch/volumes/keyword%20{n}?workspace_id=ws_{n}', { spread: keywords })
    }
    const [large, small] = [await filled(many), await filled(few)]
    const measured = await interleave({ rounds: 5, ours: large, floor: small })
    const promise = `a volume lookup among ${count(many)} rows, not ${count(few)}`
    return { promise, unit: 'µs/request', ...measured, goal }
  })
}

const pages = {
  invoices: '/api/billing/invoices?',
  events: '/api/billing/events?',
  upcoming: '/api/billing/upcoming?until=2099-01-01T00:00:00Z&',
} as const

/** A page of a list that begins after so many entries, against one near its beginning. */
async function pagesAtDepth(): Promise<BenchResult[]> {
  const deep = sized(10_000, 1_000)
  // A client that asks as fast as it is answered asks more often than a token may.
  const stage = await openStage({ BILLING_RATE: '0' })
  try {
    const api = await stage.start('./renewal-process.ts')
    await storeSubscriptions(stage, api, deep * 3)
    await stage.db.query(
      `update billing.subscription set next_billing_at = now() + right(id, 8)::int * interval '1 minute',
         anchor = now() + right(id, 8)::int * interval '1 minute' - (last_k + 1) * interval '1 month' where id like 'sub_stored_%'`,
    )
    await stage.db.query(
      `insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start, period_end, issued_at, status, amount_paid, paid_at)
       select 'inv_0' || right(id, 8), account_id, id, 99, 'x', amount, currency, now(), now() + interval '1 month', now(), 'paid', amount, now()
       from billing.subscription where id like 'sub_stored_%'`,
    )
    await stage.db.query(
      `insert into billing.event (id, type, account_id, subscription_id, occurred_at, data)
       select 'evt_0' || right(id, 8), 'invoice.paid', account_id, id, now(), '{}' from billing.subscription where id like 'sub_stored_%'`,
    )
    await stage.db.query('vacuum analyze')
    const results: BenchResult[] = []
    for (const [list, path] of Object.entries(pages)) {
      const at = async (depth: number) => {
        const cursor = await cursorAt(api, path, depth)
        return () => costOf(stage, api, `${path}limit=20&cursor=${cursor}`, { spread: 1, connections: 4 })
      }
      const measured = await interleave({ rounds: 5, ours: await at(deep), floor: await at(10) })
      const promise = `a page of ${list} at depth ${count(deep)}, not 10`
      results.push({ promise, unit: 'µs/request', ...measured, goal })
    }
    return results
  } finally {
    await stage.close()
  }
}

async function cursorAt(api: Started, path: string, depth: number): Promise<string> {
  let cursor: string | null = null
  for (let seen = 0; seen < depth; ) {
    const limit = Math.min(100, depth - seen)
    const url: string = `http://127.0.0.1:${api.port}${path}limit=${limit}${cursor ? `&cursor=${cursor}` : ''}`
    const answer = await fetch(url, { headers: { authorization: `Bearer ${api.token}` } })
    const { data } = (await answer.json()) as { data: { next_cursor: string | null } }
    if (data.next_cursor === null) throw new Error(`The list ends before ${depth}.`)
    cursor = data.next_cursor
    seen += limit
  }
  return cursor!
}

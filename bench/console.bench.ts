import type { Page } from 'playwright-core'
import { openBrowser } from '../test/browser/open-browser.ts'
import { type BuiltServe, startBuiltServe } from './built-serve.ts'
import { type BenchResult, interleave, median } from './result.ts'
import { sized } from './size.ts'
import { openStage, type Stage } from './stage.ts'
import { storeSubscriptions } from './stored-subscriptions.ts'

const many = sized(1_000_000, 5_000)
const rounds = sized(5, 2)
const MOST_SECONDS = 2

/** What the console's first page needs of a large installation, beside one bare pass over its tables, and how soon it is of use. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  const serve = await startBuiltServe(stage)
  try {
    await storeSubscriptions(stage, serve, many)
    await storeKeywords(stage)
    const told = many.toLocaleString('en')
    const billing = await besidePass(
      serve,
      '/api/billing/summary',
      stage,
      'select status, sum(amount) from billing.subscription group by 1',
    )
    const batch = await besidePass(
      serve,
      '/api/batch/summary',
      stage,
      'select count(*) from batch.keyword where removed_at is null',
    )
    const seconds = await coldLoad(serve)
    return [
      { promise: `the billing summary of ${told} subscriptions`, ...billing, goal: 'ratio <= 4' },
      { promise: `the batch summary of ${told} keywords`, ...batch, goal: 'ratio <= 4' },
      {
        promise: `the console's first page on a cold load, with ${told} of each`,
        unit: 's',
        ours: seconds,
        floor: MOST_SECONDS,
        ratio: seconds / MOST_SECONDS,
        goal: `ours <= ${MOST_SECONDS}`,
      },
    ]
  } finally {
    serve.process.kill('SIGKILL')
    await stage.close()
  }
}

async function storeKeywords({ db }: Stage): Promise<void> {
  await db.query(
    `insert into batch.keyword (workspace_id, key, display, created_at)
     select 'ws_' || n % 200, 'term ' || n, 'term ' || n, now() from generate_series(1, $1) n`,
    [many],
  )
  await db.query(`
    insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, checked_at)
    select workspace_id, id, current_date - 1, 'naver', 'mobile', 'KR', 'ranked', 1 + id % 100, 100, now() from batch.keyword`)
  await db.query('vacuum analyze')
}

/** The time of an answer that nobody remembers, and of one pass over the table it tells of. */
async function besidePass({ base, token }: BuiltServe, path: string, { db }: Stage, pass: string) {
  const timeOf = async (work: () => Promise<unknown>) => {
    const startedAt = performance.now()
    await work()
    return performance.now() - startedAt
  }
  const ask = async () => {
    const answer = await fetch(base + path, { headers: { authorization: `Bearer ${token}` } })
    await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}`)
  }
  const measured = await interleave({
    rounds,
    ours: () => timeOf(ask),
    floor: () => timeOf(() => db.query(pass)),
  })
  return { unit: 'ms', ...measured }
}

/** From asking for the page with nothing in the browser's cache until its numbers are there. */
async function coldLoad({ base, token }: BuiltServe): Promise<number> {
  const { browser, close } = await openBrowser()
  try {
    const first = await browser.newContext({ locale: 'en-US' })
    const page = await first.newPage()
    await page.goto(`${base}/console/`)
    await page.getByLabel('Access token').first().fill(token)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await ready(page)
    const signedIn = await first.storageState()
    const seconds: number[] = []
    for (let round = 0; round < rounds; round++) {
      const context = await browser.newContext({ locale: 'en-US', storageState: signedIn })
      const visit = await context.newPage()
      const startedAt = performance.now()
      await visit.goto(`${base}/console/`, { waitUntil: 'commit' })
      await ready(visit)
      seconds.push((performance.now() - startedAt) / 1000)
      await context.close()
    }
    return median(seconds)
  } finally {
    await close()
  }
}

/** The number of active subscriptions is the first thing anybody looks for; the model's own is one of them. */
async function ready(page: Page): Promise<void> {
  await page
    .getByText((many + 1).toLocaleString('en'))
    .first()
    .waitFor()
}

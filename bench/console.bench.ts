import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { openBrowser } from '../test/browser/open-browser.ts'
import { type BuiltServe, startBuiltServe } from './built-serve.ts'
import { type BenchResult, interleave, median } from './result.ts'
import { sized } from './size.ts'
import { openStage, type Stage } from './stage.ts'
import { storeSubscriptions } from './stored-subscriptions.ts'

const many = sized(1_000_000, 5_000)
const rounds = sized(5, 2)
const MOST_SECONDS = 2

/**
 * What the console's first page needs of a large installation, beside one bare pass over its tables, and how soon it is of
 * use: to the first who look, for whom the summaries are made, and to those after them, who are shown the same ones.
 */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    await onFreshServe(stage, (serve) => storeSubscriptions(stage, serve, many))
    await storeKeywords(stage)
    const told = many.toLocaleString('en')
    const billing = await besidePass(
      stage,
      '/api/billing/summary',
      '?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z',
      'select status, sum(amount) from billing.subscription group by 1',
    )
    const batch = await besidePass(
      stage,
      '/api/batch/summary',
      '?workspace_id=ws_0',
      'select count(*) from batch.keyword where removed_at is null',
    )
    const { first, again } = await visitSeconds(stage)
    const page = (seconds: number) => ({
      unit: 's',
      ours: seconds,
      floor: MOST_SECONDS,
      ratio: seconds / MOST_SECONDS,
      goal: `ours <= ${MOST_SECONDS}`,
    })
    return [
      { promise: `the billing summary of ${told} subscriptions, made anew`, ...billing, goal: 'ratio <= 4' },
      { promise: `the batch summary of ${told} keywords, made anew`, ...batch, goal: 'ratio <= 4' },
      { promise: `the console's first page for its first visitor, with ${told} of each`, ...page(first) },
      { promise: 'the same while the summaries are remembered', ...page(again) },
    ]
  } finally {
    await stage.close()
  }
}

/** A service that remembers no summary. Its sweeps have looked round once, and it has connections. */
async function onFreshServe<T>(stage: Stage, work: (serve: BuiltServe) => Promise<T>): Promise<T> {
  const serve = await startBuiltServe(stage)
  try {
    await sleep(2_000)
    await ask(serve, '/api/billing/plans')
    return await work(serve)
  } finally {
    serve.process.kill('SIGTERM')
    await once(serve.process, 'exit')
  }
}

async function ask({ base, token }: BuiltServe, path: string): Promise<void> {
  const answer = await fetch(base + path, { headers: { authorization: `Bearer ${token}` } })
  await answer.arrayBuffer()
  if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}`)
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

/**
 * The time of an answer that nobody remembers, and of one pass over the table it tells of. Another answer of the same kind
 * is asked for before, so that what a process does once is not counted.
 */
async function besidePass(stage: Stage, path: string, another: string, pass: string) {
  const measured = await interleave({
    rounds,
    ours: () =>
      onFreshServe(stage, async (serve) => {
        await ask(serve, path + another)
        return msOf(() => ask(serve, path))
      }),
    floor: () => msOf(() => stage.db.query(pass)),
  })
  return { unit: 'ms', ...measured }
}

async function msOf(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

/** From asking for the page with nothing in the browser's cache until its numbers are there. */
async function visitSeconds(stage: Stage): Promise<{ first: number; again: number }> {
  const { browser, close } = await openBrowser()
  try {
    const signedIn = await onFreshServe(stage, (serve) => signIn(browser, serve))
    const first: number[] = []
    const again: number[] = []
    for (let round = 0; round < rounds; round++)
      await onFreshServe(stage, async ({ base }) => {
        for (const seconds of [first, again]) seconds.push((await msOfVisit(browser, base, signedIn)) / 1000)
      })
    return { first: median(first), again: median(again) }
  } finally {
    await close()
  }
}

type SignedIn = NonNullable<BrowserContextOptions['storageState']>

async function signIn(browser: Browser, { base, token }: BuiltServe): Promise<SignedIn> {
  const context = await browser.newContext({ locale: 'en-US' })
  const page = await context.newPage()
  await page.goto(`${base}/console/`)
  await page.getByLabel('Access token').first().fill(token)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await ready(page)
  const signedIn = await context.storageState()
  await context.close()
  return signedIn
}

async function msOfVisit(browser: Browser, base: string, storageState: SignedIn): Promise<number> {
  const context = await browser.newContext({ locale: 'en-US', storageState })
  const visit = await context.newPage()
  const ms = await msOf(async () => {
    await visit.goto(`${base}/console/`, { waitUntil: 'commit' })
    await ready(visit)
  })
  await context.close()
  return ms
}

/** The number of active subscriptions is the first thing anybody looks for; the model's own is one of them. */
async function ready(page: Page): Promise<void> {
  await page
    .getByText((many + 1).toLocaleString('en'))
    .first()
    .waitFor()
}

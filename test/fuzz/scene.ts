import { setTimeout as sleep } from 'node:timers/promises'
import { cleanOne } from '../../src/batch/keywords/clean-keywords.ts'
import { registerKeywords } from '../../src/batch/keywords/register-keywords.ts'
import type { RankObservation } from '../../src/batch/ranks/rank.ts'
import { recordRanks } from '../../src/batch/ranks/record-ranks.ts'
import { putTracker } from '../../src/batch/tracking/put-tracker.ts'
import { putTrend } from '../../src/batch/trends/put-trend.ts'
import type { StoredTrend } from '../../src/batch/trends/trend.ts'
import { tokenIdOf } from '../../src/platform/access/token.ts'
import { startWorker } from '../../src/worker.ts'
import type { Service } from './service.ts'

export const prefixes = ['sub_', 'inv_', 'pay_', 'rl_', 'ref_', 'evt_', 'run_', 'mdl_'] as const
export type Prefix = (typeof prefixes)[number]

/** What exists in the world that is fuzzed, so that a request can name it. */
export type Scene = {
  /** All may do everything; half of them are bound to the workspace of their place, the others to none. */
  readonly tokens: readonly string[]
  readonly workspaces: readonly string[]
  /** Good tokens that may do nothing here: read-only, of another tenant. */
  readonly weakTokens: readonly string[]
  readonly accounts: readonly string[]
  readonly plans: readonly string[]
  readonly keywords: readonly string[]
  /** Ids of tokens that nobody uses, to be revoked. */
  readonly spareTokens: readonly string[]
  /** Jobs that failed for good. */
  readonly deadJobs: readonly string[]
  readonly today: string
  readonly webhookSecret: string
  readonly hintSecret: string
  ids(prefix: Prefix): readonly string[]
  /** A cursor that this list gave out. */
  cursorOf(operation: string): string | undefined
  /** Learns the ids and the cursor of an answer. */
  learn(operation: string, text: string): void
}

const keywords = ['나이키 운동화', 'running shoes', 'kaffee', '靴', 'trail 42']
const plans = ['starter-monthly', 'pro-monthly', 'pro-yearly', 'global-monthly']
const today = '2030-01-15'
const mostKept = 400

/** Fills a service with all that requests may speak of: subscriptions in every state, money, ranks, a model. */
export async function furnish(service: Service, tokenCount: number): Promise<Scene> {
  const workspaces = Array.from({ length: tokenCount }, (_, at) => `ws-${at}`)
  const tokens = await Promise.all(
    workspaces.map((workspace, at) => service.makeToken({ workspace: at % 2 === 0 ? workspace : '*' })),
  )
  const weakTokens = await Promise.all([
    service.makeToken({ scopes: ['billing:read'], workspace: null, account: 'acct-0' }),
    service.makeToken({ scopes: ['batch:read'], workspace: 'ws-elsewhere', account: null }),
    service.makeToken({ workspace: 'ws-elsewhere', account: 'acct-elsewhere', scopes: ['billing:refund'] }),
  ])
  const accounts = Array.from({ length: 40 }, (_, at) => `acct-${at}`)
  const scene: Scene = {
    spareTokens: await makeSpareTokens(service, 60),
    deadJobs: await makeDeadJobs(service, 60),
    tokens,
    workspaces,
    weakTokens,
    accounts,
    plans,
    keywords,
    today,
    webhookSecret: service.webhookSecret,
    hintSecret: service.hintSecret,
    ...openMemory(),
  }
  const ask = asking(service, scene, tokens)
  await ask('POST', '/api/sandbox/clock', { advance_to: '2029-12-10T12:00:00Z' })
  await furnishBilling(ask, accounts)
  await ask('POST', '/api/sandbox/clock', { advance_to: `${today}T12:00:00Z` })
  await leaveOneInDoubt(ask)
  await furnishBatch(service, ask, workspaces)
  return scene
}

async function makeSpareTokens(service: Service, count: number): Promise<string[]> {
  const made = Array.from({ length: count }, () => service.makeToken({ scopes: ['batch:read'] }))
  return (await Promise.all(made)).map(tokenIdOf)
}

async function makeDeadJobs({ app }: Service, count: number): Promise<string[]> {
  const { rows } = await app.pool.query<{ id: string }>(
    `select (graphile_worker.add_job('fuzzed', '{}'::json, max_attempts := 1)).id::text from generate_series(1, $1)`,
    [count],
  )
  await app.pool.query(
    `update graphile_worker._private_jobs set attempts = max_attempts, last_error = 'meant to'
    where id = any($1::bigint[])`,
    [rows.map(({ id }) => id)],
  )
  return rows.map(({ id }) => id)
}

function openMemory(): Pick<Scene, 'ids' | 'cursorOf' | 'learn'> {
  const ids = new Map<string, string[]>(prefixes.map((prefix) => [prefix, []]))
  const cursors = new Map<string, string>()
  const form = new RegExp(`\\b(${prefixes.join('|')})[0-9A-Za-z]{16,40}\\b`, 'g')
  let learned = 0
  return {
    ids: (prefix) => ids.get(prefix) ?? [],
    cursorOf: (operation) => cursors.get(operation),
    learn(operation, text) {
      for (const [id, prefix] of text.matchAll(form)) {
        const known = ids.get(prefix!)!
        if (known.includes(id)) continue
        // The old make room for the new, so that requests go on meeting things that are alive.
        if (known.length < mostKept) known.push(id)
        else known[learned++ % mostKept] = id
      }
      const cursor = /"next_cursor":"([\w-]+)"/.exec(text)?.[1]
      if (cursor !== undefined) cursors.set(operation, cursor)
    },
  }
}

type Asking = (method: string, path: string, body?: unknown) => Promise<{ data: Record<string, string> }>

/** Asks as a good caller does; an answer other than a success or a decline ends the run before it begins. */
function asking(service: Service, scene: Scene, tokens: readonly string[]): Asking {
  let turn = 1
  return async (method, path, body) => {
    // Tokens without a workspace, in turn, so that no bucket fills before the fuzzing starts.
    turn = ((turn + 2) % tokens.length) | 1
    const answer = await fetch(service.url + path, {
      method,
      headers: {
        authorization: `Bearer ${tokens[turn % tokens.length]}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (answer.status >= 400 && answer.status !== 402)
      throw new Error(`${method} ${path} answered ${answer.status} while furnishing: ${text}`)
    scene.learn(`${method} ${path}`, text)
    return JSON.parse(text)
  }
}

/** Every fourth account is on trial, and has none. */
const cards = [
  'bk_test_ok',
  'bk_test_ok',
  'bk_test_fails_on_renewal',
  'bk_test_ok',
  'bk_test_ok',
  'bk_test_refund_fails',
  'bk_test_insufficient_funds',
  'bk_test_ok',
] as const

/** Thirty subscribers a month old, of whom some cancel, some fail to pay and some got money back; and ten on trial. */
async function furnishBilling(ask: Asking, accounts: readonly string[]): Promise<void> {
  for (const [at, account_id] of accounts.entries()) {
    if (at % 4 === 3) {
      await ask('POST', '/api/billing/trial', { account_id, plan_id: plans[at % plans.length] })
      continue
    }
    const { data } = await ask('POST', '/api/billing/subscribe', {
      account_id,
      plan_id: plans[at % plans.length],
      payment_method: { billing_key: cards[at % cards.length] },
      timezone: ['UTC', 'Asia/Seoul', 'America/New_York'][at % 3],
      customer: { email: `person${at}@example.com`, name: `김 Person ${at}` },
    })
    if (data === undefined) continue
    const { subscription_id } = data
    if (at % 5 === 1) await ask('POST', '/api/billing/cancel', { subscription_id, reason: 'too dear' })
  }
  await ask('GET', '/api/billing/invoices?status=paid&limit=100')
  const paid = (await ask('GET', '/api/billing/invoices?status=paid&limit=12')).data as unknown as {
    invoices: { invoice_id: string }[]
  }
  for (const { invoice_id } of paid.invoices)
    await ask('POST', '/api/billing/refund', { invoice_id, amount: 100, note: 'sorry' })
  await ask('GET', '/api/billing/subscriptions?limit=100')
  await ask('GET', '/api/billing/events?limit=100')
}

/** A first charge that the provider neither confirms nor denies. */
async function leaveOneInDoubt(ask: Asking): Promise<void> {
  await ask('POST', '/api/sandbox/provider/faults', { error_before_rate: 1, lookup_error_rate: 1 })
  await ask('POST', '/api/billing/subscribe', {
    account_id: 'acct-in-doubt',
    plan_id: 'starter-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  })
  await ask('POST', '/api/sandbox/provider/faults', {})
}

const tracker = {
  site: 'example.com',
  match: 'host',
  engine: 'naver',
  device: 'mobile',
  location: 'KR',
  depth: 10,
  source: 'serpapi',
  every: 'month',
  keywords: 'all',
} as const

async function furnishBatch(service: Service, ask: Asking, workspaces: readonly string[]): Promise<void> {
  const { batch } = service.app
  for (const workspace of workspaces) {
    await registerKeywords(batch, workspace, keywords)
    await recordRanks(batch, workspace, ranksOf(keywords, 3))
    await putTracker(batch, workspace, 'tracker-0', tracker, { isForAll: true })
  }
  const many = Array.from({ length: 200 }, (_, at) => `wandering ${at}`)
  for (const half of [many.slice(0, 100), many.slice(100)]) {
    await registerKeywords(batch, workspaces[0]!, half)
    for (let at = 0; at < half.length; at += 50)
      await recordRanks(batch, workspaces[0]!, ranksOf(half.slice(at, at + 50), 8))
  }
  await ask('POST', '/api/batch/volumes', {
    observations: keywords.map((keyword, at) => ({
      keyword,
      source: 'naver',
      kind: 'month',
      day: '2029-12-01',
      volume: 1000 * (at + 1),
    })),
  })
  for (const keyword of keywords) await putTrend(batch, trendOf(cleanOne(keyword, 'keyword').key))
  const worker = startWorker(service.app)
  try {
    // The clock has passed the hours at which some runs start by themselves.
    await runsAtRest(ask)
    for (const task of ['aggregate_volumes', 'train_classifier', 'predict']) await runToEnd(ask, task)
  } finally {
    await worker.stop()
  }
  await ask('GET', '/api/batch/models?limit=100')
}

function trendOf(key: string): StoredTrend {
  return {
    key,
    source: 'naver_datalab',
    every: 'month',
    from: '2029-11-01',
    to: '2029-12-31',
    values: [
      { period: '2029-11-01', ratio: 100 },
      { period: '2029-12-01', ratio: 71.5 },
    ],
    askedOn: today,
  }
}

/** Ranks of the last days that wander up and down, so that every class has its examples. */
function ranksOf(words: readonly string[], days: number): RankObservation[] {
  return words.flatMap((keyword, word) =>
    Array.from({ length: days }, (_, back) => ({
      keyword,
      day: `2030-01-${String(14 - back).padStart(2, '0')}`,
      status: 'ranked' as const,
      position: 1 + ((word * 7 + back * ((word % 3) - 1) * 20 + 300) % 97),
      searched_depth: 100,
    })),
  )
}

async function runToEnd(ask: Asking, task: string): Promise<void> {
  await ask('POST', '/api/batch/trigger', { task })
  await runsAtRest(ask)
}

/** Waits until no run is queued or running; one that failed ends everything. */
async function runsAtRest(ask: Asking): Promise<void> {
  const deadline = performance.now() + 300_000
  for (;;) {
    const { runs } = (await ask('GET', '/api/batch/runs?limit=100')).data as unknown as {
      runs: { task: string; status: string }[]
    }
    const failed = runs.find(({ status }) => status === 'failed')
    if (failed || performance.now() > deadline)
      throw new Error(`runs while furnishing: ${JSON.stringify(runs)}`)
    if (runs.every(({ status }) => status === 'succeeded' || status === 'skipped')) return
    await sleep(50)
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import { startBuiltServe } from './built-serve.ts'
import type { LoadOrder } from './load-process.ts'
import { memoryOf } from './process-memory.ts'
import type { BenchResult } from './result.ts'
import { sized } from './size.ts'
import { openStage, type Stage } from './stage.ts'
import { storeYearOf } from './stored-volumes.ts'

const workspaces = sized(400, 40)
const histories = 20
const invoices = 2_000
const seconds = sized(20, 3)

/**
 * What others feel while one token asks for the most it may, of everything at once: a thousand ranks in 2 MB, the
 * histories of those ranks, full pages of invoices, printed invoices and subscriptions; over as many workspaces as it
 * takes to stay within each one's limit. The service is the real `serve`, worker and all.
 */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  const serve = await startBuiltServe(stage)
  try {
    const { port, base, token: own } = serve
    await fill(stage, base, own)
    const grant = {
      scopes: ['batch:write', 'billing:write', 'billing:refund'],
      workspace: '*',
      account: '*',
    }
    const flooder = (await ask(base, own, 'POST', '/api/tokens', grant)).body.data.token
    const other = (await ask(base, own, 'POST', '/api/tokens', grant)).body.data.token

    await probe(base, other, 3)
    const idle = await probe(base, other, seconds)
    const orders = largest(port, flooder, seconds + 5)
    const flooding = stage.loadAll(orders)
    await sleep(3_000)
    const flooded = await probe(base, other, seconds)
    const answered = await flooding
    for (const [at, { perSecond, statuses }] of answered.entries()) {
      const { method, path } = orders[at]!
      const told = `${method} ${path}: ${perSecond.toFixed(1)} a second, ${JSON.stringify(statuses)}`
      process.stderr.write(`  ${told}\n`)
      const unexpected = Object.keys(statuses).filter(
        (status) => !['200', '201', '202', '429'].includes(status),
      )
      if (unexpected.length > 0 || Object.keys(statuses).length === unexpected.length) throw new Error(told)
    }
    const allowed = Math.max(3 * idle, 50)
    const memory = memoryOf(serve.process.pid!, 'peak')
    return [
      {
        promise: "others' p99 while one token floods with the largest requests of both areas",
        unit: 'ms',
        ours: flooded,
        floor: idle,
        ratio: flooded / allowed,
        goal: 'ours <= max(3 x floor, 50): ratio <= 1',
      },
      {
        promise: 'serve at its largest, under that flood',
        unit: 'MB',
        ours: memory,
        floor: 300,
        ratio: memory / 300,
        goal: 'ours < 300',
      },
    ]
  } finally {
    serve.process.kill('SIGKILL')
    await stage.close()
  }
}

/** Stores what the flood reads: ranks with addresses as long as they may be, and invoices with refunds and long notes. */
async function fill(stage: Stage, base: string, token: string): Promise<void> {
  await storeYearOf(stage.db, 'shoes')
  for (let at = 0; at < workspaces; at++) {
    const keywords = Array.from({ length: 100 }, (_, n) => `keyword ${n}`)
    await ask(base, token, 'POST', '/api/batch/keywords', { workspace_id: `flood_${at}`, keywords })
  }
  await subscribe(base, token, 'model')
  const { invoices: listed } = (await ask(base, token, 'GET', '/api/billing/invoices?account_id=model')).body
    .data
  await ask(base, token, 'POST', '/api/billing/refund', {
    invoice_id: listed[0].invoice_id,
    amount: 1,
    reason: 'other',
    note: '가'.repeat(500),
  })
  await copyInvoices(stage, invoices)
  for (let at = 0; at < 50; at++) await subscribe(base, token, `other_${at}`)
  for (let at = 0; at < histories; at++) {
    const workspace_id = `history_${at}`
    await ask(base, token, 'POST', '/api/batch/keywords', { workspace_id, keywords: ['shoes'] })
    await ask(base, token, 'POST', '/api/batch/ranks', { workspace_id, observations: longHistory() })
  }
  await stage.db.query('vacuum analyze')
}

async function subscribe(base: string, token: string, account: string): Promise<void> {
  const body = { account_id: account, plan_id: 'pro-monthly', payment_method: { billing_key: 'bk_test_ok' } }
  const { status } = await ask(base, token, 'POST', '/api/billing/subscribe', body)
  if (status !== 201) throw new Error(`${account} was answered ${status}.`)
}

/** Many invoices like the model's, each with its payment and refund. */
async function copyInvoices({ db }: Stage, count: number): Promise<void> {
  for (const [table, changed] of [
    ['invoice', `'id', 'inv_1' || lpad(c::text, 25, '0'), 'number', c + 2`],
    [
      'payment',
      `'id', 'pay_1' || lpad(c::text, 25, '0'), 'invoice_id', 'inv_1' || lpad(c::text, 25, '0'), 'provider_reference', 'flood-' || c`,
    ],
    [
      'refund',
      `'id', 'ref_1' || lpad(c::text, 25, '0'), 'payment_id', 'pay_1' || lpad(c::text, 25, '0'),
       'invoice_id', 'inv_1' || lpad(c::text, 25, '0'), 'provider_reference', 'flood-refund-' || c`,
    ],
  ] as const) {
    const columns = (
      await db.query(
        `select string_agg(quote_ident(column_name), ', ') as names from information_schema.columns
         where table_schema = 'billing' and table_name = $1 and is_generated = 'NEVER'`,
        [table],
      )
    ).rows[0].names
    await db.query(
      `insert into billing.${table} (${columns})
       select ${columns} from (
         select (jsonb_populate_record(m, jsonb_build_object(${changed}))).*
         from billing.${table} m, generate_series(0, $1::int - 1) copy (c) where m.account_id = 'model'
       ) copies`,
      [count],
    )
  }
}

/** What one token asks at once. The paths name what is the most one request may ask for. */
function largest(port: number, token: string, forSeconds: number): LoadOrder[] {
  const order = { port, token, seconds: forSeconds, connections: 24, method: 'GET', spread: workspaces }
  return [
    {
      ...order,
      connections: 64,
      method: 'POST',
      path: '/api/batch/ranks',
      body: JSON.stringify({ workspace_id: 'flood_{n}', observations: observations() }),
    },
    { ...order, path: '/api/batch/ranks/shoes?workspace_id=history_{n}&limit=1000', spread: histories },
    { ...order, path: '/api/billing/invoices?account_id=model&limit=100' },
    { ...order, path: '/api/billing/invoices/inv_1{n25}.pdf', spread: invoices },
    {
      ...order,
      method: 'POST',
      path: '/api/billing/subscribe',
      body: JSON.stringify({
        account_id: 'flood_{n}',
        plan_id: 'pro-monthly',
        payment_method: { billing_key: 'bk_test_ok' },
        customer: { name: '가'.repeat(100), email: `${'a'.repeat(60)}@example.com` },
      }),
      spread: Number.MAX_SAFE_INTEGER,
    },
  ]
}

function observations(): object[] {
  return Array.from({ length: 1000 }, (_, n) => ({
    keyword: `keyword ${n % 100}`,
    day: `2026-11-${String(1 + Math.floor(n / 100)).padStart(2, '0')}`,
    status: 'ranked',
    position: 1 + (n % 100),
    url: `https://example.com/${'x'.repeat(1950)}`,
  }))
}

function longHistory(): object[] {
  return Array.from({ length: 1000 }, (_, n) => ({
    keyword: 'shoes',
    day: new Date(Date.UTC(2026, 9, 31) - (n % 250) * 86_400_000).toISOString().slice(0, 10),
    location: `KR-${Math.floor(n / 250)}`,
    status: 'ranked',
    position: 1 + (n % 100),
    url: `https://example.com/${'x'.repeat(1950)}`,
  }))
}
const ordinary = [
  (n: number) => `/api/batch/volumes/shoes?workspace_id=other_${n}`,
  (n: number) => `/api/billing/invoices?account_id=other_${n}`,
  (n: number) => `/api/batch/keywords?workspace_id=flood_${n}`,
  (n: number) => `/api/billing/subscriptions?account_id=other_${n}`,
]

/** Asks twenty times a second, whatever becomes of the answers before, and says how long the slowest hundredth took. */
async function probe(base: string, token: string, forSeconds: number): Promise<number> {
  const taken: Promise<number>[] = []
  for (let at = 0; at < forSeconds * 20; at++) {
    const path = ordinary[at % ordinary.length]!(at % 50)
    taken.push(timed(() => ask(base, token, 'GET', path)))
    await sleep(50)
  }
  const sorted = (await Promise.all(taken)).sort((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * 0.99) - 1]!
}

async function timed(work: () => Promise<{ status: number }>): Promise<number> {
  const startedAt = performance.now()
  const { status } = await work()
  if (status !== 200) throw new Error(`Another one was answered ${status}.`)
  return performance.now() - startedAt
}

// biome-ignore lint/suspicious/noExplicitAny: answers of routes that are tested elsewhere
async function ask(base: string, token: string, method: string, path: string, body?: object): Promise<any> {
  const answer = await fetch(base + path, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: await answer.json() }
}

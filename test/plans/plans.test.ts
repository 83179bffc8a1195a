import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readHistory } from '../../src/batch/dataset/history-rows.ts'
import { runDue as runBatchDue } from '../../src/batch/due.ts'
import { loadModel } from '../../src/batch/models/artifact.ts'
import { findActive } from '../../src/batch/models/model-rows.ts'
import { scoreAll } from '../../src/batch/predictions/predict-ranks.ts'
import { lookUpMovements } from '../../src/batch/ranks/look-up-movements.ts'
import { listDueTurns, nextDue, runDue } from '../../src/billing/due.ts'
import { rollUpDays } from '../../src/billing/summary/roll-up-days.ts'
import { measure } from '../../src/installation/vitals.ts'
import { forgetQuietBuckets } from '../../src/platform/access/rate-limit.ts'
import { forgetOldSessions } from '../../src/platform/access/session-rows.ts'
import { claimUnlogged } from '../../src/platform/alarm.ts'
import { openDb } from '../../src/platform/database/db.ts'
import { forgetOldKeys } from '../../src/platform/idempotency.ts'
import { forgetFreedJobs, freeDeadWorkers } from '../../src/platform/queue/queue-schema.ts'
import { openBook } from '../../src/sandbox/book.ts'
import { dataforseoWire } from '../../src/sandbox/sources/dataforseo-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { startWorker } from '../../src/worker.ts'
import { type Operation, readOperations } from '../fuzz/operations.ts'
import { furnish, type Scene } from '../fuzz/scene.ts'
import { openService, type Service } from '../fuzz/service.ts'
import { type Draft, seedOf, soundRequest } from '../fuzz/sound-request.ts'
import { seededRandom } from '../simulation/random.ts'
import { createDatabase, dropDatabase } from '../world.ts'
import { grow, staysShort, stored } from './grow.ts'
import { cheaperWhole, knownToGrow } from './known-to-grow.ts'
import { leaveChecks } from './leave-checks.ts'
import { leaveDue } from './leave-due.ts'
import {
  genericPlanOf,
  growingParts,
  isTakenForAll,
  listen,
  type PlanNode,
  planOf,
  runOf,
  type Statement,
} from './statements.ts'

let url: string
let service: Service
let source: SourceSandbox
let scene: Scene
/** Every table by its own name, and each history by that of all its months. */
const tables = new Set<string>()
const grown = new Set<string>()

beforeAll(async () => {
  url = await createDatabase()
  source = await openSourceSandbox({ wire: dataforseoWire, slowMs: 1 })
  service = await openService(url, 'silent', {
    DATAFORSEO_LOGIN: 'login',
    DATAFORSEO_PASSWORD: 'sandbox-password',
    DATAFORSEO_BASE_URL: source.url,
    DATAFORSEO_BUDGET_PER_DAY: '5',
  })
  scene = await furnish(service, 8)
  await grow(service.app.pool, 'acct-0')
  const { rows } = await service.app.pool.query(
    `select n.nspname || '.' || c.relname as name, coalesce(r.relname, c.relname) as root, n.nspname as area, c.reltuples > 5000 as has_grown
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     left join pg_inherits i on i.inhrelid = c.oid left join pg_class r on r.oid = i.inhparent
     where n.nspname in ('billing', 'batch', 'platform', 'sandbox') and c.relkind = 'r'`,
  )
  for (const { name, area, root, has_grown } of rows) {
    tables.add(`${area}.${root}`)
    if (has_grown) grown.add(name).add(`${area}.${root}`)
  }
})
afterAll(async () => {
  await service?.close()
  await source?.close()
  if (url) await dropDatabase(url)
})

/** Those that were heard: one that no statement is like any more is taken off the list. */
const metAgain = new Set<string>()

function isKnownToGrow(words: string): boolean {
  const known = Object.keys(knownToGrow).find((one) => words.includes(one))
  if (known !== undefined) metAgain.add(known)
  return known !== undefined
}

/** Lets the server read whole tables and join with them, or only what it finds by keys. */
const byKeys = (only: boolean) =>
  ['seqscan', 'hashjoin', 'mergejoin'].map((way) => `set enable_${way} = ${only ? 'off' : 'on'}`).join('; ')

/** Each statement whose plan grows, with what grows in it: planned with values, run with them, or planned for all values. */
async function growing(
  statements: readonly Statement[],
  isLeftOut: (words: string) => boolean = isKnownToGrow,
): Promise<string[]> {
  const client = await service.app.pool.connect()
  const found: string[] = []
  try {
    await client.query("set statement_timeout = '60s'")
    for (const { text, samples, isPrepared } of statements) {
      const words = text.replace(/\s+/g, ' ')
      if (isLeftOut(words)) continue
      const parts = new Set<string>()
      await client.query(byKeys(cheaperWhole.some((one) => words.includes(one))))
      const note = (of: string, plan: PlanNode | undefined) => {
        for (const part of plan ? growingParts(plan, grown) : []) parts.add(of + part)
      }
      const planned: PlanNode[] = []
      for (const values of samples) {
        const plan = await planOf(client, text, values)
        planned.push(plan)
        note('', plan)
        note('', await runOf(client, text, values))
      }
      const generic = isPrepared ? await genericPlanOf(client, text) : undefined
      if (generic && isTakenForAll(generic, planned)) note('for all values: ', generic)
      if (parts.size > 0) found.push(`${[...parts].join('; ')}\n  ${words.slice(0, 600)}`)
    }
  } finally {
    client.release(true)
  }
  return found
}

test('every table has grown but those that stay short', () => {
  expect([...tables].filter((table) => !grown.has(table)).sort()).toEqual(Object.keys(staysShort).sort())
})

/** What may be asked of all workspaces at once, by whoever may see them all. */
const mayBeOfAll = ({ method, fields }: Operation) =>
  method === 'GET' && fields.some(({ name }) => name === 'workspace_id')

async function ask({ operation, method, path, query, headers, body }: Draft): Promise<number> {
  const answer = await fetch(`${service.url}${path}${query.length > 0 ? `?${query.join('&')}` : ''}`, {
    method,
    headers: headers.filter(([name]) => name !== 'host'),
    ...(body && { body: new Uint8Array(body) }),
  })
  scene.learn(operation.name, await answer.text())
  return answer.status
}

test('no statement of any route reads or sorts a part that grows', async () => {
  const ear = listen()
  const statuses = new Map<string, Set<number>>()
  const operations = await readOperations(service.url)
  const note = ({ name }: Operation, status: number) =>
    statuses.set(name, (statuses.get(name) ?? new Set()).add(status))
  for (const operation of operations)
    for (let k = 0; k < 10; k++)
      note(operation, await ask(soundRequest(operation, seededRandom(seedOf(1, k)), scene, k)))
  for (const operation of operations.filter(mayBeOfAll)) {
    // Every other token is for all.
    const draft = soundRequest(operation, seededRandom(seedOf(1, 1)), scene, 1)
    note(
      operation,
      await ask({ ...draft, query: draft.query.filter((pair) => !pair.startsWith('workspace_id=')) }),
    )
  }
  ear.stop()
  const faults = [...statuses].filter(([, seen]) => seen.has(500) || seen.has(503))
  expect(faults).toEqual([])
  expect(ear.heard().length).toBeGreaterThan(100)
  expect(await growing(ear.heard())).toEqual([])
})

test('a page of movements reads about a page, the first and the last, and counts the day once', async () => {
  const { pool } = service.app
  const { rows: ends } = await pool.query(
    `select max(id) - 110 as id from batch.keyword where workspace_id = 'ws_moving'`,
  )
  const after = { keywordId: String(ends[0].id), engine: 'naver', device: 'mobile', location: 'KR' }
  const ear = listen()
  for (const place of [undefined, after]) {
    const { movements, shares } = await lookUpMovements(service.app.batch, 'ws_moving', '2030-01-14', {
      after: place,
      limit: 101,
      mayRecall: true,
    })
    expect([movements.length, shares[0]?.keywords]).toEqual([101, stored])
  }
  ear.stop()
  const heard = (name: string) => ear.heard().find(({ text }) => text.includes(name))!
  expect(heard('as top100').samples).toHaveLength(1)
  const { text, samples } = heard('cross join lateral')
  for (const values of samples) {
    const { rows } = await pool.query(`explain (analyze, buffers, format json) ${text}`, values)
    const { Plan: plan } = rows[0]['QUERY PLAN'][0]
    expect(plan['Shared Hit Blocks'] + plan['Shared Read Blocks']).toBeLessThan(3_000)
  }
})

test('a training that reads a sample goes from keyword to keyword, and through no month as a whole', async () => {
  const { pool } = service.app
  /** What of the ranks it reads as a whole. */
  const read = async (keywordsKept: number) => {
    const ear = listen()
    const { history } = await readHistory(openDb(pool), { until: '2030-01-14', keywordsKept })
    ear.stop()
    expect(history.days.length).toBeGreaterThan(1_000)
    const found = await growing(ear.heard(), () => false)
    return found.join().match(/reads all of batch\.rank_\w+/g)
  }
  expect(await read(0.1)).toBeNull()
  // One that reads every keyword does not.
  expect(await read(1)).toContain('reads all of batch.rank_2030_01')
})

test('no statement of any sweep reads or sorts a part that grows', async () => {
  const { app } = service
  // Requests have taught the provider faults that make everybody wait.
  await post('sandbox/provider/faults', {})
  await leaveDue(service)
  const ear = listen()
  const worked = await runDue(app.billing)
  await listDueTurns(app.billing)
  await nextDue(app.billing)
  await runBatchDue(app.batch)
  await rollUpDays(app.billing)
  await forgetQuietBuckets(app.pool)
  await forgetOldSessions(app.pool)
  await forgetOldKeys(openDb(app.pool), app.clock())
  await forgetFreedJobs(app.pool)
  await freeDeadWorkers(app.pool)
  await claimUnlogged(openDb(app.pool))
  await measure(app)
  await openBook(app.pool).forgetKeys(new Date('2029-12-01'))
  ear.stop()
  expect(Object.entries(worked).filter(([, count]) => count === 0)).toEqual([])
  expect(ear.heard().length).toBeGreaterThan(40)
  expect(await growing(ear.heard())).toEqual([])
})

test('no statement of the work of batch, and of the queue that brings it, reads or sorts a part that grows', async () => {
  const { app } = service
  await leaveChecks(service)
  // One of the requests has retired it.
  await app.pool.query(
    `update batch.model set status = 'active' where id = (select max(id) from batch.model)
       and not exists (select from batch.model where status = 'active')`,
  )
  const { rows } = await app.pool.query(
    `select invoice_id from billing.payment
     where account_id like 'acct-%' and status = 'succeeded' and captured > refunded + refund_pending order by id desc limit 1`,
  )
  const ear = listen()
  const worker = startWorker(app)
  try {
    const refund = { invoice_id: rows[0].invoice_id, amount: 1 }
    expect((await post('billing/refund', refund)).status).toBe(200)
    await post('batch/volumes', {
      observations: [{ keyword: 'stored 1', source: 'naver', kind: 'day', day: '2029-12-02', volume: 5 }],
    })
    for (const task of ['aggregate_volumes', 'collect_volumes', 'collect_ranks', 'predict'])
      await runToEnd(task)
    // What was ordered is ready by then.
    const later = new Date(app.clock().getTime() + 10 * 60_000)
    await fetch(`${source.url}/__sandbox/clock`, {
      method: 'POST',
      body: JSON.stringify({ advance_to: later.toISOString() }),
    })
    await app.clock.moveTo(later)
    await runToEnd('collect_ranks')
  } finally {
    await worker.stop()
  }
  // Scoring has a thread of its own, which nobody here listens to; this is its work.
  const active = (await findActive(app.batch.db, 'train_classifier'))!
  await scoreAll(
    { ...app.batch, fence: async () => {} },
    { active, model: await loadModel(app.batch, active) },
    () => {},
  )
  ear.stop()
  const { rows: runs } = await app.pool.query(
    `select sum((metrics ->> 'ordered')::int) as ordered, sum((metrics ->> 'closed')::int) as closed, sum((metrics ->> 'lost')::int) as lost,
       sum((metrics ->> 'checks')::int) as checks, sum((metrics ->> 'found')::int) as found, sum((metrics ->> 'months')::int) as months
     from batch.run where id not like 'run_stored%'`,
  )
  expect(Object.entries(runs[0]).filter(([, count]) => !(Number(count) > 0))).toEqual([])
  // The queue's library has connections of its own.
  expect(ear.heard().some(({ text }) => text.includes('_private_jobs'))).toBe(true)
  expect(await growing(ear.heard())).toEqual([])
})

test('what is known to grow is still sent', () => {
  expect(Object.keys(knownToGrow).filter((known) => !metAgain.has(known))).toEqual([])
})

async function post(path: string, body: unknown) {
  const answer = await fetch(`${service.url}/api/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${scene.tokens[1]}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  // biome-ignore lint/suspicious/noExplicitAny: answers of routes that are tested elsewhere
  return { status: answer.status, ...((await answer.json()) as { data?: any; error?: any }) }
}

/** Starts a run and waits for its end; one that is under way already comes first. */
async function runToEnd(task: string): Promise<void> {
  for (;;) {
    const { status, data, error } = await post('batch/trigger', { task })
    const run = data?.run_id ?? error.details[0].run_id
    expect(await endOf(run), task).toBe('succeeded')
    if (status === 202) return
  }
}

async function endOf(run: string): Promise<string> {
  for (;;) {
    const { rows } = await service.app.pool.query('select status from batch.run where id = $1', [run])
    const { status } = rows[0]
    if (status !== 'queued' && status !== 'running') return status
    await sleep(50)
  }
}

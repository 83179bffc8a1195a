import { afterAll, beforeAll, expect, test } from 'vitest'
import { runDue as runBatchDue } from '../../src/batch/due.ts'
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
import { readOperations } from '../fuzz/operations.ts'
import { furnish, type Scene } from '../fuzz/scene.ts'
import { openService, type Service } from '../fuzz/service.ts'
import { seedOf, soundRequest } from '../fuzz/sound-request.ts'
import { seededRandom } from '../simulation/random.ts'
import { createDatabase, dropDatabase } from '../world.ts'
import { grow, stored } from './grow.ts'
import { growingParts, listenTo, planOf, type Statement } from './statements.ts'

let url: string
let service: Service
let scene: Scene
let grown: ReadonlySet<string>

beforeAll(async () => {
  url = await createDatabase()
  service = await openService(url)
  scene = await furnish(service, 8)
  await grow(service.app.pool, 'acct-0')
  const { rows } = await service.app.pool.query(
    `select n.nspname || '.' || relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('billing', 'batch', 'platform', 'sandbox') and c.relkind = 'r' and reltuples > 5000`,
  )
  grown = new Set(rows.map(({ name }) => name))
})
afterAll(async () => {
  await service?.close()
  if (url) await dropDatabase(url)
})

/** What grows by what it is for. Each is asked seldom, or its table cannot grow far. */
const knownToGrow = [
  // How many ranks there are, for whoever starts a training and for the summary of batch.
  'from batch.rank group by day',
  // The summary over all accounts, worked out once in some seconds by a process, however many ask.
  'interval_unit as unit, interval_count as every, count(*)',
  'as day, currency, count(*)::int as charges',
  // Buckets that nobody used for ten minutes are forgotten each minute, so that these are the workspaces of ten minutes.
  'delete from platform.rate_window',
]

/** Each statement whose plan grows, with what grows in it. */
async function growing(statements: readonly Statement[]): Promise<string[]> {
  const client = await service.app.pool.connect()
  const found: string[] = []
  try {
    for (const { text, samples } of statements) {
      if (knownToGrow.some((known) => text.includes(known))) continue
      const parts = new Set<string>()
      for (const values of samples)
        for (const part of growingParts(await planOf(client, text, values), grown)) parts.add(part)
      if (parts.size > 0) found.push(`${[...parts].join('; ')}\n  ${text.replace(/\s+/g, ' ').slice(0, 600)}`)
    }
  } finally {
    client.release()
  }
  return found
}

test('the tables that a reader of plans looks at have grown', () => {
  for (const table of [
    'billing.subscription',
    'billing.invoice',
    'billing.payment',
    'billing.event',
    'billing.ledger_entry',
    'batch.keyword',
    'batch.monthly_volume',
    'platform.audit',
  ])
    expect([...grown]).toContain(table)
})

test('no statement of any route reads or sorts a part that grows', async () => {
  const ear = listenTo(service.app.pool)
  const statuses = new Map<string, Set<number>>()
  for (const operation of await readOperations(service.url)) {
    for (let k = 0; k < 10; k++) {
      const draft = soundRequest(operation, seededRandom(seedOf(1, k)), scene, k)
      const answer = await fetch(
        `${service.url}${draft.path}${draft.query.length > 0 ? `?${draft.query.join('&')}` : ''}`,
        {
          method: draft.method,
          headers: draft.headers.filter(([name]) => name !== 'host'),
          ...(draft.body && { body: new Uint8Array(draft.body) }),
        },
      )
      scene.learn(operation.name, await answer.text())
      statuses.set(operation.name, (statuses.get(operation.name) ?? new Set()).add(answer.status))
    }
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
  const ear = listenTo(pool)
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

test('no statement of any sweep reads or sorts a part that grows', async () => {
  const { app } = service
  const now = app.clock()
  // A few of each kind are due, so that every sweep has something in hand.
  await app.pool.query(
    `update billing.subscription set next_billing_at = $1, anchor = $1::timestamptz - interval '1 month', last_k = 0
     where id in ('sub_stored_00000001', 'sub_stored_00000002', 'sub_stored_00000003')`,
    [now],
  )
  await app.pool.query(
    `update billing.subscription set status = 'canceling', cancel_at = $1 where id = 'sub_stored_00000004'`,
    [now],
  )
  const ear = listenTo(app.pool)
  await runDue(app.billing)
  await listDueTurns(app.billing)
  await nextDue(app.billing)
  await runBatchDue(app.batch)
  await rollUpDays(app.billing)
  await forgetQuietBuckets(app.pool)
  await forgetOldSessions(app.pool)
  await forgetOldKeys(openDb(app.pool), now)
  await forgetFreedJobs(app.pool)
  await freeDeadWorkers(app.pool)
  await claimUnlogged(openDb(app.pool))
  await measure(app)
  ear.stop()
  expect(ear.heard().length).toBeGreaterThan(40)
  expect(await growing(ear.heard())).toEqual([])
})

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { grantsFor } from '../../src/platform/database/grants.ts'
import { migrate } from '../../src/platform/database/migrate.ts'
import { isRoot, ownerOf, runAs } from '../../src/platform/embedded-postgres/account.ts'
import { findPlatformPackage, prepareBinaries } from '../../src/platform/embedded-postgres/binaries.ts'
import {
  type EmbeddedPostgres,
  openEmbeddedPostgres,
} from '../../src/platform/embedded-postgres/embedded-postgres.ts'
import { findMaker, giveTo } from '../../src/platform/embedded-postgres/own-account.ts'
import { migrateQueue } from '../../src/platform/queue/queue.ts'
import { openWorld, type World } from '../world.ts'

let dataDir: string
let server: EmbeddedPostgres
let owner: pg.Client
let world: World
let appUrl: string

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'rankledger-roles-'))
  const settings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
  await (await openEmbeddedPostgres({ dataDir, settings })).close()
  await inSingleUserMode('alter role rankledger createrole')
  server = await openEmbeddedPostgres({ dataDir, settings })

  await migrate(server.url)
  await migrateQueue(server.url)
  owner = new pg.Client({ connectionString: server.url })
  await owner.connect()
  await owner.query("create role app login password 'secret'")
  const asApp = new URL(server.url)
  asApp.username = 'app'
  asApp.password = 'secret'
  appUrl = asApp.toString()
  // Twice, as after each upgrade.
  for (let times = 0; times < 2; times++) await owner.query((await grantsFor(owner, 'app')).join('\n'))
  world = await openWorld({ worker: true, webhooks: true, environment: { DATABASE_URL: appUrl } })
})

afterAll(async () => {
  await world?.close()
  await owner?.end()
  await server?.close()
  rmSync(dataDir, { recursive: true, force: true })
})

/**
 * The superuser's password is thrown away, so that this is the way to change what only a superuser may. It asks for the
 * name of its account; files that a named one has are handed back at the next start.
 */
async function inSingleUserMode(statement: string): Promise<void> {
  const pgdata = resolve(dataDir, JSON.parse(readFileSync(join(dataDir, 'postgres.json'), 'utf8')).pgdata)
  const owner = (await ownerOf(pgdata))!
  const account = isRoot() ? await findMaker(owner) : owner
  if (isRoot()) await giveTo(account, pgdata)
  const binaries = await prepareBinaries(account, dirname(pgdata), await findPlatformPackage())
  const done = await runAs(
    account,
    binaries.postgres,
    ['--single', '-D', pgdata, 'postgres'],
    `${statement}\n`,
  )
  expect([done.ok, done.stderr]).toEqual([true, expect.not.stringMatching(/ERROR|FATAL/)])
}

test('a role that only reads and writes rows serves and works both areas', async () => {
  const subscribe = (account: string, key: string) =>
    world.post(
      '/api/billing/subscribe',
      {
        account_id: account,
        plan_id: 'pro-monthly',
        payment_method: { billing_key: key },
        customer: { email: 'a@example.com' },
      },
      { headers: { 'idempotency-key': account } },
    )
  const made = await subscribe('acct_1', 'bk_test_ok')
  expect(made.status).toBe(201)
  expect((await subscribe('acct_1', 'bk_test_ok')).headers.get('idempotent-replayed')).toBe('true')
  expect((await subscribe('acct_2', 'bk_test_insufficient_funds')).status).toBe(402)
  expect((await subscribe('acct_3', 'bk_test_fails_on_renewal')).status).toBe(201)
  expect(
    (await world.post('/api/billing/trial', { account_id: 'acct_4', plan_id: 'pro-monthly' })).status,
  ).toBe(201)
  expect((await world.advanceBy('P1M')).status).toBe(200)
  const invoices = (await world.get('/api/billing/invoices?account_id=acct_1')).body.data.invoices
  expect(invoices).toHaveLength(2)
  const refund = { invoice_id: invoices[0].invoice_id, amount: 1000, reason: 'other', note: 'thanks' }
  expect((await world.post('/api/billing/refund', refund)).status).toBe(200)
  const { subscription_id } = made.body.data
  for (const verb of ['cancel', 'resume', 'cancel'])
    expect([verb, (await world.post(`/api/billing/${verb}`, { subscription_id })).status]).toEqual([
      verb,
      200,
    ])
  expect((await world.advanceBy('P1M')).status).toBe(200)
  expect((await world.ask('DELETE', '/api/billing/accounts/acct_1')).status).toBe(200)
  const plan = { name: 'x', amount: 1, currency: 'KRW', interval: 'month', interval_count: 1, trial_days: 0 }
  expect((await world.ask('PUT', '/api/billing/plans/own', { body: plan })).status).toBe(200)

  const keywords = ['a', 'b']
  expect((await world.post('/api/batch/keywords', { workspace_id: 'w', keywords })).status).toBe(200)
  const day = '2019-03-05'
  const ranked = { keyword: 'a', day, status: 'ranked', position: 3 }
  const stored = await world.post('/api/batch/ranks', { workspace_id: 'w', observations: [ranked] })
  expect([stored.status, stored.body.data]).toEqual([200, expect.objectContaining({ inserted: 1 })])
  const volume = { keyword: 'a', source: 's', kind: 'month', day: '2019-03-01', volume: 100 }
  expect((await world.post('/api/batch/volumes', { observations: [volume] })).status).toBe(200)
  expect((await world.post('/api/batch/trigger', { task: 'aggregate_volumes' })).status).toBe(202)
  await expect.poll(async () => (await world.get('/api/batch/volumes/a')).status).toBe(200)
  expect(
    (await world.ask('DELETE', '/api/batch/keywords', { body: { workspace_id: 'w', keywords } })).status,
  ).toBe(200)
  // The worker's own tables: jobs were taken from the queue and are gone.
  await expect
    .poll(async () => (await owner.query('select 1 from graphile_worker._private_jobs')).rowCount)
    .toBe(0)
  expect(
    (await owner.query("select count(*)::int as n from billing.webhook where status <> 'failed'")).rows[0].n,
  ).toBeGreaterThan(0)
})

test.each([
  'update billing.ledger_entry set amount = 0',
  'delete from billing.ledger_transfer',
  'truncate billing.ledger_entry',
  'update billing.trial_grant set granted_at = now()',
  'delete from billing.trial_grant',
  'truncate billing.trial_grant cascade',
  'alter table billing.trial_grant disable trigger all',
  'delete from billing.invoice',
  'delete from billing.webhook',
  'delete from platform.migration',
  "update platform.migration set sha256 = ''",
  'drop table billing.event',
  'create table billing.mine (n int)',
  'create table public.mine (n int)',
  'create schema mine',
  'create or replace function billing.refuse_change() returns trigger language plpgsql as $$ begin return new; end $$',
])('it may not: %s', async (statement) => {
  const client = new pg.Client({ connectionString: appUrl })
  await client.connect()
  const refused = await client.query(statement).catch((error) => error)
  await client.end()
  expect(refused.code).toBe('42501')
})

test('it starts where the schema is this release’s, and says who must act where it is not', async () => {
  await expect(migrate(appUrl)).resolves.toEqual(expect.objectContaining({ applied: [] }))
  await owner.query('create database empty_yet')
  const empty = new URL(appUrl)
  empty.pathname = '/empty_yet'
  await expect(migrate(empty.toString())).rejects.toThrow(
    /lacks \d+ migrations of this release and role app may not make them; run `rankledger migrate` as the role that owns the schema/,
  )
})

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { db } from '../../src/cli/db.ts'
import { doctor } from '../../src/cli/doctor.ts'
import { runCommand } from '../billing/run-command.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

async function examine(more: Record<string, string> = {}) {
  const { code, output } = await runCommand(doctor, ['--json'], { ...world.environment, ...more })
  const { healthy, findings } = JSON.parse(output) as {
    healthy: boolean
    findings: { check: string; state: string; message: string }[]
  }
  const faults = findings.filter(({ state }) => state === 'fault')
  expect([code, healthy]).toEqual(faults.length === 0 ? [0, true] : [1, false])
  return { findings, faults: faults.map(({ check, message }) => `${check}: ${message}`) }
}

test('a sound installation: every check says so, and the exit code is 0', async () => {
  const { findings, faults } = await examine()
  expect(faults).toEqual([])
  expect(new Set(findings.map(({ check }) => check))).toEqual(
    new Set([
      'environment',
      'disk',
      'database',
      'pooler',
      'encoding',
      'clock',
      'schema',
      'rights',
      'keys',
      'provider',
      'workers',
    ]),
  )
  const { output } = await runCommand(doctor, [], world.environment)
  expect(output).toMatch(/^ok {4}encoding {6}UTF8$/m)
  expect(output).not.toContain(new URL(world.databaseUrl).password)
})

test.each<[string, Record<string, string>, RegExp]>([
  [
    'another vault key',
    { VAULT_KEYS: `1:${randomBytes(32).toString('base64')}` },
    /^keys: Key 1 in VAULT_KEYS is not the one/,
  ],
  [
    'nobody at the session URL',
    { DATABASE_URL_SESSION: 'postgres://a:b@127.0.0.1:1/x' },
    /^database: No PostgreSQL listens .* correct DATABASE_URL_SESSION/,
  ],
  ['a wrong environment', { PORT: 'x' }, /^environment: PORT must be/],
  [
    'a provider that is not there',
    { PROVIDER_BASE_URL: 'http://127.0.0.1:1' },
    /^provider: sandbox: The sandbox gives no clear answer/,
  ],
])('%s is a fault', async (_what, more, fault) => {
  expect((await examine(more)).faults).toEqual([expect.stringMatching(fault)])
})

test('a provider that refuses the key of this shell is a fault, and goes on being charged by everybody else', async () => {
  const { faults } = await examine({
    PROVIDER_BASE_URL: world.app.sandboxUrl!,
    PROVIDER_SECRET_KEY: 'sk_test_of_another_day',
  })
  expect(faults).toEqual([expect.stringMatching(/^provider: sandbox: .*PROVIDER_SECRET_KEY/)])
  expect(await world.query('select provider from billing.charging_stop')).toEqual([])
  expect(await world.query('select kind from platform.alarm')).toEqual([])
})

test('a schema that is not this release’s and stopped charging are faults, and nothing is changed by looking', async () => {
  const [last] = await world.query<{ name: string; sha256: string }>(
    'delete from platform.migration where name = (select max(name) from platform.migration) returning name, sha256',
  )
  expect((await examine()).faults).toEqual([
    expect.stringMatching(/^schema: 1 migrations are missing; run `rankledger migrate`/),
  ])
  expect(await world.query('select 1 from platform.migration where name = $1', [last!.name])).toEqual([])
  await world.query('insert into platform.migration (name, sha256) values ($1, $2)', [
    last!.name,
    last!.sha256,
  ])
})

test('status counts the workers that live, not those that were killed', async () => {
  const status = async () => runCommand(db, ['status'], world.environment)
  await world.query(
    "insert into platform.worker (id, lock_key, beat_at) values ('killed', 1, now() - interval '1 minute')",
  )
  expect((await status()).output).toMatch(/, 0 workers alive$/m)
  await world.query("insert into platform.worker (id, lock_key) values ('lives', 2)")
  expect((await status()).output).toMatch(/, 1 workers alive$/m)
  await world.query('delete from platform.worker')
})

test('dead jobs are discarded, unknown charges and waiting webhooks listed', async () => {
  await world.query("select graphile_worker.add_job('gone', '{}'::json)")
  const [job] = await world.query<{ id: bigint }>(
    'update graphile_worker._private_jobs set attempts = max_attempts returning id',
  )
  const run = (...args: string[]) => runCommand(db, args, world.environment)
  expect((await run('discard-job', String(job!.id))).code).toBe(0)
  expect((await run('discard-job', String(job!.id))).code).toBe(1)
  expect(await world.query('select 1 from graphile_worker._private_jobs')).toEqual([])

  await world.query(
    `insert into billing.webhook (provider, event_id, body_hash, type, reference, status, received_at, next_lookup_at)
     values ('sandbox', 'evt_late', '', 'payment.paid', 'none', 'waiting', now(), now())`,
  )
  expect(JSON.parse((await run('webhooks', '--json')).output).webhooks).toEqual([
    expect.objectContaining({ event_id: 'evt_late', status: 'waiting' }),
  ])
  const body = { account_id: 'a', plan_id: 'pro-monthly', payment_method: { billing_key: 'bk_test_ok' } }
  await world.post('/api/billing/subscribe', body)
  await world.query(
    `update billing.payment set status = 'unknown', captured = 0, settled_at = null, next_lookup_at = now() + interval '1 hour'`,
  )
  expect(JSON.parse((await run('unknown', '--json')).output).unknown).toEqual([
    expect.objectContaining({ kind: 'payment', amount: 29_000, currency: 'KRW', account_id: 'a' }),
  ])
})

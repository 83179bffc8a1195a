import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOperationsServer } from '../../src/installation/operations-server.ts'
import { openReadiness } from '../../src/platform/http/readiness.ts'
import { watchProcess } from '../../src/platform/metrics.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ environment: { METRICS_PORT: '0' } })
  watchProcess(world.app.metrics, 'test')
})
afterAll(() => world.close())

const read = async () => (await world.get('/metrics', { token: null })).text
const sampled = async (sample: string): Promise<number> => {
  const line = (await read()).split('\n').find((one) => one.startsWith(`${sample} `))
  return Number(line?.split(' ').at(-1) ?? Number.NaN)
}

test('what an operator asks is answered by a number', async () => {
  await world.query("insert into platform.worker (id, lock_key) values ('w', 1)")
  await world.query(
    "insert into platform.worker (id, lock_key, beat_at) values ('dead', 2, now() - interval '1 minute')",
  )
  expect(await sampled('rankledger_workers_live')).toBe(1)
  expect(await sampled('rankledger_provider_circuit{provider="sandbox"}')).toBe(0)
  const body = (account: string, key: string) => ({
    account_id: account,
    plan_id: 'pro-monthly',
    payment_method: { billing_key: key },
  })
  expect((await world.post('/api/billing/subscribe', body('acct_ok', 'bk_test_ok'))).status).toBe(201)
  expect(
    (await world.post('/api/billing/subscribe', body('acct_no', 'bk_test_insufficient_funds'))).status,
  ).toBe(402)
  const charges = 'rankledger_provider_answers_total{provider="sandbox",call="charge",outcome='
  expect(await sampled(`${charges}"done"}`)).toBe(1)
  expect(await sampled(`${charges}"declined"}`)).toBe(1)
  expect(await sampled('rankledger_provider_seconds_count{provider="sandbox",call="charge"}')).toBe(2)
  expect(await sampled('rankledger_database_reached')).toBe(1)
  expect(await sampled('rankledger_pool_connections{state="open"}')).toBeGreaterThan(0)

  // Rows as a lost answer, an unprocessed notification, a stop and money without an invoice leave them.
  await world.query(`update billing.payment set unmatched = true where status = 'succeeded'`)
  await world.query(
    `insert into billing.charging_stop (provider, stopped_at, cause) values ('sandbox', now(), 'test')`,
  )
  await world.query(
    `insert into billing.webhook (provider, event_id, body_hash, type, reference, status, received_at, next_lookup_at)
     values ('sandbox', 'evt_late', '', 'x', 'none', 'waiting', now() - interval '1 hour', now() + interval '1 hour'),
            ('sandbox', 'evt_bad', '', 'x', 'none', 'failed', now(), now())`,
  )
  expect(await sampled('rankledger_unmatched_payments{currency="KRW"}')).toBe(1)
  expect(await sampled('rankledger_unmatched_amount{currency="KRW"}')).toBe(29_000)
  expect(await sampled('rankledger_charging_stopped')).toBe(1)
  expect(await sampled('rankledger_webhooks{state="waiting"}')).toBe(1)
  expect(await sampled('rankledger_webhooks{state="failed"}')).toBe(1)
  expect(await sampled('rankledger_webhook_lag_seconds')).toBeGreaterThan(3_500)
  await world.query('delete from billing.charging_stop')
  await world.query('update billing.payment set unmatched = false')
  expect(await sampled('rankledger_charging_stopped')).toBe(0)
  expect(await read()).not.toContain('rankledger_unmatched_payments{')
})

test('a charge without an answer is counted, with its age', async () => {
  const body = {
    account_id: 'acct_silent',
    plan_id: 'pro-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  }
  await world.post('/api/billing/subscribe', body)
  await world.query(
    `update billing.payment set status = 'unknown', captured = 0, settled_at = null, next_lookup_at = now() + interval '1 hour',
       created_at = created_at - interval '2 hours' where account_id = 'acct_silent'`,
  )
  expect(await sampled('rankledger_payments_unknown')).toBe(1)
  expect(await sampled('rankledger_payments_unknown_age_seconds')).toBeGreaterThan(7_000)
})

test.each([
  [
    'a turn of billing that fails on all of its rows',
    'billing-renewals',
    `update billing.subscription set next_billing_at = now() - interval '1 minute';
     create function fail_for_want_of_a_right() returns trigger language plpgsql as
       $$ begin raise exception 'no right' using errcode = '42501'; end $$;
     create trigger fails before update on billing.subscription execute function fail_for_want_of_a_right()`,
  ],
  [
    'the look for what is due in billing',
    'billing-due',
    'alter table billing.payment_method_to_delete rename to elsewhere',
  ],
  ['a sweep of batch', 'batch-due', 'alter table batch.tracker rename to elsewhere'],
])('%s is counted round by round, and no row is held to be at fault', async (_what, sweep, fault) => {
  const working = await openWorld({ worker: true })
  try {
    const body = {
      account_id: 'acct_1',
      plan_id: 'pro-monthly',
      payment_method: { billing_key: 'bk_test_ok' },
    }
    expect((await working.post('/api/billing/subscribe', body)).status).toBe(201)
    await working.query(fault)
    const rounds = async () => {
      const { text } = await working.get('/metrics', { token: null })
      expect(text).not.toContain('rankledger_sweep_failures{')
      const line = text
        .split('\n')
        .find((one) => one.startsWith(`rankledger_sweep_rounds_failed_total{sweep="${sweep}"}`))
      return Number(line?.split(' ').at(-1) ?? 0)
    }
    await expect.poll(rounds, { timeout: 20_000, interval: 500 }).toBeGreaterThan(1)
  } finally {
    await working.close()
  }
})

describe('METRICS_PORT', () => {
  test('answers health and metrics for a process that has no other door', async () => {
    const readiness = openReadiness()
    const server = (await openOperationsServer(world.app, readiness))!
    const get = async (path: string) => {
      const answer = await fetch(`http://127.0.0.1:${server.port}${path}`)
      return { status: answer.status, text: await answer.text() }
    }
    expect((await get('/healthz')).status).toBe(200)
    expect(await get('/readyz')).toEqual({
      status: 503,
      text: expect.stringContaining('starting_or_stopping'),
    })
    readiness.open()
    expect((await get('/readyz')).status).toBe(200)
    expect((await get('/metrics')).text).toContain('rankledger_workers_live')
    expect((await get('/api/billing/plans')).status).toBe(404)
    await server.close()
  })

  test('beyond loopback the API port tells no numbers', async () => {
    const open = await openWorld({ environment: { HOST: '0.0.0.0' } })
    expect((await open.get('/metrics', { token: null })).status).toBe(404)
    expect((await open.get('/readyz', { token: null })).status).toBe(200)
    await open.close()
  })
})

test.each(['ops/prometheus-rules.yml', 'ops/grafana-dashboard.json'])(
  'every number that %s speaks of exists, with those labels',
  async (file) => {
    const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
    const named = new Set(text.match(/\b(?:rankledger|nodejs|process)_[a-z0-9_]+/g))
    const known = new Map<string, Set<string>>()
    for (const metric of world.app.metrics.registry.getMetricsAsArray()) {
      const labels = new Set((metric as unknown as { labelNames: string[] }).labelNames)
      known.set(metric.name, labels)
      for (const part of ['_bucket', '_count', '_sum'])
        known.set(metric.name + part, new Set([...labels, 'le']))
    }
    expect(named.size).toBeGreaterThan(20)
    expect([...named].filter((name) => !known.has(name))).toEqual([])
    for (const [, name, labels] of text.matchAll(/\b((?:rankledger)_[a-z0-9_]+)\{([^}]*)\}/g)) {
      for (const [, label] of labels!.matchAll(/([a-z_]+)=/g))
        expect([name, [...known.get(name!)!]]).toEqual([name, expect.arrayContaining([label])])
    }
    for (const { by, name } of groupings(text)) {
      // `instance` comes from Prometheus itself.
      const labels = by.filter((label) => label !== 'instance')
      expect([name, [...known.get(name)!]]).toEqual([name, expect.arrayContaining(labels)])
    }
  },
)

test.each(['ops/prometheus-rules.yml', 'ops/grafana-dashboard.json'])(
  '%s adds up nothing that every process tells of one database',
  (file) => {
    const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
    const gauges = world.app.metrics.registry
      .getMetricsAsArray()
      .filter((metric) => (metric as unknown as { type: string }).type === 'gauge')
      .map(({ name }) => name)
    const ofOneProcess = ['rankledger_pool_connections', 'rankledger_provider_calls']
    const added = [...text.matchAll(/\bsum(?: by \([^)]*\))? ?\((rankledger_[a-z0-9_]+)/g)].map(
      ([, name]) => name!,
    )
    expect(added.filter((name) => gauges.includes(name) && !ofOneProcess.includes(name))).toEqual([])
  },
)

test.skipIf(spawnSync('promtool', ['--version']).error)(
  'Prometheus fires the alerts: on the first fault of a route too, and once for all processes',
  () => {
    const file = fileURLToPath(new URL('prometheus-rules.yml', import.meta.url))
    const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' })
    expect([status, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining('SUCCESS')])
  },
)

/** Which labels each number is grouped by: `sum by (le, call) (rate(name…`. */
function groupings(text: string): { by: string[]; name: string }[] {
  return [...text.matchAll(/\bby \(([^)]*)\) ?\((?:[a-z_]+\()*(rankledger_[a-z0-9_]+)/g)].map(
    ([, by, name]) => ({ by: by!.split(',').map((label) => label.trim()), name: name! }),
  )
}

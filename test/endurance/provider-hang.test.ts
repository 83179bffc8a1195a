import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findFreePort } from '../../src/platform/embedded-postgres/free-port.ts'
import { type ServiceProcess, startService } from '../processes/service-process.ts'
import { type Answer, openWorld, type World } from '../world.ts'
import { listUnsettled, untilSettled } from './unsettled.ts'

const providerTimeoutMs = 10_000
let world: World
let provider: ServiceProcess

beforeAll(async () => {
  const port = String(await findFreePort())
  world = await openWorld({
    worker: true,
    environment: {
      PROVIDER_BASE_URL: `http://127.0.0.1:${port}`,
      PROVIDER_TIMEOUT_MS: String(providerTimeoutMs),
    },
  })
  provider = startService(['sandbox'], { ...world.environment, SANDBOX_PORT: port })
  await provider.event('service.started')
})
afterAll(async () => {
  await provider?.stop('SIGKILL')
  await world?.close()
})

const subscribe = (account: string): Promise<Answer> =>
  world.post('/api/billing/subscribe', {
    account_id: account,
    plan_id: 'pro-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  })

test('while a hundred customers wait for a provider that hangs, nobody else waits, and later each has paid once', async () => {
  const [first] = await Promise.all([subscribe('before'), subscribe('also_before')])
  expect(first!.status).toBe(201)

  provider.child.kill('SIGSTOP')
  const customers = Array.from({ length: 100 }, (_, at) => `waiting_${at}`)
  const answers = Promise.all(customers.map(subscribe))
  const underWay = () => listUnsettled(world.app.pool)
  await expect.poll(async () => (await underWay()).length).toBeGreaterThan(60)

  // All of them together take less than one call to the provider may, so none can have waited for one.
  const others = await inTurn(providerTimeoutMs - 500, [
    () => world.get('/readyz'),
    () => world.get('/api/batch/volumes/abc?workspace_id=ws_1'),
    () => world.post('/api/batch/keywords', { workspace_id: 'ws_1', keywords: ['a', 'b'] }),
    () => world.get('/api/billing/subscriptions'),
    () => world.get('/api/billing/invoices'),
    () => world.get('/api/billing/upcoming?until=2030-01-01T00:00:00Z'),
  ])
  expect(others.map(({ status }) => status)).toEqual([200, 404, 200, 200, 200, 200])

  for (const { status } of await answers) expect([202, 503]).toContain(status)
  provider.child.kill('SIGCONT')
  expect(await untilSettled(world.app.pool, 60_000)).toBeDefined()

  const paid = await world.query<{ account_id: string; count: number }>(
    `select account_id, count(*)::int as count from sandbox.payment where status = 'paid' group by account_id`,
  )
  const active = await world.query<{ account_id: string }>(
    `select account_id from billing.subscription where status = 'active' order by account_id`,
  )
  expect(paid.filter(({ count }) => count !== 1)).toEqual([])
  expect(paid.map(({ account_id }) => account_id).sort()).toEqual(
    active.map(({ account_id }) => account_id).sort(),
  )
})

async function inTurn(withinMs: number, asks: readonly (() => Promise<Answer>)[]): Promise<Answer[]> {
  const late = sleep(withinMs, undefined, { ref: false }).then(() => {
    throw new Error(`not all were answered within ${withinMs} ms`)
  })
  late.catch(() => {})
  const answers: Answer[] = []
  for (const ask of asks) answers.push(await Promise.race([ask(), late]))
  return answers
}

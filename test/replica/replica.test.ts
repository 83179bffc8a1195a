import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { doctor } from '../../src/cli/doctor.ts'
import { readConfig } from '../../src/config.ts'
import { buildHttp } from '../../src/platform/http/http.ts'
import { runCommand } from '../billing/run-command.ts'
import { startService } from '../processes/service-process.ts'
import { type Answer, openWorld, type World } from '../world.ts'
import { openReplicatedServer, type ReplicatedServer } from './streaming-replica.ts'

let servers: ReplicatedServer
let world: World
/** Of somebody who never writes. */
let reader: string

beforeAll(async () => {
  servers = await openReplicatedServer()
  world = await openWorld({ environment: urls({ DATABASE_READ_LAG_MS: '600000' }) })
  reader = await world.makeToken({ scopes: ['billing:read', 'batch:read'] })
  await servers.caughtUp()
  await replicaIs('ready')
})
afterAll(async () => {
  await world?.close()
  await servers?.close()
})
afterEach(async () => {
  await servers.resume().catch(() => {})
})

const urls = (more: Record<string, string> = {}) => ({
  DATABASE_URL: servers.primaryUrl,
  DATABASE_URL_READ: servers.replicaUrl,
  ...more,
})

/** What two processes on one database must agree on. */
const keys = () => {
  const { VAULT_KEYS, WEBHOOK_SECRETS } = world.environment as Record<
    'VAULT_KEYS' | 'WEBHOOK_SECRETS',
    string
  >
  return { VAULT_KEYS, WEBHOOK_SECRETS }
}

const replicaIs = (state: string, of: World = world) =>
  vi.waitFor(
    async () =>
      expect((await of.get('/readyz', { token: null })).body).toEqual({ status: 'ready', replica: state }),
    { timeout: 180_000, interval: 50 },
  )

const register = (keyword: string) =>
  world.post('/api/batch/keywords', { workspace_id: 'ws_1', keywords: [keyword] })

async function keywordsSeen(
  ask: { token?: string; position?: string } = {},
  of: World = world,
): Promise<string[]> {
  const answer = await of.get('/api/batch/keywords?workspace_id=ws_1', {
    token: ask.token ?? reader,
    headers: ask.position === undefined ? {} : { 'x-write-position': ask.position },
  })
  expect(answer.status).toBe(200)
  return answer.body.data.keywords.map(({ keyword }: { keyword: string }) => keyword)
}

async function readsFrom(source: string): Promise<number> {
  const { text } = await world.get('/metrics', { token: null })
  const sample = `rankledger_reads_that_may_lag_total{source="${source}"}`
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(sample))
      ?.split(' ')
      .at(-1) ?? 0,
  )
}

const positionOf = (answer: Answer) => answer.headers.get('x-write-position') ?? undefined
const subscribe = (account: string) =>
  world.post('/api/billing/subscribe', {
    account_id: account,
    plan_id: 'pro-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  })

test('a read may lag behind a replica that stands still, and never behind the position that it sends back', async () => {
  await servers.caughtUp()
  await servers.pause()
  const position = positionOf(await register('after the pause'))
  expect(position).toMatch(/^[0-9A-F]+\/[0-9A-F]+$/)
  expect(await keywordsSeen()).not.toContain('after the pause')
  expect(await keywordsSeen({ position: position! })).toContain('after the pause')

  await servers.resume()
  await servers.caughtUp()
  // Written since, so that the position lies behind what the replica has replayed.
  await register('one more')
  await servers.caughtUp()
  const before = await readsFrom('replica')
  expect(await keywordsSeen({ position: position! })).toContain('after the pause')
  expect(await readsFrom('replica')).toBe(before + 1)
})

test('a position that cannot be read counts as not reached', async () => {
  await servers.caughtUp()
  await servers.pause()
  await register('after a riddle')
  for (const position of ['zzz', '0/0/0', 'FFFFFFFF/FFFFFFFF'])
    expect(await keywordsSeen({ position })).toContain('after a riddle')
})

test('whoever wrote through this process reads the own write for ten seconds, also without a position', {
  retry: 3,
}, async () => {
  await servers.caughtUp()
  await servers.pause()
  await register('own write')
  expect(await keywordsSeen({ token: world.token })).toContain('own write')
  expect(await keywordsSeen({ token: reader })).not.toContain('own write')
  await sleep(10_100)
  expect(await keywordsSeen({ token: world.token })).not.toContain('own write')
})

test('no decision about money looks at the replica', async () => {
  await servers.caughtUp()
  await servers.pause()
  const subscribed = await subscribe('acct_1')
  expect(subscribed.status).toBe(201)
  const token = await world.makeToken({ account: 'acct_1' })
  const { subscription_id } = subscribed.body.data
  // Lists do not know of it yet; each thing by its id does, and so does everything that moves money.
  const listed = await world.get('/api/billing/subscriptions', { token: reader })
  expect(listed.body.data.subscriptions).toEqual([])
  expect((await world.get(`/api/billing/subscriptions/${subscription_id}`, { token: reader })).status).toBe(
    200,
  )
  expect((await subscribe('acct_1')).body.error.code).toBe('subscription_exists')
  const [invoice] = (
    await world.get('/api/billing/invoices', { headers: { 'x-write-position': positionOf(subscribed)! } })
  ).body.data.invoices
  const refund = { invoice_id: invoice.invoice_id, amount: 9000 }
  expect((await world.post('/api/billing/refund', refund, { token })).status).toBe(200)
  const rest = await world.post('/api/billing/refund', { ...refund, amount: 29_000 }, { token })
  expect(rest.body.error.code).toBe('refund_exceeds_remaining')
  const canceled = await world.post('/api/billing/cancel', { subscription_id }, { token })
  expect([canceled.status, canceled.body.data.status]).toEqual([200, 'canceling'])
  expect(positionOf(canceled)).toBeDefined()
})

test('what the provider declines and what is refused carries a position too, and a read carries none', async () => {
  const declined = await world.post('/api/billing/subscribe', {
    account_id: 'acct_2',
    plan_id: 'pro-monthly',
    payment_method: { billing_key: 'bk_test_insufficient_funds' },
  })
  expect([declined.status, positionOf(declined) !== undefined]).toEqual([402, true])
  expect(positionOf(await world.get('/api/billing/subscriptions'))).toBeUndefined()
})

test('another process answers what it must not have missed', async () => {
  await servers.caughtUp()
  await servers.pause()
  const other = startService(['serve', '--no-worker', '--json'], {
    ...world.environment,
    RANKLEDGER_DATA: join(world.environment['RANKLEDGER_DATA']!, 'other'),
    PORT: '0',
  })
  try {
    const url = await other.url()
    const ready = async () => (await (await fetch(`${url}/readyz`)).json()) as { replica: string }
    await vi.waitFor(async () => expect((await ready()).replica).toBe('ready'), { timeout: 180_000 })
    const position = positionOf(await register('through the first'))!
    const see = async (headers: Record<string, string>) => {
      // The writer's own token: the second process knows nothing of its write but by the position.
      const answer = await fetch(`${url}/api/batch/keywords?workspace_id=ws_1`, {
        headers: { authorization: `Bearer ${world.token}`, ...headers },
      })
      return answer.text()
    }
    expect(await see({})).not.toContain('through the first')
    expect(await see({ 'x-write-position': position })).toContain('through the first')
  } finally {
    await other.stop()
  }
})

test('a replica that is further behind than DATABASE_READ_LAG_MS is not read', async () => {
  const strict = await openWorld({ environment: { ...keys(), ...urls({ DATABASE_READ_LAG_MS: '0' }) } })
  try {
    await replicaIs('ready', strict)
    await servers.pause()
    await register('too late')
    await replicaIs('behind', strict)
    const { text } = await strict.get('/metrics', { token: null })
    expect(text).toContain('rankledger_replica{state="behind"} 1')
    expect(Number(/^rankledger_replica_lag_seconds (.*)$/m.exec(text)?.[1])).toBeGreaterThan(0)
    expect(await keywordsSeen({}, strict)).toContain('too late')
    await servers.resume()
    await replicaIs('ready', strict)
  } finally {
    await strict.close()
  }
})

test('a replica that goes away costs no answer, and is read again once it is back', async () => {
  await servers.caughtUp()
  await keywordsSeen()
  await servers.stopReplica()
  for (let times = 0; times < 20; times++) expect(await keywordsSeen()).toContain('after the pause')
  await replicaIs('away')
  await servers.startReplica()
  await replicaIs('ready')
  const before = await readsFrom('replica')
  await keywordsSeen()
  expect(await readsFrom('replica')).toBe(before + 1)
})

test('doctor tells a replica from what is none', async () => {
  const examine = async (more: Record<string, string>) => {
    const { output } = await runCommand(doctor, ['--json'], { ...world.environment, ...more })
    const { findings } = JSON.parse(output) as {
      findings: { check: string; state: string; message: string }[]
    }
    return findings.filter(({ check, message }) => check === 'replica' || message.includes('_READ'))
  }
  expect(await examine({})).toMatchObject([
    { check: 'database', state: 'ok' },
    { check: 'replica', state: 'ok' },
  ])
  expect(await examine({ DATABASE_URL_READ: servers.primaryUrl })).toMatchObject([
    { check: 'database', state: 'ok' },
    { check: 'replica', state: 'fault', message: expect.stringContaining('no streaming replica') },
  ])
  const nobody = 'postgres://a:b@127.0.0.1:1/x'
  expect(await examine({ DATABASE_URL_READ: nobody })).toMatchObject([{ check: 'database', state: 'fault' }])
})

test('a replica that was promoted has a history of its own, and is not read', async () => {
  await servers.caughtUp()
  await servers.promote()
  await replicaIs('foreign')
  await register('after the promotion')
  expect(await keywordsSeen()).toContain('after the promotion')
})

test('without a replica nothing is added to an answer', async () => {
  const plain = await openWorld()
  const answer = await plain.post('/api/batch/keywords', { workspace_id: 'ws_1', keywords: ['plain'] })
  expect([answer.status, positionOf(answer)]).toEqual([200, undefined])
  expect((await plain.get('/readyz', { token: null })).body).toEqual({ status: 'ready' })
  await plain.close()
})

test('a route that writes cannot say that it may lag, and the setting needs a primary', () => {
  const http = buildHttp({
    access: { identify: async () => Promise.reject(new Error('unused')) },
    limiter: { admit: async () => Promise.reject(new Error('unused')) },
    openPrefixes: [],
    onAnswer: () => {},
    onFault: () => {},
  })
  const config = { access: 'open', mayLag: true } as const
  expect(() => http.post('/x', { config }, async () => {})).toThrow('only reads may')
  expect(() => readConfig({ DATABASE_URL_READ: 'postgres://a:b@127.0.0.1:1/x' })).toThrow(
    'DATABASE_URL_READ goes with',
  )
})

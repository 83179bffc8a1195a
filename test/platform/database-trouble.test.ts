import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())
afterEach(async () => {
  await world.query('drop function if exists make_trouble() cascade')
})

/** Makes every insert into a table fail the way a database in trouble fails, at once or at the commit. */
async function trouble(
  tables: string | string[],
  state: string,
  { times = 1_000_000, when = 'before' } = {},
) {
  await world.query('drop function if exists make_trouble() cascade')
  // A sequence counts on when the transaction is rolled back.
  await world.query('drop sequence if exists trouble_count')
  await world.query('create sequence trouble_count')
  await world.query(`create or replace function make_trouble() returns trigger language plpgsql as $$
    begin
      if nextval('trouble_count') <= ${times} then raise exception 'planted' using errcode = '${state}'; end if;
      return new;
    end $$`)
  for (const table of [tables].flat()) {
    await world.query(
      when === 'before'
        ? `create trigger planted before insert on ${table} for each row execute function make_trouble()`
        : `create constraint trigger planted after insert on ${table} deferrable initially deferred for each row execute function make_trouble()`,
    )
  }
}

const subscribe = (account: string, headers = {}) =>
  world.post(
    '/api/billing/subscribe',
    { account_id: account, plan_id: 'pro-monthly', payment_method: { billing_key: 'bk_test_ok' } },
    { headers },
  )
const register = () => world.post('/api/batch/keywords', { workspace_id: 'ws_1', keywords: ['a'] })
const answered = ({ status, body, headers }: Awaited<ReturnType<typeof register>>) => [
  status,
  body.error?.code,
  headers.get('retry-after') !== null,
]
const unavailable = [503, 'service_unavailable', true]

describe('while nothing was begun, a database that cannot do its work is 503 with Retry-After', () => {
  test.each([
    ['a full disk', '53100'],
    ['a read-only server', '25006'],
    ['lost prepared statements', '26000'],
    ['a statement that took too long', '57014'],
    ['a refused sign-in', '28P01'],
    ['a server that serialises and never lets us through', '40001'],
  ])('%s', async (_what, state) => {
    await trouble('batch.keyword', state)
    expect(answered(await register())).toEqual(unavailable)
    await trouble('billing.subscription', state)
    expect(answered(await subscribe('acct_trouble', { 'idempotency-key': state }))).toEqual(unavailable)
    expect(await world.query("select 1 from billing.account where id = 'acct_trouble'")).toEqual([])
  })

  test('a conflict that shows only at the commit is tried again, and never called begun', async () => {
    await trouble('billing.subscription', '40001', { when: 'at commit', times: 2 })
    expect((await subscribe('acct_lucky')).status).toBe(201)
    await trouble('billing.subscription', '40001', { when: 'at commit' })
    for (const headers of [{}, { 'idempotency-key': 'unlucky' }])
      expect(answered(await subscribe('acct_unlucky', headers))).toEqual(unavailable)
    await world.query('drop function make_trouble() cascade')
    expect((await subscribe('acct_unlucky', { 'idempotency-key': 'unlucky' })).status).toBe(201)
    expect(
      await world.query(
        "select 1 from billing.payment p join billing.invoice i on i.id = p.invoice_id where i.account_id = 'acct_unlucky'",
      ),
    ).toHaveLength(1)
  })
})

test('once something was begun the answer is 500 OutcomeUnknown, and the work goes on', async () => {
  await trouble('billing.ledger_transfer', '53100', { times: 1 })
  const answer = await subscribe('acct_begun', { 'idempotency-key': 'begun' })
  expect([answer.status, answer.body.error.code, answer.body.error.type]).toEqual([
    500,
    'internal_error',
    'OutcomeUnknown',
  ])
  const again = await subscribe('acct_begun', { 'idempotency-key': 'begun' })
  expect([201, 202]).toContain(again.status)
})

describe('a request that cannot be read, and that the database cannot count', () => {
  const headers = { 'content-type': 'application/json' }
  test.each([
    ['another content type', { raw: 'a', headers: { 'content-type': 'text/plain' } }],
    ['broken JSON', { raw: '{', headers }],
    ['too large a body', { raw: `"${'x'.repeat(256 * 1024)}"`, headers }],
  ])(
    '%s: trouble is 503, a fault is logged and 500, and neither is said in the database’s words',
    async (_what, asked) => {
      const ask = () => world.ask('POST', '/api/batch/keywords', asked)
      expect((await ask()).status).toBeLessThan(500)
      await trouble(['platform.rate_window', 'platform.write_probe'], '53100')
      expect(answered(await ask())).toEqual(unavailable)
      expect((await world.get('/readyz', { token: null })).body.reason).toBe('disk_full')

      await trouble('platform.rate_window', '22021')
      const failed = vi.spyOn(world.app.log, 'error')
      const { status, body, text } = await ask()
      expect([status, body.error.code, body.error.type]).toEqual([500, 'internal_error', 'DatabaseError'])
      expect(text).not.toContain('planted')
      expect(failed.mock.calls.map(([event]) => event)).toEqual(['http.failed'])
      failed.mockRestore()
    },
  )
})

test('an encoding error of the database is our fault, not the caller’s', async () => {
  for (const state of ['22021', '22P05']) {
    await trouble('batch.keyword', state)
    const answer = await register()
    expect([answer.status, answer.body.error.code]).toEqual([500, 'internal_error'])
  }
})

describe('U+0000 is refused when the request is read', () => {
  test.each([
    ['in a body', 'PUT', '/api/billing/accounts/a', { customer: { name: 'a\0b' } }, 'customer.name'],
    ['in a query', 'GET', '/api/billing/events?type=%00', undefined, 'type'],
    [
      'deep in a list',
      'POST',
      '/api/batch/ranks',
      {
        workspace_id: 'w',
        observations: [{ keyword: 'a', day: '2026-11-14', status: 'failed', engine: 'x\0' }],
      },
      'observations[0].engine',
    ],
  ])('%s', async (_where, method, path, body, at) => {
    const answer = await world.ask(method, path, body && { body })
    expect([answer.status, answer.body.error.code]).toEqual([400, 'validation_failed'])
    expect(answer.body.error.details.map((detail: { path: string }) => detail.path)).toEqual([at])
  })

  test('but a keyword is judged by the keyword rules', async () => {
    const answer = await world.post('/api/batch/keywords', { workspace_id: 'w', keywords: ['ok', 'a\0b'] })
    expect([answer.body.error.code, answer.body.error.details[0].code]).toEqual([
      'invalid_keyword',
      'keyword_control_character',
    ])
    expect((await world.get('/api/batch/volumes/a%00b')).body.error.code).toBe('invalid_keyword')
  })

  test('and text that only spells it out is text', async () => {
    const answer = await world.ask('PUT', '/api/billing/accounts/a', {
      body: { customer: { name: 'a\\u0000b' } },
    })
    expect(answer.status).toBe(200)
  })
})

describe('/readyz', () => {
  const ready = async () => {
    const { status, body } = await world.get('/readyz', { token: null })
    return [status, body.reason]
  }

  test('knows a database that only reads', async () => {
    const outside = new pg.Client({
      connectionString: world.databaseUrl,
      options: '-c default_transaction_read_only=off',
    })
    await outside.connect()
    const name = new URL(world.databaseUrl).pathname.slice(1)
    const change = async (what: string) => {
      await outside.query(`alter database ${name} ${what}`)
      await outside.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()',
        [name],
      )
    }
    expect(await ready()).toEqual([200, undefined])
    await change('set default_transaction_read_only = on')
    await expect.poll(ready).toEqual([503, 'read_only'])
    expect(answered(await register())).toEqual(unavailable)
    await change('reset default_transaction_read_only')
    await expect.poll(ready).toEqual([200, undefined])
    await outside.end()
  })

  test('knows a full disk from the request that met it, and forgets it once there is room', async () => {
    await trouble('batch.keyword', '53100')
    await register()
    expect(await ready()).toEqual([200, undefined])
    await trouble(['platform.write_probe', 'batch.keyword'], '53100')
    await register()
    expect(await ready()).toEqual([503, 'disk_full'])
    await world.query('drop function make_trouble() cascade')
    expect(await ready()).toEqual([200, undefined])
  })
})

import { connect as connectTo, createServer, type Server } from 'node:net'
import { sql } from 'kysely'
import pg from 'pg'
import { afterEach, describe, expect, inject, test } from 'vitest'
import {
  isDatabaseUnavailable,
  isRefusedByServer,
  troubleOf,
} from '../../src/platform/database/database-errors.ts'
import { mayHaveWritten, openDb, openPool, type PoolOptions } from '../../src/platform/database/db.ts'
import { migrate } from '../../src/platform/database/migrate.ts'
import { lookAtConnection } from '../../src/platform/database/pooler.ts'
import { openProxy, type TcpProxy } from '../chaos/proxy.ts'
import { databaseUrl, urlThrough } from '../postgres.ts'
import { createDatabase, dropDatabase } from '../world.ts'

const undo: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

async function freshDatabase(): Promise<string> {
  const url = await createDatabase()
  undo.push(() => dropDatabase(url))
  return url
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  undo.push(() => client.end())
  return client
}

function pool(url: string, more: Partial<PoolOptions> = {}): pg.Pool {
  const made = openPool({ url, max: 2, name: 'test', onError() {}, ...more })
  undo.push(() => made.end())
  return made
}

describe('a database that does not fit is refused in one sentence', () => {
  test('made by a newer release', async () => {
    const url = await freshDatabase()
    const client = await connect(url)
    await client.query("insert into platform.migration values ('29991231T0000-later.sql', 'x')")
    await expect(migrate(url)).rejects.toThrow(
      /made by a newer release than this one \(it holds migration 29991231T0000-later\.sql\); start that release/,
    )
  })

  test('made by other texts of the same names', async () => {
    const url = await freshDatabase()
    const client = await connect(url)
    await client.query("update platform.migration set sha256 = 'x' where name like '%-platform.sql'")
    await expect(migrate(url)).rejects.toThrow(/made by another text of migration .*-platform\.sql/)
  })

  test('not encoded in UTF-8', async () => {
    const server = await connect(inject('postgresUrl'))
    await server.query(
      "create database odd_letters encoding 'LATIN1' template template0 locale_provider libc locale 'C'",
    )
    undo.push(async () => void (await server.query('drop database odd_letters')))
    await expect(migrate(databaseUrl(inject('postgresUrl'), 'odd_letters'))).rejects.toThrow(
      /encoded in LATIN1 and cannot hold every text/,
    )
  })
})

describe('a start that cannot succeed ends soon, with a sentence that names the setting', () => {
  test('nobody listens', async () => {
    await expect(migrate('postgres://a:b@127.0.0.1:1/x')).rejects.toThrow(
      'No PostgreSQL listens at 127.0.0.1:1; start it, or correct DATABASE_URL.',
    )
  })

  test('somebody listens and says nothing', { retry: 3 }, async () => {
    const silent = await listen(() => {})
    const startedAt = performance.now()
    await expect(
      migrate(`postgres://a:b@127.0.0.1:${silent}/x`, {
        connectTimeoutMs: 300,
        setting: 'DATABASE_URL_SESSION',
      }),
    ).rejects.toThrow(
      /did not answer within 300 ms; correct DATABASE_URL_SESSION, or raise DATABASE_CONNECT_TIMEOUT_MS/,
    )
    expect(performance.now() - startedAt).toBeLessThan(5_000)
  })

  test('the server falls silent after the sign-in', async () => {
    const url = await freshDatabase()
    const link = await proxyTo(url)
    link.proxy.suffer('clog')
    await expect(migrate(link.url, { connectTimeoutMs: 500 })).rejects.toThrow(/did not answer within 500 ms/)
  })

  test('a wrong password', async () => {
    const url = new URL(await freshDatabase())
    url.password = 'wrong'
    await expect(migrate(url.toString())).rejects.toThrow(
      /does not let role rankledger in; correct DATABASE_URL/,
    )
  })

  test('another process migrates and does not come to an end', async () => {
    const server = await connect(inject('postgresUrl'))
    await server.query('create database slow_start')
    const url = databaseUrl(inject('postgresUrl'), 'slow_start')
    undo.push(async () => void (await server.query('drop database slow_start')))
    const other = await connect(url)
    await other.query('begin')
    await other.query('select pg_advisory_xact_lock(7236501)')
    await expect(migrate(url, { lockTimeoutMs: 200 })).rejects.toThrow(/raise MIGRATION_LOCK_TIMEOUT_MS/)
    await other.query('rollback')
    // Two at once take turns, file by file, and apply each once.
    const both = await Promise.all([migrate(url), migrate(url)])
    const applied = both.flatMap((one) => one.applied)
    expect([applied.length, new Set(applied).size]).toEqual([both[0]!.present, both[0]!.present])
  })
})

test('where all migrations are there, a start asks for no lock and changes nothing', async () => {
  const url = await freshDatabase()
  const other = await connect(url)
  await other.query('begin')
  await other.query('select pg_advisory_xact_lock(7236501)')
  expect((await migrate(url, { lockTimeoutMs: 200 })).applied).toEqual([])
})

test('a direct connection is told from a pooled one', async () => {
  expect(await lookAtConnection(await freshDatabase(), limits)).toEqual({
    pooling: 'none',
    takesSettings: true,
  })
})

const limits = { connectTimeoutMs: 5_000, queryTimeoutMs: 30_000 }

test('whoever looks at a connection signs in as a pool does, so that a pooler refuses it what it would refuse the pool', async () => {
  const signIns: Record<string, string>[] = []
  const url = `${await throughPooler(await freshDatabase(), (signIn) => void signIns.push(signIn))}&options=-c%20jit%3Doff`
  await pool(url).query('select 1')
  await lookAtConnection(url, limits)
  const [ofPool, ofLook] = signIns.map(({ application_name: name, ...others }) => [
    name !== undefined,
    others,
  ])
  expect(ofPool).toEqual([
    true,
    expect.objectContaining({ statement_timeout: '30000', options: '-c jit=off' }),
  ])
  expect(ofLook).toEqual(ofPool)
})

test.each(['statement_timeout', 'idle_in_transaction_session_timeout'])(
  'a pooler that refuses %s alone is told from one that takes all settings',
  async (setting) => {
    const url = await throughPooler(await freshDatabase(), (signIn) =>
      setting in signIn ? `unsupported startup parameter: ${setting}` : undefined,
    )
    const { takesSettings } = await lookAtConnection(url, limits)
    expect(takesSettings).toBe(false)
    await expect(pool(url).query('select 1')).rejects.toThrow(setting)
    expect((await pool(url, { serverLimits: takesSettings }).query('select 1')).rowCount).toBe(1)
  },
)

test('PREPARED_STATEMENTS=off sends every statement whole, whoever named it', async () => {
  const url = await freshDatabase()
  const named = { name: 'mine', text: 'select $1::int as n', values: [1] }
  const prepared = `select count(*)::int as n from pg_prepared_statements`
  for (const [preparedStatements, expected] of [
    [true, 2],
    [false, 0],
  ] as const) {
    const one = pool(url, { max: 1, preparedStatements })
    await one.query(named)
    const db = openDb<{ 'platform.token': { id: string } }>(one)
    for (let times = 0; times < 3; times++)
      await db.selectFrom('platform.token').select('id').where('id', '=', 'x').execute()
    expect((await one.query(prepared)).rows).toEqual([{ n: expected }])
  }
})

test('a connection whose prepared statements are lost is replaced', async () => {
  const url = await freshDatabase()
  const one = pool(url, { max: 1 })
  const ask = () => one.query({ name: 'mine', text: 'select pg_backend_pid() as pid, $1::int', values: [1] })
  const first = (await ask()).rows[0].pid
  await one.query('deallocate all')
  const lost = await ask().catch((error) => error)
  expect(troubleOf(lost)).toBe('prepared_statements_lost')
  expect((await ask()).rows[0].pid).not.toBe(first)
})

describe('a peer that vanishes', () => {
  test('hangs nothing for longer than the query timeout, and the pool recovers', { retry: 3 }, async () => {
    const { proxy, url } = await proxyTo(await freshDatabase())
    const small = pool(url, { max: 2, queryTimeoutMs: 1_000, connectTimeoutMs: 500 })
    const db = openDb<Record<string, never>>(small)
    await small.query('select 1')
    proxy.suffer('half_open')
    const startedAt = performance.now()
    const failures = await Promise.all(
      Array.from({ length: 6 }, () => small.query('select 1').catch((error) => error)),
    )
    const inTransaction = await db
      .transaction()
      .execute(async () => {})
      .catch((error) => error)
    // One statement's time, and little more: a rollback does not wait on the dead connection a second time.
    expect(performance.now() - startedAt).toBeLessThan(9_000)
    for (const failure of [...failures, inTransaction]) expect(isDatabaseUnavailable(failure)).toBe(true)
    proxy.heal()
    await expect.poll(() => small.query('select 1').then(() => 'ok')).toBe('ok')
  })

  test('leaves a write in doubt, and a read or an open transaction not', { retry: 3 }, async () => {
    const { proxy, url } = await proxyTo(await freshDatabase())
    const small = pool(url, { max: 3, queryTimeoutMs: 1_000, connectTimeoutMs: 500 })
    const db = openDb<Record<string, never>>(small)
    const failing = async (work: () => Promise<unknown>) => {
      const outcome = work().catch((error) => error)
      return outcome
    }
    await small.query('create table note (n int)')
    const write = failing(async () => {
      const client = await small.connect()
      proxy.suffer('half_open')
      return client.query('insert into note values (1)').finally(() => client.release())
    })
    expect(mayHaveWritten(await write)).toBe(true)
    proxy.heal()
    const read = failing(async () => {
      const client = await small.connect()
      proxy.suffer('half_open')
      return client.query('select * from note').finally(() => client.release())
    })
    const unread = await read
    expect([isDatabaseUnavailable(unread), mayHaveWritten(unread)]).toEqual([true, false])
    proxy.heal()
    const undone = await failing(() =>
      db.transaction().execute(async (tx) => {
        proxy.suffer('half_open')
        await tx.executeQuery({
          sql: 'insert into note values (2)',
          parameters: [],
          query: undefined as never,
          queryId: undefined as never,
        })
      }),
    )
    expect([isDatabaseUnavailable(undone), mayHaveWritten(undone)]).toEqual([true, false])
    proxy.heal()
    const committing = await failing(() =>
      db.transaction().execute(async () => {
        setImmediate(() => proxy.suffer('half_open'))
        await new Promise((resolve) => setTimeout(resolve, 50))
      }),
    )
    expect(mayHaveWritten(committing)).toBe(true)
  })
})

test('a connection that the server has ended is nobody else’s, also before the end of it arrives', async () => {
  const url = await freshDatabase()
  const admin = await connect(url)
  await admin.query('create table note (n int)')
  const small = pool(await throughLateEnds(url), { max: 1 })
  const db = openDb<Record<string, never>>(small)
  const pidOf = async () =>
    (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)).rows[0]!.pid
  const first = await pidOf()
  const write = sql`insert into note select 1 from pg_sleep(60)`.execute(db).catch((error) => error)
  await expect
    .poll(async () => {
      const running = `select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'`
      return (await admin.query(running, [first])).rowCount
    })
    .toBe(1)
  expect(mayHaveWritten(await write)).toBe(true)
  // What became of the write is a question of whoever asked for it.
  expect(await pidOf()).not.toBe(first)
})

test('what the server refused did not happen; silence leaves it open', () => {
  const error = (code: string) => Object.assign(new Error('x'), { code })
  expect(['25006', '53100', '40001', '26000', '28P01'].map((code) => isRefusedByServer(error(code)))).toEqual(
    Array(5).fill(true),
  )
  expect(['57P01', 'ECONNRESET', '23505', '42601'].map((code) => isRefusedByServer(error(code)))).toEqual(
    Array(4).fill(false),
  )
  expect(troubleOf(error('22021'))).toBeUndefined()
})

async function proxyTo(url: string): Promise<{ proxy: TcpProxy; url: string }> {
  const proxy = await openProxy({ target: () => Number(new URL(url).port) })
  undo.push(() => proxy.close())
  return { proxy, url: urlThrough(url, proxy) }
}

/** A way to the server on which what it says arrives at once, and that it has hung up half a second later. */
async function throughLateEnds(url: string): Promise<string> {
  const server = createServer((near) => {
    const far = connectTo(Number(new URL(url).port), '127.0.0.1')
    far.pipe(near, { end: false })
    near.pipe(far)
    for (const socket of [near, far]) socket.on('error', () => {})
    far.on('close', () => setTimeout(() => near.destroy(), 500))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  undo.push(async () => void server.close())
  return urlThrough(url, server.address() as { port: number })
}

/** A way to the server by way of somebody who reads what clients say at sign-in, and may refuse them for it. */
async function throughPooler(
  url: string,
  judge: (signIn: Record<string, string>) => string | undefined,
): Promise<string> {
  const server = createServer((near) => {
    near.on('error', () => {})
    near.once('data', (bytes) => {
      // A length, a version, and then names and values, each with a zero behind it.
      const words = bytes.subarray(8).toString().split('\0')
      const pairs = words.flatMap((word, at) => (at % 2 === 0 && word !== '' ? [[word, words[at + 1]!]] : []))
      const refused = judge(Object.fromEntries(pairs))
      if (refused !== undefined) return void near.end(refusal(refused))
      const far = connectTo(Number(new URL(url).port), '127.0.0.1')
      far.on('error', () => near.destroy())
      far.write(bytes)
      far.pipe(near).pipe(far)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  undo.push(async () => void server.close())
  return `${urlThrough(url, server.address() as { port: number })}?sslmode=disable`
}

function refusal(message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C08P01\0M${message}\0\0`)
  const head = Buffer.alloc(5)
  head.write('E')
  head.writeInt32BE(4 + fields.length, 1)
  return Buffer.concat([head, fields])
}

async function listen(onConnection: () => void): Promise<number> {
  const server: Server = createServer((socket) => {
    socket.on('error', () => {})
    onConnection()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  undo.push(async () => void server.close())
  return (server.address() as { port: number }).port
}

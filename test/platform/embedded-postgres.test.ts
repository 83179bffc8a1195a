import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  openEmbeddedPostgres,
} from '../../src/platform/embedded-postgres/embedded-postgres.ts'
import { findProcess } from '../../src/platform/embedded-postgres/process-mark.ts'
import { type Bundle, bundle } from '../bundle.ts'
import { urlThrough } from '../postgres.ts'

// Each story starts a real server, and most start another process beside it.

const root = process.getuid?.() === 0
const nobody = { uid: 65534, gid: 65534 }
const checkout = fileURLToPath(new URL('../..', import.meta.url))
// Under root's own home, say, no other account can run this code, and there is nothing to see.
const isOpenToOthers = foldersAbove(checkout).every((path) => (statSync(path).mode & 0o001) !== 0)

let folder: string
let dataDir: string
let made: string
let databaseUser: Bundle
const children: ChildProcess[] = []
const opened: EmbeddedPostgres[] = []

/** One database is made for all stories that begin with one; those about a first start make their own. */
beforeAll(async () => {
  made = await mkdtemp(join(tmpdir(), 'embedded-postgres-made-'))
  await chmod(made, 0o755)
  databaseUser = await bundle(new URL('./database-user.ts', import.meta.url))
  const first = await openEmbeddedPostgres({ dataDir: join(made, 'data') })
  await first.close()
})
afterAll(async () => {
  databaseUser.remove()
  await rm(made, { recursive: true })
})

/** What a first start left behind, owners and rights and all. */
function begin(): void {
  execFileSync('cp', ['-a', join(made, 'data'), dataDir])
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'embedded-postgres-test-'))
  await chmod(folder, 0o755)
  dataDir = join(folder, 'data')
})

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const database of opened.splice(0)) await database.close().catch(() => {})
  const record = await findRecord()
  const pid = await findPostmasterPid()
  if (pid) process.kill(pid, 'SIGQUIT')
  if (pid) await vi.waitUntil(async () => !(await findProcess(pid)), 10_000)
  if (record && !record.pgdata.startsWith(folder)) await rm(dirname(record.pgdata), { recursive: true })
  await rm(folder, { recursive: true, force: true })
})

describe('a data dir of its own', () => {
  test('the first start makes a PostgreSQL 18 with checksums and fsync, a later one finds its rows', async () => {
    const first = await open()
    await query(first, 'create table note (body text)')
    await query(first, "insert into note values ('kept')")
    expect(
      await settingsOf(first, ['data_checksums', 'fsync', 'synchronous_commit', 'full_page_writes']),
    ).toEqual(['on', 'on', 'on', 'on'])
    expect(await settingsOf(first, ['server_version_num', 'server_encoding', 'timezone'])).toEqual([
      expect.stringMatching(/^18/),
      'UTF8',
      'UTC',
    ])
    await first.close()

    const second = await open()
    expect(second.password).toBe(first.password)
    expect(await query(second, 'select body from note')).toEqual([{ body: 'kept' }])
  })

  test('the service is no superuser and only its generated password opens the door', async () => {
    begin()
    const database = await open()
    expect(
      await query(database, 'select rolsuper, rolcreatedb from pg_roles where rolname = current_user'),
    ).toEqual([{ rolsuper: false, rolcreatedb: true }])
    expect(database.password).toMatch(/^[\w-]{32}$/)
    expect(database.url).toContain('@127.0.0.1:')
    await expect(
      query({ url: database.url.replace(database.password, 'guess') }, 'select 1'),
    ).rejects.toThrow(/password authentication failed/)
    expect((await stat(join(dataDir, 'postgres.json'))).mode & 0o777).toBe(0o600)
    expect((await stat(dataDir)).mode & 0o007).toBe(0)
  })

  test('sessions go through a socket file that only the account may use, and the port serves as well', async () => {
    begin()
    const database = await open()
    const address = 'select inet_client_addr() is null as by_file'
    expect(await query(database, address)).toEqual([{ by_file: true }])
    expect(await query({ url: urlThrough(database.url, { port: portOf(database) }) }, address)).toEqual([
      { by_file: false },
    ])
    const folder = new URL(database.url).searchParams.get('host')!
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
    expect((await stat(join(folder, `.s.PGSQL.${portOf(database)}`))).mode & 0o077).toBe(0)
    await expect(
      query({ url: database.url.replace(database.password, 'guess') }, 'select 1'),
    ).rejects.toThrow(/password authentication failed/)
  })

  test('a data dir too deep for a socket file is served on its port alone', async () => {
    dataDir = join(folder, 'x'.repeat(100), 'data')
    await mkdir(dirname(dataDir))
    begin()
    const database = await open()
    expect(new URL(database.url).searchParams.has('host')).toBe(false)
    expect(await query(database, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('a socket file whose lock names a process that lives does not keep the next start away', async () => {
    begin()
    const first = await open()
    const socketFolder = new URL(first.url).searchParams.get('host')!
    const lock = join(socketFolder, `.s.PGSQL.${portOf(first)}.lock`)
    const left = (await readFile(lock, 'utf8')).replace(/^\d+/, '1')
    await first.close()
    await writeFile(lock, left)

    const second = await open()
    expect(portOf(second)).toBe(portOf(first))
    expect(new URL(second.url).searchParams.get('host')).toBe(socketFolder)
  })

  test('the server log holds no value a caller sent, not even in the message of an error', async () => {
    begin()
    const database = await open()
    await query(database, 'create table card (number text unique, expires int)')
    await query(database, 'insert into card values ($1, 1)', ['4242-planted-key'])
    await expect(query(database, 'insert into card values ($1, 1)', ['4242-planted-key'])).rejects.toThrow()
    await expect(query(database, 'select $1::int', ['4242-planted-number'])).rejects.toThrow()
    await expect(query(database, "select '4242-planted-text'::int")).rejects.toThrow()
    await expect(
      query(
        database,
        "do $$ begin raise warning '4242-planted-warning'; raise exception 'x' using detail = '4242'; end $$",
      ),
    ).rejects.toThrow()
    expect(
      await settingsOf(database, [
        'log_error_verbosity',
        'log_min_error_statement',
        'log_statement',
        'log_parameter_max_length',
        'log_parameter_max_length_on_error',
      ]),
    ).toEqual(['terse', 'panic', 'none', '0', '0'])
    await database.close()

    const log = await readFile(join(dataDir, 'postgres.log'), 'utf8')
    expect(log).toContain('database system is shut down')
    expect(log).not.toContain('4242')
    expect(log).not.toMatch(/DETAIL|CONTEXT|STATEMENT|QUERY/)
  })

  test('settings of the caller win over ours', async () => {
    begin()
    const database = await open({
      settings: { fsync: 'off', synchronous_commit: 'off', max_connections: '300' },
    })
    expect(await settingsOf(database, ['fsync', 'synchronous_commit', 'max_connections'])).toEqual([
      'off',
      'off',
      '300',
    ])
  })

  test('a data dir that was moved takes its database along', async () => {
    begin()
    const before = await open()
    await query(before, 'create table moved (id int)')
    await before.close()
    await rename(dataDir, `${dataDir}-elsewhere`)
    dataDir = `${dataDir}-elsewhere`
    expect(await query(await open(), 'select * from moved')).toEqual([])
  })

  test('lost database files are reported, never replaced by an empty database', async () => {
    begin()
    await rename(join(dataDir, 'pgdata'), join(folder, 'misplaced'))
    await expect(open()).rejects.toThrow(/are not there any more: put them back/)
    await rename(join(folder, 'misplaced'), join(dataDir, 'pgdata'))
    await (await open()).close()
  })

  test('database files without their password are left alone', async () => {
    begin()
    await rm(join(dataDir, 'postgres.json'))
    await expect(open()).rejects.toThrow(/holds their password, is missing: put it back/)
    expect(await readdir(join(dataDir, 'pgdata'))).toContain('PG_VERSION')
  })

  test('a port that somebody else took meanwhile is replaced by a free one', async () => {
    begin()
    const before = await open()
    await before.close()
    const squatter = createServer().listen(portOf(before), '127.0.0.1')
    await once(squatter, 'listening')
    const after = await open()
    expect(portOf(after)).not.toBe(portOf(before))
    expect(await query(after, 'select 1 as one')).toEqual([{ one: 1 }])
    squatter.close()
  })

  test('a platform without a PostgreSQL of ours is told about DATABASE_URL, and nothing is made', async () => {
    const platform = Object.getOwnPropertyDescriptor(process, 'platform')!
    Object.defineProperty(process, 'platform', { ...platform, value: 'sunos' })
    try {
      await expect(open()).rejects.toThrow(
        /^No PostgreSQL is installed for sunos-\S+ .*: set DATABASE_URL to .*\.$/,
      )
    } finally {
      Object.defineProperty(process, 'platform', platform)
    }
    expect(await readdir(folder)).toEqual([])
  })
})

describe('several processes', () => {
  test('processes that open at the same instant share one database, and the last one out stops it', async () => {
    const users = await Promise.all([startUser(), startUser(), startUser()])
    expect(new Set(users.map((user) => user.url)).size).toBe(1)
    const log = await readFile(join(dataDir, 'postgres.log'), 'utf8')
    expect(log.match(/LOG: {2}starting PostgreSQL/g)).toHaveLength(1)

    const pid = await getPostmasterPid()
    const [first, second, last] = users
    await first!.close()
    await second!.close()
    expect(await query(last!, 'select 1 as one')).toEqual([{ one: 1 }])
    await last!.close()
    expect(await findProcess(pid)).toBe(null)
    expect(await readdir(join(dataDir, 'postgres-users'))).toEqual([])
    expect((await readdir(dataDir)).filter((name) => /lock|draft/.test(name))).toEqual([])
  })

  test('a command that started the database does not stop it under a service that joined since', async () => {
    begin()
    const command = await startUser()
    const service = await open()
    const pid = await getPostmasterPid()
    await command.close()
    expect(await getPostmasterPid()).toBe(pid)
    expect(await query(service, 'select 1 as one')).toEqual([{ one: 1 }])
    await service.close()
    expect(await findProcess(pid)).toBe(null)
  })

  test('closing twice at once is closing once', async () => {
    begin()
    const database = await open()
    const pid = await getPostmasterPid()
    await Promise.all([database.close(), database.close()])
    expect(await findProcess(pid)).toBe(null)
  })

  test("the terminal's Ctrl-C and SIGTERM to the group end the processes of the group, not the database", async () => {
    begin()
    const user = await startUser({ detached: true })
    const pid = await getPostmasterPid()
    process.kill(-user.child.pid!, 'SIGINT')
    process.kill(-user.child.pid!, 'SIGTERM')
    await once(user.child, 'exit')
    expect(await query(user, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(await getPostmasterPid()).toBe(pid)
  })
})

describe('after a crash', () => {
  test('a service killed with -9 leaves its database running, and the next start finds it with all rows', async () => {
    begin()
    const killed = await startUser()
    await query(killed, 'create table paid as select 1 as id')
    const pid = await getPostmasterPid()
    await kill(killed.child)

    const next = await open()
    expect(await getPostmasterPid()).toBe(pid)
    expect(next.url).toBe(killed.url)
    expect(await query(next, 'select id from paid')).toEqual([{ id: 1 }])
    await next.close()
    expect(await findProcess(pid)).toBe(null)
  })

  test('service and database killed with -9 together start again with all committed rows', async () => {
    begin()
    const killed = await startUser()
    await query(killed, 'create table paid as select 1 as id')
    const session = await connect(killed)
    // A busy session outlives its postmaster for a while and holds the shared memory.
    const busy = session.query('select pg_sleep(1.5)').catch(() => {})
    await kill(killed.child)
    process.kill(await getPostmasterPid(), 'SIGKILL')

    expect(await query(await open(), 'select id from paid')).toEqual([{ id: 1 }])
    await busy
  })

  test('a first start killed half way is begun anew', async () => {
    const child = spawnUser({})
    await vi.waitUntil(
      async () => (await readdir(dataDir).catch(() => [])).some((name) => name.startsWith('pgdata-draft')),
      20_000,
    )
    await kill(child)
    expect(await query(await open(), 'select 1 as one')).toEqual([{ one: 1 }])
    expect((await readdir(dataDir)).filter((name) => name.startsWith('pgdata-draft'))).toEqual([])
  })

  test('a pid file whose number now belongs to another program does not hold up the start', async () => {
    begin()
    const stranger = spawn('sleep', ['60'], root ? nobody : {})
    children.push(stranger)
    const pgdata = join(dataDir, 'pgdata')
    const lines = [
      stranger.pid,
      pgdata,
      1_700_000_000,
      15_432,
      '',
      '127.0.0.1',
      '  1234567         0',
      'ready   ',
      '',
    ]
    await writeFile(join(pgdata, 'postmaster.pid'), lines.join('\n'))
    expect(await query(await open(), 'select 1 as one')).toEqual([{ one: 1 }])
    expect(stranger.exitCode).toBe(null)
  })

  test('a database that dies under a service comes back on the same port with all committed rows', async () => {
    begin()
    const attempts: number[] = []
    const database = await open({ keepAlive: true, onRestart: (attempt) => attempts.push(attempt) })
    await query(database, 'create table paid as select 1 as id')
    for (const time of [1, 2]) {
      const pid = await getPostmasterPid()
      process.kill(pid, 'SIGKILL')
      await vi.waitUntil(async () => await query(database, 'select 1').catch(() => null), {
        timeout: 180_000,
      })
      expect(await query(database, 'select id from paid')).toEqual([{ id: 1 }])
      expect(attempts).toEqual(Array(time).fill(1))
      expect(await getPostmasterPid()).not.toBe(pid)
    }
  })

  test('when two services watch, one of them starts the database again and both go on', async () => {
    begin()
    const restarts: string[] = []
    const one = await open({ keepAlive: true, onRestart: () => restarts.push('one') })
    await open({ keepAlive: true, onRestart: () => restarts.push('two') })
    process.kill(await getPostmasterPid(), 'SIGKILL')
    await vi.waitUntil(async () => await query(one, 'select 1').catch(() => null), { timeout: 180_000 })
    await delay(500) // longer than a watcher takes to look again: only silence can show that the other did not start it
    expect(restarts).toHaveLength(1)
  })
})

describe.skipIf(!root)('as root', () => {
  test('PostgreSQL runs as an account that nobody has, from within the data dir, which stays closed to others', async () => {
    await open()
    const status = await readFile(`/proc/${await getPostmasterPid()}/status`, 'utf8')
    const uid = Number(/^Uid:\s(\d+)/m.exec(status)?.[1])
    expect(uid).toBeGreaterThan(1_000)
    expect(await readFile('/etc/passwd', 'utf8')).not.toMatch(new RegExp(`^[^:]*:[^:]*:${uid}:`, 'm'))
    expect(status).toMatch(/^Groups:\s*$/m)
    for (const name of await readdir(join(dataDir, 'pgdata'), { recursive: true }))
      expect([name, (await lstat(join(dataDir, 'pgdata', name))).uid]).toEqual([name, uid])
    expect((await stat(dataDir)).mode & 0o777).toBe(0o710)
  })

  test('no process of another account, nobody’s either, may touch its files or signal it', async () => {
    begin()
    const database = await open()
    const { pid, pgdata } = { pid: await getPostmasterPid(), pgdata: join(dataDir, 'pgdata') }
    const tries = [
      `cat ${pgdata}/PG_VERSION`,
      `echo 'host all all all trust' >> ${pgdata}/pg_hba.conf`,
      `ls ${pgdata}`,
      `ls ${dataDir}`,
      `kill -HUP ${pid}`,
      `cat /proc/${pid}/environ`,
    ]
    for (const attempt of tries) {
      const child = spawn('/bin/sh', ['-c', attempt], { ...nobody, cwd: '/', stdio: 'ignore' })
      const [code] = await once(child, 'exit')
      expect([attempt, code === 0]).toEqual([attempt, false])
    }
    expect(await query(database, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('a data dir that an earlier start made as nobody is handed over, and keeps its rows', async () => {
    begin()
    const first = await open()
    await query(first, 'create table paid as select 1 as id')
    await first.close()
    const pgdata = join(dataDir, 'pgdata')
    for (const name of ['', ...(await readdir(pgdata, { recursive: true }))])
      await chown(join(pgdata, name), nobody.uid, nobody.gid)
    await chown(dataDir, 0, nobody.gid)

    const second = await open()
    expect(await query(second, 'select id from paid')).toEqual([{ id: 1 }])
    const status = await readFile(`/proc/${await getPostmasterPid()}/status`, 'utf8')
    expect(status).not.toMatch(/^Uid:\s65534/m)
    expect((await stat(pgdata)).uid).not.toBe(nobody.uid)
    expect((await stat(dataDir)).gid).not.toBe(nobody.gid)
  })

  test('neither the environment nor the working folder of the service reach PostgreSQL', async () => {
    begin()
    process.env['PLANTED_PROVIDER_KEY'] = 'sk_planted'
    await open()
    delete process.env['PLANTED_PROVIDER_KEY']
    const environment = await readFile(`/proc/${await getPostmasterPid()}/environ`, 'utf8')
    expect(environment).toContain('LC_ALL=C')
    expect(environment).not.toContain('planted')
  })

  test('under a parent closed to others the database lives elsewhere, durably, and is found again', async () => {
    await chmod(folder, 0o700)
    const first = await open({ onWarning: (sentence) => expect.fail(sentence) })
    await query(first, 'create table paid as select 1 as id')
    await first.close()
    const { pgdata } = (await findRecord())!
    expect(pgdata).toMatch(/^\/var\/lib\/rankledger\/data-\w+\/pgdata$/)
    expect((await stat(dirname(pgdata))).mode & 0o777).toBe(0o710)

    const second = await open()
    expect(await query(second, 'select id from paid')).toEqual([{ id: 1 }])
    expect(await readdir(dataDir)).not.toContain('pgdata')
  })

  test.skipIf(!isOpenToOthers)('another account that is not let in is told what to do', async () => {
    begin()
    const message = await failureOfUser(nobody)
    expect(message).toMatch(
      /^This account may not use .*data.*: run as the account that owns it.*DATABASE_URL\.$/,
    )
  })

  test.skipIf(!isOpenToOthers)(
    'in the data dir of another account root makes, opens and leaves everything as if it were that account',
    async () => {
      await mkdir(dataDir, { mode: 0o700 })
      await chown(dataDir, nobody.uid, nobody.gid)
      const asRoot = await open()
      await query(asRoot, 'create table paid as select 1 as id')
      await asRoot.close()
      for (const name of await readdir(dataDir, { recursive: true })) {
        const found = await lstat(join(dataDir, name))
        // The programs may be hard links into node_modules and stay root's; their owner can still remove them.
        const isProgram = name.startsWith('postgres-18') && !found.isDirectory()
        if (!isProgram) expect([name, found.uid]).toEqual([name, nobody.uid])
      }

      const user = await startUser({ account: nobody })
      expect(await query(user, 'select id from paid')).toEqual([{ id: 1 }])
      await user.close()
      expect(await query(await open(), 'select id from paid')).toEqual([{ id: 1 }])
    },
  )

  test.skipIf(!isOpenToOthers)('an account that is not root makes and runs its own database', async () => {
    await mkdir(dataDir, { mode: 0o700 })
    await chown(dataDir, nobody.uid, nobody.gid)
    const user = await startUser({ account: nobody })
    expect(await query(user, 'select 1 as one')).toEqual([{ one: 1 }])
    const pid = await getPostmasterPid()
    await user.close()
    expect(await findProcess(pid)).toBe(null)
  })
})

function foldersAbove(path: string): string[] {
  const above = dirname(path)
  return above === path ? [path] : [path, ...foldersAbove(above)]
}

async function open(options: Partial<EmbeddedPostgresOptions> = {}): Promise<EmbeddedPostgres> {
  const database = await openEmbeddedPostgres({ dataDir, ...options })
  opened.push(database)
  return database
}

type Account = { uid: number; gid: number }
type UserOptions = { account?: Account; detached?: boolean }

/** Another process that uses the database until it is told to close it. */
async function startUser(options: UserOptions = {}) {
  const child = spawnUser(options)
  const [line] = await once(createInterface(child.stdout!), 'line')
  const close = async () => {
    child.stdin!.end()
    const [code] = await once(child, 'exit')
    expect(code).toBe(0)
  }
  return { child, url: JSON.parse(line).url as string, close }
}

async function failureOfUser(account: Account): Promise<string> {
  const child = spawnUser({ account })
  const [line] = await once(createInterface(child.stdout!), 'line')
  return JSON.parse(line).failure
}

function spawnUser({ account = undefined, detached = false }: UserOptions): ChildProcess {
  const child = spawn(process.execPath, [databaseUser.file, dataDir], {
    ...account,
    detached,
    cwd: checkout,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  children.push(child)
  return child
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

async function connect(database: { url: string }): Promise<Client> {
  const client = new Client({ connectionString: database.url })
  client.on('error', () => {})
  await client.connect()
  return client
}

async function query(database: { url: string }, text: string, values: unknown[] = []): Promise<unknown[]> {
  const client = await connect(database)
  try {
    return (await client.query(text, values)).rows
  } finally {
    await client.end()
  }
}

async function settingsOf(database: EmbeddedPostgres, names: string[]): Promise<unknown[]> {
  const rows = await query(
    database,
    'select current_setting(name) as value from unnest($1::text[]) as name',
    [names],
  )
  return rows.map((row) => (row as { value: string }).value)
}

function portOf(database: { url: string }): number {
  return Number(new URL(database.url).port)
}

async function findRecord(): Promise<{ pgdata: string } | null> {
  const text = await readFile(join(dataDir, 'postgres.json'), 'utf8').catch(() => null)
  return text === null ? null : { pgdata: resolve(dataDir, JSON.parse(text).pgdata) }
}

async function findPostmasterPid(): Promise<number | null> {
  const record = await findRecord()
  const file = record && (await readFile(join(record.pgdata, 'postmaster.pid'), 'utf8').catch(() => null))
  const pid = file ? Number(file.split('\n')[0]) : null
  return pid !== null && (await findProcess(pid)) ? pid : null
}

async function getPostmasterPid(): Promise<number> {
  const pid = await findPostmasterPid()
  if (pid === null) throw new Error('no database runs')
  return pid
}

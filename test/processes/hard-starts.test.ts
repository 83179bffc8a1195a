import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { doctor } from '../../src/cli/doctor.ts'
import { runCommand as runInProcess } from '../billing/run-command.ts'
import { freePort } from '../free-port.ts'
import { patience } from '../patience.ts'
import { urlThrough } from '../postgres.ts'
import { createDatabase, dropDatabase } from '../world.ts'
import { runCommand, type ServiceProcess, startService } from './service-process.ts'

let folder: string
const undo: (() => unknown)[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rankledger-hard-start-'))
  chmodSync(folder, 0o755)
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
  rmSync(folder, { recursive: true, force: true })
})

function environment(more: Record<string, string>): Record<string, string> {
  return {
    RANKLEDGER_DATA: join(folder, 'data'),
    PORT: '0',
    VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
    WEBHOOK_SECRETS: `whsec_${randomBytes(32).toString('base64')}`,
    ...patience,
    ...more,
  }
}

function start(args: string[], more: Record<string, string>): ServiceProcess {
  const service = startService(args, environment(more))
  undo.push(() => service.child.kill('SIGKILL'))
  return service
}

/** Takes connections and never says a word. */
async function silentHost(): Promise<{ url: string; reached: Promise<void> }> {
  let reach: () => void = () => {}
  const reached = new Promise<void>((resolve) => {
    reach = resolve
  })
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.resume()
    reach()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  undo.push(() => server.close())
  return {
    url: `postgres://a:b@127.0.0.1:${(server.address() as { port: number }).port}/x`,
    reached,
  }
}

test('a silent database ends the start in time, with one sentence that names the setting', async () => {
  const { url } = await silentHost()
  for (const args of [['serve'], ['work'], ['token', 'list']]) {
    const { code, output } = await runCommand(
      args,
      environment({ DATABASE_URL: url, DATABASE_CONNECT_TIMEOUT_MS: '300' }),
    )
    expect([args, code]).toEqual([args, 1])
    expect(output.trim().split('\n')).toHaveLength(1)
    expect(output).toMatch(
      /did not answer within 300 ms; correct DATABASE_URL, or raise DATABASE_CONNECT_TIMEOUT_MS/,
    )
  }
})

test('SIGTERM works during the start, also while it waits for a silent database', async () => {
  const { url, reached } = await silentHost()
  const service = start(['serve'], { DATABASE_URL: url, DATABASE_CONNECT_TIMEOUT_MS: '60000' })
  await reached
  const askedAt = performance.now()
  expect(await service.stop()).toBe(0)
  expect(performance.now() - askedAt).toBeLessThan(30_000)
})

const bouncer = ((): string | undefined => {
  try {
    return execFileSync('sh', ['-c', 'PATH=$PATH:/usr/sbin command -v pgbouncer'], {
      encoding: 'utf8',
    }).trim()
  } catch {
    return undefined
  }
})()

test.skipIf(!bouncer)('behind PgBouncer in transaction mode it starts, charges and stops', async () => {
  const direct = await createDatabase()
  undo.push(() => dropDatabase(direct))
  const pooled = await openBouncer(direct)

  for (const [session, setting] of [
    [{}, 'DATABASE_URL'],
    [{ DATABASE_URL_SESSION: pooled }, 'DATABASE_URL_SESSION'],
  ] as const) {
    const refused = await runWithin(['work'], environment({ DATABASE_URL: pooled, ...session }))
    expect(refused).toEqual([
      1,
      expect.stringMatching(
        new RegExp(
          `^${setting} goes through a pooler .* set DATABASE_URL_SESSION to the PostgreSQL behind it\\.\\n$`,
        ),
      ),
    ])
  }

  const service = start(['serve'], {
    DATABASE_URL: pooled,
    DATABASE_URL_SESSION: direct,
    PREPARED_STATEMENTS: 'off',
  })
  const url = await service.url()
  const token = readFileSync(join(folder, 'data', 'token'), 'utf8').trim()
  const answers = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      const answer = await fetch(`${url}/api/billing/subscribe`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          account_id: `acct_${n}`,
          plan_id: 'pro-monthly',
          payment_method: { billing_key: 'bk_test_ok' },
        }),
      })
      return answer.status
    }),
  )
  expect(answers).toEqual(Array(20).fill(201))
  expect((await fetch(`${url}/readyz`)).status).toBe(200)
  expect(await service.stop()).toBe(0)
})

test.skipIf(!bouncer)(
  'a start and doctor name the mode of a PgBouncer that refuses transactions',
  async () => {
    const direct = await createDatabase()
    undo.push(() => dropDatabase(direct))
    const pooled = await openBouncer(direct, 'statement')
    const given = environment({
      DATABASE_URL: pooled,
      DATABASE_URL_SESSION: direct,
      PREPARED_STATEMENTS: 'off',
    })
    expect(await runWithin(['work'], given)).toEqual([
      1,
      'DATABASE_URL goes through a pooler that refuses transactions; set pool_mode = transaction in PgBouncer.\n',
    ])
    const { code, output } = await runInProcess(doctor, [], given)
    expect(code).toBe(1)
    expect(output).toMatch(
      /^fault pooler {8}the pooler refuses transactions; set pool_mode = transaction in PgBouncer$/m,
    )
  },
)

/** A start that should have been refused is ended, so that its output tells. */
async function runWithin(args: string[], given: Record<string, string>): Promise<[number | null, string]> {
  const service = startService(args, given)
  const timer = setTimeout(() => service.child.kill('SIGKILL'), 300_000)
  const code = await new Promise<number | null>((resolve) => service.child.on('close', resolve))
  clearTimeout(timer)
  return [code, service.output()]
}

/** A real PgBouncer as Debian 12 has it, in front of the test server. */
async function openBouncer(
  direct: string,
  mode: 'transaction' | 'statement' = 'transaction',
): Promise<string> {
  const at = new URL(direct)
  const port = await freePort()
  const ini = join(folder, 'pgbouncer.ini')
  writeFileSync(
    ini,
    `[databases]
* = host=127.0.0.1 port=${at.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = plain
auth_file = ${join(folder, 'users.txt')}
pool_mode = ${mode}
default_pool_size = 5
`,
  )
  writeFileSync(join(folder, 'users.txt'), `"${at.username}" "${decodeURIComponent(at.password)}"\n`)
  const asRoot = process.getuid?.() === 0
  const child: ChildProcess = spawn(bouncer!, [...(asRoot ? ['-u', 'nobody'] : []), ini], { stdio: 'ignore' })
  undo.push(() => child.kill('SIGKILL'))
  for (let tries = 0; tries < 100 && !(await reaches(port)); tries++) await sleep(50)
  return urlThrough(direct, { port })
}

async function reaches(port: number): Promise<boolean> {
  const { connect } = await import('node:net')
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}

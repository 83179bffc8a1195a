import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { runCommand, type ServiceProcess, startService } from './service-process.ts'

// Whole processes are started and stopped here, which takes its time on a busy machine.

let made: string
let dataDir: string
let environment: Record<string, string>
const running: ServiceProcess[] = []

/** One data dir is made for all stories that begin with one; those about a first start make their own. */
beforeAll(async () => {
  made = mkdtempSync(join(tmpdir(), 'rankledger-made-'))
  const { code, output } = await runCommand(['migrate'], { RANKLEDGER_DATA: made })
  expect(code, output).toBe(0)
})
afterAll(() => rmSync(made, { recursive: true }))

/** What an earlier start left behind, owners and rights and all. */
function begin(): void {
  execFileSync('cp', ['-a', `${made}/.`, dataDir])
}

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'rankledger-start-'))
  environment = { RANKLEDGER_DATA: dataDir, PORT: '0' }
})
afterEach(async () => {
  for (const service of running.splice(0)) service.child.kill('SIGKILL')
  // A database outlives its service when that is killed.
  const left = existsSync(join(dataDir, 'postgres.json')) ? findPostmasterPid() : undefined
  if (left !== undefined && isAlive(left)) {
    process.kill(left, 'SIGQUIT')
    await expect.poll(() => isAlive(left)).toBe(false)
  }
  rmSync(dataDir, { recursive: true, force: true })
})

function serve(): ServiceProcess {
  const service = startService(['serve'], environment)
  running.push(service)
  return service
}

const token = () => readFileSync(join(dataDir, 'token'), 'utf8').trim()
const postmasterPid = () => findPostmasterPid()!
function findPostmasterPid(): number | undefined {
  const file = join(pgdata(), 'postmaster.pid')
  return existsSync(file) ? Number(readFileSync(file, 'utf8').split('\n')[0]) : undefined
}
const pgdata = () => resolve(dataDir, JSON.parse(readFileSync(join(dataDir, 'postgres.json'), 'utf8')).pgdata)

async function register(url: string, keywords: string[]): Promise<unknown> {
  const answer = await fetch(`${url}/api/batch/keywords`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token()}`, 'content-type': 'application/json' },
    body: JSON.stringify({ workspace_id: 'ws_1', keywords }),
  })
  return ((await answer.json()) as { data: unknown }).data
}

test('an empty folder becomes a working service, and from the second start on it takes less than 3 seconds', async () => {
  const first = serve()
  const url = await first.url()
  expect(await register(url, ['a', 'b'])).toEqual({ registered: 2, skipped: 0 })
  // Its output is no terminal here, so it names the file and keeps the token to itself.
  expect(first.output()).toContain(join(dataDir, 'token'))
  expect(first.output()).not.toContain(token())
  expect(statSync(join(dataDir, 'token')).mode & 0o777).toBe(0o600)
  expect(statSync(join(dataDir, 'webhook-secret')).mode & 0o777).toBe(0o600)
  expect(await first.stop()).toBe(0)

  const isSoon = (ms: number) => {
    // A machine that takes long to start Node at all is busy with something else, and can only add to a time.
    const bareMs = timeOf(() => execFileSync(process.execPath, ['-e', '0']))
    return ms < Math.max(3_000, 50 * bareMs)
  }
  let wasSoon = false
  // The least of several counts.
  for (let round = 0; round < 3 && !wasSoon; round++) {
    const startedAt = performance.now()
    const again = serve()
    const url = await again.url()
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    wasSoon = isSoon(performance.now() - startedAt)
    expect(await register(url, ['a', 'c'])).toEqual(
      round === 0 ? { registered: 1, skipped: 1 } : { registered: 0, skipped: 2 },
    )
    expect(await again.stop('SIGINT')).toBe(0)
  }
  expect(wasSoon).toBe(true)
})

test('a data dir whose webhook secret is empty gets one, and serves', async () => {
  begin()
  const file = join(dataDir, 'webhook-secret')
  writeFileSync(file, '\n', { mode: 0o600 })
  const service = serve()
  expect((await fetch(`${await service.url()}/readyz`)).status).toBe(200)
  expect(readFileSync(file, 'utf8')).toMatch(/^whsec_\S{40,}\n$/)
  expect(await service.stop()).toBe(0)
})

test('after kill -9 of the service and of everything, the next start just works and nothing is lost', async () => {
  begin()
  const first = serve()
  await register(await first.url(), ['a'])
  await first.stop('SIGKILL')

  const second = serve()
  expect(await register(await second.url(), ['a', 'b'])).toEqual({ registered: 1, skipped: 1 })
  const postmaster = postmasterPid()
  await second.stop('SIGKILL')
  process.kill(postmaster, 'SIGKILL')

  const third = serve()
  expect(await register(await third.url(), ['a', 'b', 'c'])).toEqual({ registered: 1, skipped: 2 })
  expect(await third.stop()).toBe(0)
})

test('a database that dies under the service is started again, and requests succeed again', async () => {
  begin()
  const service = serve()
  const url = await service.url()
  await register(url, ['a'])
  process.kill(postmasterPid(), 'SIGKILL')
  await service.event('database.restarted')
  await expect
    .poll(() => register(url, ['a', 'b']).catch(() => 'not yet'))
    .toEqual({ registered: 1, skipped: 1 })
  expect(await service.stop()).toBe(0)
})

test('SIGTERM to npm start, twice at once, stops everything with exit 0', async () => {
  begin()
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const npm = spawn('npm', ['start', '--silent'], {
    cwd: root,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let text = ''
  for (const output of [npm.stdout, npm.stderr]) {
    output.on('data', (chunk) => {
      text += chunk
    })
  }
  await expect.poll(() => text).toContain('service.started')
  const postmaster = postmasterPid()
  const exited = new Promise<number | null>((resolve) => npm.on('exit', resolve))
  process.kill(-npm.pid!, 'SIGTERM')
  process.kill(-npm.pid!, 'SIGTERM')
  expect(await exited).toBe(0)
  await expect.poll(() => isAlive(postmaster)).toBe(false)
  expect(text).toContain('service.stopped')
})

test('a command uses the database of a running service, and starts its own when none runs', async () => {
  const alone = await runCommand(
    ['token', 'create', '--scope', 'batch:write', '--workspace', 'ws_9', '--json'],
    environment,
  )
  expect(alone.code).toBe(0)
  const made = JSON.parse(alone.output)
  expect(made.token).toMatch(/^rl_test_/)

  const service = serve()
  const url = await service.url()
  const listed = await runCommand(['token', 'list', '--json'], environment)
  expect(JSON.parse(listed.output).tokens).toHaveLength(2)
  expect(listed.output).not.toContain(made.token)
  // Whoever found a leaked token has the whole of it; it is revoked by its id, and not printed again.
  const revoked = await runCommand(['token', 'revoke', made.token, '--json'], environment)
  expect(revoked.code).toBe(0)
  expect(JSON.parse(revoked.output)).toEqual({ token_id: made.token_id, outcome: 'revoked' })
  expect(revoked.output).not.toContain(made.token)
  const again = await runCommand(['token', 'revoke', `${made.token.slice(0, -1)}!`], environment)
  expect(again.code).toBe(1)
  expect(again.output).not.toContain(made.token.slice(8, 40))
  const mistyped = await runCommand(['token', made.token], environment)
  expect(mistyped.output).not.toContain(made.token.slice(20))
  const unknownFlag = await runCommand(['token', 'list', `--${made.token}`], environment)
  expect(unknownFlag.output).not.toContain(made.token.slice(20))
  expect((await fetch(`${url}/readyz`)).status).toBe(200)
  expect(await service.stop()).toBe(0)
})

test.each([
  [['nonsense'], 2, /no command "nonsense"/],
  [['token'], 2, /create, list, rotate or revoke/],
  [['token', 'create'], 2, /at least one --scope/],
  [['token', 'create', '--scope', 'root'], 2, /no such scope/],
  [['token', 'revoke', 'nobody'], 1, /No valid token/],
  [['serve', '--fast'], 2, /--fast/],
  [['help'], 0, /rankledger COMMAND/],
  [['help', 'token'], 0, /token create/],
] as const)('rankledger %s exits with %i', async (args, code, said) => {
  begin()
  const result = await runCommand([...args], environment)
  expect(result.output).toMatch(said)
  expect(result.code).toBe(code)
})

test('a wrong environment is told whole, before anything starts', async () => {
  const result = await runCommand(['serve'], { ...environment, PORT: 'x', MODE: 'live' })
  expect(result.code).toBe(1)
  expect(result.output).toMatch(/PORT must be/)
  expect(result.output).toMatch(/DATABASE_URL is required with MODE=live/)
})

test('a taken port is one clear sentence, and ends also what listens on METRICS_PORT', async () => {
  begin()
  const first = serve()
  const { port } = new URL(await first.url())
  environment = { ...environment, PORT: port, METRICS_PORT: '0' }
  const second = serve()
  await expect.poll(() => second.child.exitCode, { timeout: 60_000 }).toBe(1)
  expect(second.output()).toMatch(new RegExp(`Port ${port} is taken`))
  expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
})

test('a start that fails after its doors are open closes them and ends', async () => {
  begin()
  environment = { ...environment, METRICS_PORT: '0' }
  const service = serve()
  // Nobody is left to read the banner, which comes last.
  service.child.stdout!.destroy()
  await expect.poll(() => service.child.exitCode, { timeout: 60_000 }).toBe(1)
  expect(service.output()).toMatch(/EPIPE/)
})

function timeOf(work: () => void): number {
  const startedAt = performance.now()
  work()
  return performance.now() - startedAt
}

function isAlive(pid: number): boolean {
  try {
    return !execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
      .trim()
      .startsWith('Z')
  } catch {
    return false
  }
}

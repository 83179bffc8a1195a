import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { newToken } from '../../src/platform/access/token.ts'
import { openEmbeddedPostgres } from '../../src/platform/embedded-postgres/embedded-postgres.ts'

/** Real processes of the built service, on a durable PostgreSQL of their own. */
export type Fleet = {
  readonly dataDir: string
  /** May do everything. */
  readonly token: string
  readonly webhookSecret: string
  /** For looking on from outside. */
  readonly db: pg.Pool
  postmasterPid(): number
  start(args: readonly string[], environment?: Readonly<Record<string, string>>): Member
  /** Runs a command to its end. */
  run(
    args: readonly string[],
    environment?: Readonly<Record<string, string>>,
  ): Promise<{ code: number | null; output: string }>
  /** How often each event stood in the log of any member so far. */
  logged(): Record<string, number>
  close(): Promise<void>
}

export type Member = {
  readonly name: string
  readonly child: ChildProcess
  /** Where it listens, once it has started; a worker listens nowhere. */
  started(): Promise<string>
  /** Asks it to stop, and tells how it ended and how long that took. */
  stop(): Promise<{ code: number | null; ms: number }>
}

export async function openFleet(settings: Readonly<Record<string, string>> = {}): Promise<Fleet> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-endurance-'))
  const server = await openEmbeddedPostgres({ dataDir })
  const db = new pg.Pool({ connectionString: server.url, max: 4 })
  db.on('error', () => {})
  const token = newToken('test')
  const webhookSecret = `whsec_${randomBytes(32).toString('base64')}`
  const environment = {
    DATABASE_URL: server.url,
    RANKLEDGER_DATA: dataDir,
    PORT: '0',
    VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
    WEBHOOK_SECRETS: webhookSecret,
    BOOTSTRAP_TOKEN: token,
    ...settings,
  }
  const children = new Set<ChildProcess>()
  const events: Record<string, number> = {}

  const launch = (args: readonly string[], more: Readonly<Record<string, string>> = {}) => {
    const child = spawn(process.execPath, [main, ...args], {
      env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...environment, ...more },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.add(child)
    child.on('exit', () => children.delete(child))
    return child
  }
  const closeAll = async () => {
    // One that is stopped (SIGSTOP) obeys nothing gentler.
    for (const child of children) child.kill('SIGKILL')
    await Promise.all([...children].map((child) => once(child, 'exit')))
    await db.end()
    await server.close()
    rmSync(dataDir, { recursive: true, force: true })
  }
  let closing: Promise<void> | undefined
  // An interrupt closes too, and then whoever opened the fleet finds its members gone and wants to close it as well.
  const close = () => {
    closing ??= closeAll()
    return closing
  }
  closeWhenInterrupted(close)
  process.once('exit', () => {
    for (const child of children) child.kill('SIGKILL')
  })

  return {
    dataDir,
    token,
    webhookSecret,
    db,
    postmasterPid: () => postmasterPidOf(dataDir),
    start: (args, more) =>
      memberOf(launch(args, more), args.join(' '), (event) => {
        events[event] = (events[event] ?? 0) + 1
      }),
    async run(args, more) {
      const child = launch(args, more)
      let output = ''
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (chunk: Buffer) => {
          output += chunk.toString()
        })
      const [code] = (await once(child, 'close')) as [number | null]
      return { code, output }
    },
    logged: () => ({ ...events }),
    close,
  }
}

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

function memberOf(child: ChildProcess, name: string, onEvent: (event: string) => void): Member {
  const tail: string[] = []
  const exited = new Promise<number | null>((resolve) => child.on('exit', (code) => resolve(code)))
  const started = new Promise<string>((resolve, reject) => {
    const read = (line: string) => {
      const event = /"event":"([\w.-]+)"/.exec(line)?.[1]
      if (event === 'http.answered') return
      if (event !== undefined) onEvent(event)
      if (tail.push(line) > 50) tail.shift()
      if (event === 'service.started') resolve(`http://127.0.0.1:${JSON.parse(line).port}`)
    }
    for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream! }).on('line', read)
    void exited.then((code) => reject(new Error(`${name} ended with ${code}:\n${tail.join('\n')}`)))
  })
  started.catch(() => {})

  return {
    name,
    child,
    started: () => started,
    async stop() {
      const askedAt = performance.now()
      child.kill('SIGTERM')
      return { code: await exited, ms: Math.round(performance.now() - askedAt) }
    },
  }
}

function postmasterPidOf(dataDir: string): number {
  const { pgdata } = JSON.parse(readFileSync(join(dataDir, 'postgres.json'), 'utf8'))
  return Number.parseInt(readFileSync(resolve(dataDir, pgdata, 'postmaster.pid'), 'utf8'), 10)
}

function closeWhenInterrupted(close: () => Promise<void>): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void close().finally(() => process.exit(130)))
}

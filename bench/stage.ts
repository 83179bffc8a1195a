import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { migrate } from '../src/platform/database/migrate.ts'
import { openEmbeddedPostgres } from '../src/platform/embedded-postgres/embedded-postgres.ts'
import { migrateQueue } from '../src/platform/queue/queue.ts'
import type { Asked } from './keep-asking.ts'
import type { LoadOrder } from './load-process.ts'

export type Started = {
  port: number
  token?: string
  sandboxUrl?: string
  sandboxKey?: string
  process: ChildProcess
}

/** What a measurement stands on: a durable PostgreSQL, and processes that end with it. */
export type Stage = {
  readonly url: string
  readonly environment: Record<string, string>
  readonly db: pg.Client
  /** Starts a script of this folder; it says what it is when it is up. */
  start(script: string, args?: string[]): Promise<Started>
  load(order: LoadOrder): Promise<Asked>
  /** Several kinds of requests at once, from one client. */
  loadAll(orders: LoadOrder[]): Promise<Asked[]>
  close(): Promise<void>
}

// The loader turns them on; what is built and shipped runs without, and a stack that is looked up in them is slow.
const withoutSourceMaps = 'data:text/javascript,process.setSourceMapsEnabled(false)'

/** How each stage that stands now is cleared. */
const standing = new Set<() => Promise<void>>()

/** Clears what a bench left behind that failed or was broken off. */
export async function clearStages(): Promise<void> {
  for (const clear of standing) await clear()
}

/** `settings`: what its processes are told besides. */
export async function openStage(settings: Readonly<Record<string, string>> = {}): Promise<Stage> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-bench-'))
  const server = await openEmbeddedPostgres({ dataDir })
  const processes: ChildProcess[] = []
  const clear = async () => {
    standing.delete(clear)
    for (const child of processes) child.kill('SIGKILL')
    await server.close()
    rmSync(dataDir, { recursive: true, force: true })
  }
  standing.add(clear)
  await migrate(server.url)
  await migrateQueue(server.url)
  const db = new pg.Client({ connectionString: server.url })
  // When its server is cleared away, whoever waits for an answer hears of it.
  db.on('error', () => {})
  await db.connect()
  const environment = {
    DATABASE_URL: server.url,
    RANKLEDGER_DATA: dataDir,
    PORT: '0',
    VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
    WEBHOOK_SECRETS: `whsec_${randomBytes(32).toString('base64')}`,
    ...settings,
  }
  const launch = (script: string, args: string[]) => {
    const child = fork(fileURLToPath(new URL(script, import.meta.url)), args, {
      execArgv: ['--import', 'tsx', '--import', withoutSourceMaps],
      env: { ...process.env, ...environment },
      // The log is written for real, to where nobody reads it.
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    processes.push(child)
    return child
  }
  let client: ChildProcess | undefined
  const loadAll = async (orders: LoadOrder[]): Promise<Asked[]> => {
    client ??= launch('./load-process.ts', [])
    client.send(orders)
    const [reports] = (await once(client, 'message')) as [Asked[]]
    return reports
  }

  return {
    url: server.url,
    environment,
    db,
    async start(script, args = []) {
      const child = launch(script, args)
      const ended = once(child, 'exit').then(() => {
        throw new Error(`${script} ended before it was up`)
      })
      const [up] = (await Promise.race([once(child, 'message'), ended])) as [Omit<Started, 'process'>]
      // From here on it is ended with the stage, and nobody waits for that.
      ended.catch(() => {})
      return { ...up, process: child }
    },
    loadAll,
    load: async (order) => (await loadAll([order]))[0]!,
    async close() {
      await db.end()
      await clear()
    },
  }
}

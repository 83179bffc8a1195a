import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { inject } from 'vitest'
import { type App, openApp, startNotifier } from '../src/app.ts'
import { seedPlans } from '../src/billing/plans/seed-plans.ts'
import { readConfig } from '../src/config.ts'
import { type Scope, scopes } from '../src/platform/access/access.ts'
import { newToken } from '../src/platform/access/token.ts'
import { insertToken } from '../src/platform/access/token-rows.ts'
import type { Http } from '../src/platform/http/http.ts'
import { openReadiness } from '../src/platform/http/readiness.ts'
import { buildServer } from '../src/server.ts'
import { startUpkeep, startWorker, type Worker } from '../src/worker.ts'
import { openCodeCheck } from './api-document.ts'
import { copyOnNodes, dropOnNodes } from './citus.ts'
import { dropIfThere } from './drop-database.ts'
import { patience } from './patience.ts'
import { databaseUrl, template } from './postgres.ts'

export type Answer = {
  status: number
  headers: Headers
  /** The parsed body. */
  // biome-ignore lint/suspicious/noExplicitAny: stories read fields that their assertions pin down
  body: any
  text: string
}

export type Ask = {
  body?: unknown
  headers?: Record<string, string>
  token?: string | null
  raw?: string | Buffer
}

/** A whole service on a database of its own: real PostgreSQL, real HTTP, and a clock you turn. */
export type World = {
  readonly app: App
  readonly http: Http
  readonly url: string
  readonly databaseUrl: string
  /** May do everything. */
  readonly token: string
  /** The environment that starts another process on the same database. */
  readonly environment: Record<string, string>
  ask(method: string, path: string, ask?: Ask): Promise<Answer>
  get(path: string, ask?: Ask): Promise<Answer>
  post(path: string, body: unknown, ask?: Ask): Promise<Answer>
  makeToken(grant: {
    scopes?: readonly Scope[]
    workspace?: string | null
    account?: string | null
    expiresAt?: Date
  }): Promise<string>
  /** Turns the clock by the public route, which does all that falls due on the way. */
  advanceTo(instant: string | Date): Promise<Answer>
  advanceBy(duration: string): Promise<Answer>
  query<R extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<R[]>
  close(): Promise<void>
}

export type WorldOptions = {
  /** Where the clock starts; without it, at real time. */
  now?: string
  /** Work jobs in this process too. */
  worker?: boolean
  /** Deliver the sandbox provider's notifications. */
  webhooks?: boolean
  environment?: Record<string, string>
  /** One that is there already, and stays; without it, one of its own. */
  database?: string
}

export async function openWorld(options: WorldOptions = {}): Promise<World> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-world-'))
  const url = options.database ?? (await createDatabase())
  const environment = {
    DATABASE_URL: url,
    RANKLEDGER_DATA: dataDir,
    PORT: '0',
    LOG_LEVEL: 'silent',
    ...patience,
    VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
    WEBHOOK_SECRETS: `whsec_${randomBytes(32).toString('base64')}`,
    ...options.environment,
  }
  if (options.now !== undefined) await setClock(url, new Date(options.now))
  const app = await openApp(readConfig(environment), { name: 'test', role: 'service' })
  await seedPlans(app.billing)
  const readiness = openReadiness()
  const http = await buildServer(app, readiness)
  const base = await http.listen({ host: '127.0.0.1', port: 0 })
  readiness.open()
  const notifier = options.webhooks ? startNotifier(app, base) : undefined
  const workers: Worker[] = options.worker ? [startUpkeep(app), startWorker(app)] : []

  const makeToken: World['makeToken'] = async (grant) => {
    const made = newToken('test')
    const { workspace = '*', account = '*' } = grant
    await insertToken(app.pool, made, {
      name: 'test',
      scopes: grant.scopes ?? scopesFor(workspace, account),
      workspace,
      account,
      createdAt: app.clock(),
      createdBy: 'test',
      expiresAt: grant.expiresAt ?? null,
    })
    return made
  }
  const token = await makeToken({})

  const checkCode = codeCheckOf(app, http)
  const ask: World['ask'] = async (method, path, { body, headers = {}, token: own, raw } = {}) => {
    const bearer = own === undefined ? token : own
    const answer = await fetch(base + path, {
      method,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
        ...headers,
      },
      ...(raw !== undefined ? { body: raw } : body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    const json = answer.headers.get('content-type')?.includes('json') ?? false
    const parsed = json && text !== '' ? JSON.parse(text) : undefined
    if (answer.status >= 400 && parsed?.error) {
      const unlisted = checkCode({ method, path }, answer.status, parsed.error.code)
      if (unlisted) throw new Error(unlisted)
    }
    return { status: answer.status, headers: answer.headers, body: parsed, text }
  }
  const post: World['post'] = (path, body, more = {}) => ask('POST', path, { ...more, body })

  return {
    app,
    http,
    url: base,
    databaseUrl: url,
    token,
    environment,
    ask,
    get: (path, more) => ask('GET', path, more),
    post,
    makeToken,
    advanceTo: (instant) => post('/api/sandbox/clock', { advance_to: new Date(instant).toISOString() }),
    advanceBy: (duration) => post('/api/sandbox/clock', { advance_by: duration }),
    query: async (text, values) => (await app.pool.query(text, values)).rows,
    async close() {
      await Promise.all(workers.map((worker) => worker.stop()))
      await notifier?.close()
      await http.close()
      await app.close()
      if (options.database === undefined) await dropDatabase(url)
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

// Reading the document takes longer than most stories. Which routes there are follows from these two, so worlds share it.
const codeChecks = new Map<string, ReturnType<typeof openCodeCheck>>()

function codeCheckOf({ config, sandboxUrl }: App, http: Http): ReturnType<typeof openCodeCheck> {
  const name = `${config.mode} ${sandboxUrl !== undefined}`
  const known = codeChecks.get(name)
  if (known) return known
  const made = openCodeCheck(() => http.swagger())
  codeChecks.set(name, made)
  return made
}

/** All that a token of this binding may have: admin is for all only. */
function scopesFor(workspace: string | null, account: string | null): readonly Scope[] {
  return workspace === '*' && account === '*' ? scopes : scopes.filter((scope) => scope !== 'admin')
}

/** Ends every session of a database, as for a copy; pools open new ones. */
export async function disconnectAll(url: string): Promise<void> {
  await onServer((client) =>
    client.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [
      new URL(url).pathname.slice(1),
    ]),
  )
}

/** A copy as a backup would make it; nobody may be connected meanwhile. */
export async function copyDatabase(url: string): Promise<string> {
  const name = `world_${randomBytes(6).toString('hex')}`
  await onServer((client) =>
    client.query(`create database ${name} template ${new URL(url).pathname.slice(1)}`),
  )
  return databaseUrl(inject('postgresUrl'), name)
}

/** A fresh database, copied from the migrated template. */
export async function createDatabase(): Promise<string> {
  const name = `world_${randomBytes(6).toString('hex')}`
  const nodes = inject('citusNodes')
  if (nodes.length > 0) await copyOnNodes(nodes, template, name)
  else
    await onServer((client) =>
      client.query(`create database ${name} template ${template} strategy file_copy`),
    )
  return databaseUrl(inject('postgresUrl'), name)
}

export async function dropDatabase(url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1)
  if (inject('citusNodes').length > 0) return dropOnNodes(inject('citusNodes'), name)
  await onServer((client) => dropIfThere(client, name))
}

/** Puts the shared clock at an instant while no process runs, as if that much real time had passed. */
export async function setClock(url: string, now: Date): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('update platform.clock set offset_ms = $1', [now.getTime() - Date.now()])
  await client.end()
}

// A process keeps its session: signing in anew for each database would take longer than making it.
let session: pg.Pool | undefined

async function onServer<T>(work: (client: pg.ClientBase) => Promise<T>): Promise<T> {
  session ??= new pg.Pool({
    connectionString: inject('postgresUrl'),
    max: 1,
    idleTimeoutMillis: 0,
    allowExitOnIdle: true,
  }).on('error', () => {})
  const client = await session.connect()
  try {
    return await work(client)
  } finally {
    client.release()
  }
}

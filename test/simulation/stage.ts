import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { keywordRoutes } from '../../src/batch/keywords/keyword-routes.ts'
import type { BatchTables } from '../../src/batch/tables.ts'
import type { BillingApp, BillingDb } from '../../src/billing/app.ts'
import { stopForCredentials } from '../../src/billing/charging-stop.ts'
import { findChargingStop } from '../../src/billing/charging-stop-rows.ts'
import { addPlan } from '../../src/billing/plans/plan-rows.ts'
import type { Provider } from '../../src/billing/providers/port.ts'
import { type StopSwitch, stoppableProvider } from '../../src/billing/providers/stoppable-provider.ts'
import { billingRoutes } from '../../src/billing/routes.ts'
import type { BillingTables } from '../../src/billing/tables.ts'
import { logEvents } from '../../src/log-events.ts'
import { openAccess, scopes } from '../../src/platform/access/access.ts'
import { openRateLimiter } from '../../src/platform/access/rate-limit.ts'
import { newToken } from '../../src/platform/access/token.ts'
import { insertToken } from '../../src/platform/access/token-rows.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { openDb, openPool } from '../../src/platform/database/db.ts'
import { migrate } from '../../src/platform/database/migrate.ts'
import { buildHttp, type Http } from '../../src/platform/http/http.ts'
import { createLog } from '../../src/platform/log/log.ts'
import { createSecretSet } from '../../src/platform/log/secret-set.ts'
import { migrateQueue } from '../../src/platform/queue/queue.ts'
import { openVault, type Vault, type VaultKey, watchfulVault } from '../../src/platform/vault/vault.ts'
import { admitVaultKeys, openInstallationKey } from '../../src/platform/vault/vault-keys.ts'
import { dropIfThere } from '../drop-database.ts'
import {
  type Boundaries,
  type DeathPlace,
  installFlowTimers,
  newLife,
  openBoundaries,
  type Process,
} from './boundaries.ts'
import { profileOf } from './model-provider.ts'

/** One process of the service with its two faces: HTTP, and the app that sweeps and jobs run on. */
export type Service = {
  readonly process: Process
  readonly http: Http
  readonly billing: BillingApp
  /** The first one seals. A process that is started anew may have others. */
  vaultKeys: readonly VaultKey[]
}

/** What stays the same from seed to seed: two processes of the service, and a database that they share. */
export type Stage = {
  readonly services: readonly [Service, Service]
  readonly boundaries: Boundaries
  /** May do everything. */
  readonly token: string
  readonly webhookSecret: string
  /** Part of the path by which unsigned messages come. */
  readonly hintSecret: string
  /** Values that must never be seen outside. */
  readonly secrets: readonly string[]
  /** Every vault key there ever is; a run begins with the first alone. */
  readonly vaultKeys: readonly VaultKey[]
  /** Every line the processes logged and everything they failed with since the last call. */
  takeOutput(): { log: string; faults: unknown[] }
  /** Gives both processes a new life on an empty database. */
  begin(scene: Scene): Promise<Connections>
  /** A copy of the database as it is, as a dump would make it. */
  backUp(): Promise<void>
  /** Both processes end, the database is what the copy holds, and both begin a new life on it. */
  restore(): Promise<void>
  end(): Promise<void>
  close(): Promise<void>
}

/** What a run decides for the processes: time, the provider, and where they die. */
export type Scene = {
  readonly now: () => number
  readonly real: () => number
  readonly provider: Provider
  readonly dies: (process: Process, place: DeathPlace) => boolean
}

export type Connections = { readonly observer: pg.Client }

const terms = {
  sandbox: true,
  timeZone: 'UTC',
  seller: { name: 'Seller', address: null, registration: null, tax_id: null, logo: null },
  language: 'en',
  cancelLeadSeconds: 60,
  dunningDays: [1, 3, 5, 7],
  catchUpPeriods: 1,
  disputePolicy: 'keep',
  answerWithinMs: 15_000,
  providerTimeoutMs: 3_000,
} as const

export const plans = {
  monthly: { planId: 'monthly', interval: 'month', trialDays: 14, minor: 9900n, currency: 'KRW' },
  global: { planId: 'global', interval: 'month', trialDays: 0, minor: 1900n, currency: 'USD' },
  weekly: { planId: 'weekly', interval: 'week', trialDays: 3, minor: 2500n, currency: 'KRW' },
} as const

export async function openStage(serverUrl: string): Promise<Stage> {
  const token = newToken('test')
  const vaultKeys = Array.from({ length: 9 }, (_, at) => ({ version: at + 1, key: randomBytes(32) }))
  let fingerprintKey: Buffer
  const database = await openDatabase(serverUrl, async (pool) => {
    await furnish(pool, token)
    await admitVaultKeys(pool, vaultKeys.slice(0, 1), async () => undefined)
    fingerprintKey = await openInstallationKey(pool, openVault(vaultKeys), 'fingerprint')
  })
  let scene: Scene | undefined
  const clockOf = new Map<pg.Client, number>()

  const boundaries = openBoundaries({
    dies: (process, place) => scene!.dies(process, place),
    async beforeUse({ connection }) {
      const real = scene!.real()
      if (clockOf.get(connection) === real) return
      clockOf.set(connection, real)
      await connection.query({
        name: 'turn-clock',
        text: "select set_config('sim.now', $1, false)",
        values: [new Date(real).toISOString()],
      })
    },
    async isBlocked({ backendPid }) {
      const { rows } = await database.observer.query({
        name: 'is-blocked',
        text: 'select cardinality(pg_blocking_pids($1)) > 0 as blocked',
        values: [backendPid],
      })
      return rows[0].blocked
    },
  })
  const uninstallTimers = installFlowTimers(() => boundaries)

  const webhookSecret = `whsec_${randomBytes(32).toString('base64')}`
  const hintSecret = randomBytes(24).toString('hex')
  const output = openOutput([
    webhookSecret,
    hintSecret,
    ...vaultKeys.map(({ key }) => key.toString('base64')),
    token,
  ])
  const clock: Clock = Object.assign(() => new Date(scene!.now()), {
    sync: async () => {},
    moveTo: async () => {},
  })
  const openService = async (name: string, at: number): Promise<Service> => {
    const process: Process = {
      name,
      connection: database.clients[at]!,
      backendPid: database.pids[at]!,
      life: newLife(),
      busy: false,
    }
    const pool = boundaries.poolOf(process)
    const vault = followedVault(() => service.vaultKeys)
    const db = openDb<BillingTables>(pool)
    const followedProvider = followed(() => stoppableProvider(scene!.provider, stopSwitch(db, clock)))
    const billing: BillingApp = {
      db,
      pool,
      clock,
      providers: { forNew: followedProvider, all: [followedProvider], named: () => followedProvider },
      vault: watchfulVault(vault, output.secrets),
      quietVault: vault,
      fingerprintKey,
      terms: {
        ...terms,
        webhookSecrets: { model: [webhookSecret] },
        hintSecret: profileOf().hints ? hintSecret : undefined,
      },
    }
    const http = buildHttp({
      // A token is remembered for a few real seconds; asking every time keeps real time out of the order of statements.
      access: { identify: (header) => openAccess(pool, clock).identify(header) },
      limiter: openRateLimiter(pool),
      openPrefixes: [],
      onAnswer: ({ caller, ...answered }) => output.log.info('http.answered', { ...answered, caller }),
      onFault: (error, at) => output.fault(error, at),
    })
    billingRoutes(http, billing)
    keywordRoutes(http, {
      db: openDb<BatchTables>(pool),
      pool,
      connection: { url: database.url },
      clock,
      timeZone: 'UTC',
      fence: async () => {},
      sources: new Map(),
    })
    await http.ready()
    const service: Service = { process, http, billing, vaultKeys: vaultKeys.slice(0, 1) }
    return service
  }
  const services = [await openService('one', 0), await openService('two', 1)] as const

  return {
    services,
    boundaries,
    token,
    webhookSecret,
    hintSecret,
    secrets: [token, webhookSecret, hintSecret, ...vaultKeys.map(({ key }) => key.toString('base64'))],
    vaultKeys,
    takeOutput: output.take,
    async begin(next) {
      scene = next
      await database.reset()
      for (const service of services) {
        service.process.life = newLife()
        service.vaultKeys = vaultKeys.slice(0, 1)
      }
      return { observer: database.observer }
    },
    backUp: () => database.backUp(),
    async restore() {
      // What was on its way to the provider arrives; who sent it is no more.
      boundaries.releaseStalled()
      for (const { process } of services) await boundaries.run(process, async () => {})
      for (const { process } of services) {
        process.life.dead = true
        process.life = newLife()
      }
      await database.restore()
    },
    async end() {
      boundaries.releaseStalled()
      for (const { process } of services) process.life.dead = true
    },
    async close() {
      uninstallTimers()
      for (const { http } of services) await http.close()
      await database.close()
    },
  }
}

/** Asked every time: what a process remembers for a second of real time would not be replayed. */
function stopSwitch(db: BillingDb, clock: Clock): StopSwitch {
  return {
    isStopped: async () => (await findChargingStop(db, 'model')) !== undefined,
    refuseCredentials: () => stopForCredentials(db, 'model', clock()),
  }
}

/** The provider changes with every run; the processes stay. */
function followed(provider: () => Provider): Provider {
  return new Proxy({} as Provider, { get: (_, name) => provider()[name as keyof Provider] })
}

/** The keys change when a process is started anew; what is built on them stays. */
function followedVault(keys: () => readonly VaultKey[]): Vault {
  const vaults = new Map<readonly VaultKey[], Vault>()
  const vault = (): Vault => {
    const known = vaults.get(keys())
    if (known) return known
    const opened = openVault(keys())
    vaults.clear()
    vaults.set(keys(), opened)
    return opened
  }
  return {
    seal: (text, row) => vault().seal(text, row),
    open: (sealed, row) => vault().open(sealed, row),
    isCurrent: (sealed) => vault().isCurrent(sealed),
  }
}

/** The processes' log, caught as bytes. */
function openOutput(known: readonly string[]) {
  const secrets = createSecretSet()
  for (const secret of known) secrets.add(secret)
  let lines = ''
  let faults: unknown[] = []
  const destination = {
    write(bytes: Uint8Array) {
      lines += Buffer.from(bytes).toString()
    },
  }
  const log = createLog(logEvents, { level: 'info', secrets, destination })
  return {
    log,
    secrets,
    fault(error: unknown, at: { route: string; request_id: string }) {
      faults.push(error)
      log.error('http.failed', { ...at, error })
    },
    take() {
      const taken = { log: lines, faults }
      lines = ''
      faults = []
      return taken
    },
  }
}

async function furnish(pool: pg.Pool, token: string): Promise<void> {
  const createdAt = new Date('2026-01-01T00:00:00Z')
  const grant = { name: 'simulation', scopes, workspace: '*', account: '*', createdAt, expiresAt: null }
  await insertToken(pool, token, grant)
  for (const { planId, interval, trialDays, minor, currency } of Object.values(plans)) {
    const price = { minor, currency }
    const plan = { planId, name: planId, price, interval, intervalCount: 1, trialDays, active: true }
    await addPlan(openDb<BillingTables>(pool), plan, createdAt)
  }
}

type Database = {
  readonly url: string
  readonly clients: readonly pg.Client[]
  readonly pids: readonly number[]
  readonly observer: pg.Client
  /** Makes it as it was when it was new. */
  reset(): Promise<void>
  backUp(): Promise<void>
  restore(): Promise<void>
  close(): Promise<void>
}

/**
 * A migrated database with a connection for each process and one to look on. Its own clock is set by hand: functions of
 * the clock's names stand before the built-in ones, so that leases and waits are replayed too.
 */
async function openDatabase(serverUrl: string, furnish: (pool: pg.Pool) => Promise<void>): Promise<Database> {
  const admin = new pg.Client({ connectionString: serverUrl })
  await admin.connect()
  const name = `simulation_${randomBytes(4).toString('hex')}`
  await admin.query(`create database ${name}`)
  const url = databaseUrl(serverUrl, name)
  await migrate(url)
  await migrateQueue(url)
  // The driver's patience is a timer of the flow it is used in, which simulated time would run out.
  const pools = Array.from({ length: 3 }, () =>
    openPool({ url, max: 1, name, queryTimeoutMs: 0, onError: () => {} }),
  )
  await furnish(pools[2]!)
  const clients = (await Promise.all(pools.map((pool) => pool.connect()))) as unknown as pg.Client[]
  const observer = clients[2]!
  await observer.query('create schema sim')
  for (const { table, copy } of furniture)
    await observer.query(`create table ${copy} as select * from ${table}`)
  await loosenGuards(observer)
  // The same seed comes to the same keys, on whatever database.
  await observer.query(`begin; ${unguarded} update billing.installation set id = 'simulation'; commit`)
  for (const clock of ['clock_timestamp', 'statement_timestamp', 'now']) {
    await observer.query(
      `create function sim.${clock}() returns timestamptz language sql stable
       as $$ select current_setting('sim.now')::timestamptz $$`,
    )
  }
  for (const client of clients.slice(0, 2)) await client.query('set search_path = sim, pg_catalog, public')
  // Every statement is planned once: a run holds too few rows for another plan to be worth its making.
  for (const client of clients) await client.query('set plan_cache_mode = force_generic_plan')
  const asked = await Promise.all(clients.map((client) => client.query('select pg_backend_pid() as pid')))
  const empty = await emptying(observer)
  const copy = await copying(observer)

  return {
    url,
    clients: clients.slice(0, 2),
    pids: asked.map(({ rows }) => rows[0].pid),
    observer,
    async reset() {
      for (const client of clients) await client.query('rollback')
      await empty()
    },
    backUp: copy.backUp,
    async restore() {
      for (const client of clients) await client.query('rollback')
      await copy.restore()
    },
    async close() {
      for (const client of clients) (client as unknown as pg.PoolClient).release(true)
      await Promise.all(pools.map((pool) => pool.end()))
      await dropIfThere(admin, name)
      await admin.end()
    },
  }
}

/** What is there when a run begins. */
const furniture = [
  { table: 'billing.plan', copy: 'sim.plan' },
  { table: 'platform.secret', copy: 'sim.secret' },
  { table: 'platform.vault_key', copy: 'sim.vault_key' },
]

/** From here to the end of its transaction what guards history rests. */
const unguarded = "set local sim.guards = 'off';"

/**
 * Lets the guards of history rest where a transaction says so. To disable them on their tables each time would cost every
 * session all its plans, run after run.
 */
async function loosenGuards(observer: pg.Client): Promise<void> {
  const { rows } = await observer.query<{ name: string; on: string; made: string }>(
    `select quote_ident(t.tgname) as name, t.tgrelid::regclass::text as on, pg_get_triggerdef(t.oid) as made
     from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'billing' and not t.tgisinternal and t.tgconstraint = 0`,
  )
  const awake = "coalesce(current_setting('sim.guards', true), '') <> 'off'"
  for (const { name, on, made } of rows)
    await observer.query(
      `drop trigger ${name} on ${on}; ${made.replace(' EXECUTE ', ` WHEN (${awake}) EXECUTE `)}`,
    )
}

/**
 * Empties the tables that a run filled. What guards history is off meanwhile; the vacuum gives back the space, so that
 * the rows of every run lie where those of the first one lay.
 */
async function emptying(observer: pg.Client): Promise<() => Promise<void>> {
  const { rows } = await observer.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind = 'r' and (n.nspname = 'billing' and c.relname <> 'installation'
       or format('%I.%I', n.nspname, c.relname) in ('platform.idempotency_key', 'platform.rate_window', 'platform.alarm', 'platform.secret',
         'platform.vault_key', 'batch.keyword', 'graphile_worker._private_jobs'))
     order by 1`,
  )
  const findFilled = {
    name: 'find-filled',
    text: 'select name from unnest($1::text[]) as t (name) where pg_relation_size(name::regclass) > 0',
    values: [rows.map(({ name }) => name)],
  }
  return async () => {
    const filled = (await observer.query<{ name: string }>(findFilled)).rows.map(({ name }) => name)
    const deletes = filled.map((table, at) => `gone_${at} as (delete from ${table})`).join(', ')
    await observer.query(
      `begin; ${unguarded} with ${deletes} select 1;
       ${furniture.map(({ table, copy }) => `insert into ${table} select * from ${copy};`).join(' ')}
       update billing.installation set lookup_first_before = null where lookup_first_before is not null; commit`,
    )
    await observer.query(`vacuum (skip_database_stats) ${filled.join(', ')}`)
  }
}

/** Copies of all tables but the limiter's, which no dump holds; the copies stand in a schema of their own. */
async function copying(observer: pg.Client): Promise<{
  backUp(): Promise<void>
  restore(): Promise<void>
}> {
  const { rows: tables } = await observer.query<{
    name: string
    copy: string
    columns: string
  }>(
    `select format('%I.%I', n.nspname, c.relname) as name, format('backup.%I', n.nspname || '_' || c.relname) as copy,
       (select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind = 'r' and (n.nspname = 'billing' or format('%I.%I', n.nspname, c.relname) in (
       'platform.idempotency_key', 'platform.alarm', 'platform.secret', 'platform.vault_key', 'batch.keyword',
       'graphile_worker._private_jobs'))
     order by 1`,
  )
  await observer.query('create schema backup')
  for (const { name, copy, columns } of tables)
    await observer.query(`create unlogged table ${copy} as select ${columns} from ${name} where false`)
  const parts = (verb: (table: (typeof tables)[number]) => string) =>
    `with ${tables.map((table, at) => `part_${at} as (${verb(table)})`).join(', ')} select 1`
  return {
    async backUp() {
      await observer.query(
        `begin isolation level repeatable read; ${parts(({ copy }) => `delete from ${copy}`)};
         ${parts(({ name, copy, columns }) => `insert into ${copy} select ${columns} from ${name}`)}; commit`,
      )
    },
    async restore() {
      const put = ({ name, copy, columns }: (typeof tables)[number]) =>
        `insert into ${name} (${columns}) overriding system value select ${columns} from ${copy}`
      await observer.query(
        `begin; ${unguarded} ${parts(({ name }) => `delete from ${name}`)}; ${parts(put)}; commit`,
      )
    },
  }
}

function databaseUrl(url: string, database: string): string {
  const named = new URL(url)
  named.pathname = `/${database}`
  return named.toString()
}

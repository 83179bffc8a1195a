import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type pg from 'pg'
import type { BatchApp } from './batch/app.ts'
import type { BillingApp, BillingTerms } from './billing/app.ts'
import { findChargingStop, stopCharging, stopForCredentials } from './billing/charging-stop.ts'
import { keepLogo, logoHash } from './billing/invoices/logo-rows.ts'
import {
  guardProvider,
  type ProviderGuard,
  type ProviderUse,
  providerUses,
} from './billing/providers/guarded-provider.ts'
import { measuredProvider } from './billing/providers/measured-provider.ts'
import { oneModeProvider } from './billing/providers/one-mode-provider.ts'
import type { Provider } from './billing/providers/port.ts'
import { providersOf } from './billing/providers/providers.ts'
import { buildAdapter } from './billing/providers/registry.ts'
import { openStopSwitch, stoppableProvider } from './billing/providers/stoppable-provider.ts'
import { findSealedBy } from './billing/reseal.ts'
import type { Seller } from './billing/seller.ts'
import type { Config } from './config.ts'
import { logEvents } from './log-events.ts'
import { type Access, openAccess } from './platform/access/access.ts'
import { openRateLimiter, type RateLimiter } from './platform/access/rate-limit.ts'
import { clearAlarm, raiseAlarm } from './platform/alarm.ts'
import { type Clock, movableClock, realClock } from './platform/clock.ts'
import { keepSecret, writeSecret } from './platform/data-dir.ts'
import { explainConnecting } from './platform/database/database-errors.ts'
import { type DatabaseHealth, openDatabaseHealth } from './platform/database/database-health.ts'
import { openDb, openPool, type PoolLimits } from './platform/database/db.ts'
import { type Migrated, migrate } from './platform/database/migrate.ts'
import { type Connection, lookAtConnection } from './platform/database/pooler.ts'
import { openEmbeddedPostgres } from './platform/embedded-postgres/embedded-postgres.ts'
import { createLog, type Log } from './platform/log/log.ts'
import { createSecretSet, type SecretSet } from './platform/log/secret-set.ts'
import { isLoopback } from './platform/loopback.ts'
import { type Metrics, openMetrics } from './platform/metrics.ts'
import { type Fence, migrateQueue } from './platform/queue/queue.ts'
import { openVault, type VaultKey, watchfulVault } from './platform/vault/vault.ts'
import { admitVaultKeys, openInstallationKey } from './platform/vault/vault-keys.ts'
import { type Notifier, openNotifier } from './sandbox/notifier.ts'
import { openSandbox, type Sandbox } from './sandbox/sandbox.ts'
import { readSecretKey } from './sandbox/secret-key.ts'

export type ServiceLog = Log<typeof logEvents>

/** A process of the service: everything it holds open, and both areas built on it. */
export type App = {
  readonly config: Config
  readonly log: ServiceLog
  readonly secrets: SecretSet
  readonly metrics: Metrics
  readonly database: Database
  readonly pool: pg.Pool
  readonly health: DatabaseHealth
  readonly clock: Clock
  readonly access: Access
  readonly limiter: RateLimiter
  /** Where the provider of new cards can be told what to do: the sandbox, or a simulator on this machine. */
  readonly sandboxUrl: string | undefined
  /** The secret key that opens it. */
  readonly sandboxKey: string | undefined
  readonly billing: BillingApp
  /** Billing as each use sees it: the same but for its places at the provider. */
  readonly billingFor: Readonly<Record<ProviderUse, BillingApp>>
  /** The way to end with all providers. */
  readonly providerGuard: Pick<ProviderGuard, 'windDown' | 'shut' | 'idle'>
  readonly batch: BatchApp
  close(): Promise<void>
}

export type Database = {
  readonly url: string
  /** Direct, for what lives as long as a session: locks and announcements. */
  readonly sessionUrl: string
  readonly limits: PoolLimits
  close(): Promise<void>
}

type OpenedLog = { readonly log: ServiceLog; readonly secrets: SecretSet }
const opened = new WeakMap<Config, OpenedLog>()

/**
 * Opens the log first, so that whatever goes wrong afterwards is said through it. One configuration has one log: the
 * guard of the process's output must know the secrets that are made or found later.
 */
export function openLog(config: Config): OpenedLog {
  const known = opened.get(config)
  if (known) return known
  const made = makeLog(config)
  opened.set(config, made)
  return made
}

function makeLog(config: Config): OpenedLog {
  const secrets = createSecretSet()
  for (const secret of [
    config.bootstrapToken,
    config.hintSecret,
    ...config.providers.flatMap(({ secretKey, webhookSecrets }) => [secretKey, ...webhookSecrets]),
  ]) {
    if (secret) secrets.add(secret)
  }
  for (const { key } of config.vaultKeys) secrets.add(key.toString('base64'))
  return { log: createLog(logEvents, { level: config.logLevel, secrets }), secrets }
}

/** Opens what every command needs. `keepAlive` is for processes that live long enough to restart a dead database. */
export async function openApp(
  config: Config,
  options: { name: string; keepAlive?: boolean; poolSize?: number },
): Promise<App> {
  const { log, secrets } = openLog(config)
  const metrics = openMetrics()
  const database = await openDatabase(config, { ...options, log, secrets, metrics })
  let opened: pg.Pool | undefined
  try {
    await migrateDatabase(config, database, (migration) => log.info('database.migrated', { migration }))

    const pool = openPool({
      ...database.limits,
      url: database.url,
      max: options.poolSize ?? config.database.poolSize,
      name: `rankledger ${options.name}`,
      onError: (error) => log.warn('database.lost', { error }),
    })
    opened = pool
    const clock = config.mode === 'sandbox' ? await movableClock(pool) : realClock()
    const vaultKeys = vaultKeysOf(config)
    const billingDb: BillingApp['db'] = openDb(pool)
    await admitVaultKeys(pool, vaultKeys, (versions) => findSealedBy(billingDb, versions))
    const vault = openVault(vaultKeys)
    const webhookSecrets = webhookSecretsOf(config)
    for (const { key } of vaultKeys) secrets.add(key.toString('base64'))
    for (const secret of Object.values(webhookSecrets).flat()) secrets.add(secret)
    const sandboxKey = config.provider.name === 'sandbox' ? await readSecretKey(pool) : undefined
    if (sandboxKey) secrets.add(sandboxKey)
    const sandbox = await openOwnSandbox(config, pool, clock, log, sandboxKey)
    if (config.seller.logo) await keepLogo(billingDb, config.seller.logo)
    const sandboxUrl = sandbox?.url ?? simulatorOf(config)
    const onLive = () => stopCharging(billingDb, 'live_answer', clock())
    const guards = openProviders(config, sandboxUrl, sandboxKey, metrics, onLive)
    const stops = new Map(
      guards.map(({ name }) => [
        name,
        openStopSwitch({
          isStopped: async () => (await findChargingStop(billingDb, name)) !== undefined,
          onCredentialsRefused: () => stopForCredentials(billingDb, name, clock()),
        }),
      ]),
    )
    const onMissing = missingAlarm(billingDb, clock)
    for (const { name } of guards) await clearAlarm(billingDb, 'provider_missing', name)
    const shared = {
      db: billingDb,
      pool,
      clock,
      vault: watchfulVault(vault, secrets),
      quietVault: vault,
      fingerprintKey: await openInstallationKey(pool, vault, 'fingerprint'),
      fence: unfenced,
      terms: termsOf(config, webhookSecrets),
    }
    const billingFor = Object.fromEntries(
      providerUses.map((use): [ProviderUse, BillingApp] => {
        const [forNew, ...others] = guards.map(({ name, guard }) =>
          stoppableProvider(guard.uses[use], stops.get(name)!),
        )
        return [use, { ...shared, providers: providersOf([forNew!, ...others], onMissing) }]
      }),
    ) as Record<ProviderUse, BillingApp>

    return {
      config,
      log,
      secrets,
      metrics,
      database,
      pool,
      health: openDatabaseHealth(pool),
      clock,
      access: openAccess(pool, clock),
      limiter: openRateLimiter(pool),
      sandboxUrl,
      sandboxKey: config.provider.secretKey ?? sandboxKey,
      billing: billingFor.requests,
      billingFor,
      providerGuard: allOf(guards.map(({ guard }) => guard)),
      batch: {
        db: openDb(pool),
        pool,
        clock,
        timeZone: config.timeZone,
        fence: unfenced,
        schedule: config.schedule,
        modelCacheDir: join(config.dataDir, 'models'),
      },
      async close() {
        await sandbox?.close()
        await pool.end()
        await database.close()
      },
    }
  } catch (error) {
    await opened?.end()
    await database.close()
    throw error
  }
}

function simulatorOf({ mode, provider: { name, baseUrl } }: Config): string | undefined {
  if (mode !== 'sandbox' || baseUrl === undefined) return undefined
  const isNear = isLoopback(new URL(baseUrl).hostname.replace(/^\[|\]$/g, ''))
  return name === 'sandbox' || isNear ? baseUrl : undefined
}

/** Without a PROVIDER_BASE_URL the process brings the sandbox along; all of them share one book. */
async function openOwnSandbox(
  config: Config,
  pool: pg.Pool,
  clock: Clock,
  log: ServiceLog,
  key: string | undefined,
): Promise<Sandbox | undefined> {
  if (config.provider.name !== 'sandbox' || config.provider.baseUrl) return undefined
  return openSandbox({
    pool,
    clock,
    port: config.sandboxPort,
    keys: [key, config.provider.secretKey].filter((one) => one !== undefined),
    // Only a process that knows where the API listens sends notifications; see `startNotifier`.
    webhook: { url: undefined, secrets: () => [] },
    onError: (error) => log.warn('sandbox.failed', { error }),
  })
}

/** Sends the sandbox's notifications to the API, from the process that answers it. */
export function startNotifier(app: App, apiUrl: string): Notifier | undefined {
  if (app.config.provider.name !== 'sandbox' || app.config.provider.baseUrl) return undefined
  return openNotifier({
    pool: app.pool,
    url: `${apiUrl}/api/billing/webhook`,
    secrets: () => app.billing.terms.webhookSecrets['sandbox'] ?? [],
    onError: (error) => app.log.warn('sandbox.failed', { error }),
  })
}

type NamedGuard = { readonly name: string; readonly guard: ProviderGuard }

/** Each provider behind a guard of its own: one that is silent takes no place of another's calls. */
function openProviders(
  config: Config,
  sandboxUrl: string | undefined,
  sandboxKey: string | undefined,
  metrics: Metrics,
  onLive: () => Promise<void>,
): NamedGuard[] {
  const { timeoutMs } = config.provider
  return config.providers.map((settings) => {
    const reached =
      settings.name === 'sandbox'
        ? { ...settings, baseUrl: sandboxUrl, secretKey: settings.secretKey ?? sandboxKey }
        : settings
    const provider = oneModeProvider(buildAdapter({ ...reached, timeoutMs }), config.mode, onLive)
    return { name: settings.name, guard: guardOf(provider, timeoutMs, metrics) }
  })
}

function guardOf(provider: Provider, timeoutMs: number, metrics: Metrics): ProviderGuard {
  const { name } = provider
  const measured = measuredProvider(provider, (call, outcome, seconds) => {
    metrics.providerAnswers.inc({ provider: name, call, outcome })
    metrics.providerSeconds.observe({ provider: name, call }, seconds)
  })
  return guardProvider(measured, {
    timeoutMs: timeoutMs + 1_000,
    onState: (state) =>
      metrics.providerCircuit.set({ provider: name }, state === 'closed' ? 0 : state === 'half_open' ? 1 : 2),
    onLoad: ({ inFlight, waiting }) => {
      metrics.providerCalls.set({ provider: name, state: 'in_flight' }, inFlight)
      metrics.providerCalls.set({ provider: name, state: 'waiting' }, waiting)
    },
  })
}

function allOf(guards: readonly ProviderGuard[]): App['providerGuard'] {
  return {
    windDown: () => guards.forEach((guard) => void guard.windDown()),
    shut: () => guards.forEach((guard) => void guard.shut()),
    idle: async () => void (await Promise.all(guards.map((guard) => guard.idle()))),
  }
}

const alarmEveryMs = 60_000

/** Says that a provider is needed whose keys are not set; once a minute is enough of that. */
function missingAlarm(db: BillingApp['db'], clock: Clock): (name: string) => Promise<void> {
  const toldAt = new Map<string, number>()
  return async (name) => {
    if (performance.now() - (toldAt.get(name) ?? Number.NEGATIVE_INFINITY) < alarmEveryMs) return
    toldAt.set(name, performance.now())
    const note = `Cards and payments are stored at ${name}, and its keys are not set: what is due there waits. Set them as docs/providers.md says, and restart.`
    await raiseAlarm(db, { kind: 'provider_missing', subject: name, note }, clock())
  }
}

function termsOf(config: Config, webhookSecrets: BillingTerms['webhookSecrets']): BillingTerms {
  return {
    sandbox: config.mode === 'sandbox',
    timeZone: config.timeZone,
    seller: sellerOf(config),
    language: config.invoiceLanguage,
    cancelLeadSeconds: config.cancelLeadSeconds,
    dunningDays: config.dunningDays,
    catchUpPeriods: config.catchUpPeriods,
    answerWithinMs: config.answerWithinMs,
    providerTimeoutMs: config.provider.timeoutMs,
    webhookSecrets,
    hintSecret: config.hintSecret,
  }
}

function sellerOf({ seller }: Config): Seller {
  const { name, address, registration, taxId, logo } = seller
  return { name, address, registration, tax_id: taxId, logo: logo && logoHash(logo) }
}

/** A request is no worker: nobody takes its work over while it lives. */
const unfenced: Fence = async () => {}

export async function openDatabase(
  config: Config,
  {
    keepAlive = false,
    log,
    secrets,
    metrics,
  }: { keepAlive?: boolean; log: ServiceLog; secrets: SecretSet; metrics: Metrics },
): Promise<Database> {
  if (config.databaseUrl) {
    for (const url of [config.databaseUrl, config.databaseUrlSession]) {
      const password = url && new URL(url).password
      if (password) secrets.add(decodeURIComponent(password))
    }
    return {
      url: config.databaseUrl,
      sessionUrl: config.databaseUrlSession ?? config.databaseUrl,
      limits: await limitsFor(config, { keepAlive }),
      close: async () => {},
    }
  }
  const embedded = await openEmbeddedPostgres({
    dataDir: config.dataDir,
    keepAlive,
    onRestart: (attempt) => {
      metrics.databaseRestarts.inc()
      log.warn('database.restarted', { attempt })
    },
  })
  secrets.add(embedded.password)
  return {
    url: embedded.url,
    sessionUrl: embedded.url,
    limits: { ...config.database, serverLimits: true },
    close: () => embedded.close(),
  }
}

/** Brings the database to this release, over the direct connection: a pooler may hand it to others in between. */
export async function migrateDatabase(
  config: Config,
  database: Database,
  onApply: (name: string) => void = () => {},
): Promise<Migrated> {
  const { connectTimeoutMs, migrationLockTimeoutMs } = config.database
  const done = await migrate(database.sessionUrl, {
    onApply,
    setting: config.databaseUrlSession ? 'DATABASE_URL_SESSION' : 'DATABASE_URL',
    connectTimeoutMs,
    lockTimeoutMs: migrationLockTimeoutMs,
  })
  await migrateQueue(database.sessionUrl, connectTimeoutMs)
  return done
}

/** Looks once at what stands behind both URLs. A process that lives long must have its sessions to itself. */
async function limitsFor(config: Config, { keepAlive }: { keepAlive: boolean }): Promise<PoolLimits> {
  const { databaseUrl: url, databaseUrlSession: sessionUrl } = config
  const found = await lookBehind(config, 'DATABASE_URL', url!)
  if (keepAlive) {
    const session = sessionUrl ? await lookBehind(config, 'DATABASE_URL_SESSION', sessionUrl) : found
    if (session.pooling === 'transaction') {
      const setting = sessionUrl ? 'DATABASE_URL_SESSION' : 'DATABASE_URL'
      throw new Error(
        `${setting} goes through a pooler that shares sessions, and workers need one of their own; set DATABASE_URL_SESSION to the PostgreSQL behind it.`,
      )
    }
  }
  return { ...config.database, serverLimits: found.takesSettings }
}

async function lookBehind(config: Config, setting: string, url: string): Promise<Connection> {
  const timeoutMs = config.database.connectTimeoutMs
  return lookAtConnection(url, timeoutMs).catch((error) => {
    throw explainConnecting(error, { setting, url, timeoutMs })
  })
}

function vaultKeysOf(config: Config): readonly [VaultKey, ...VaultKey[]] {
  const [newest, ...older] = config.vaultKeys
  if (newest) return [newest, ...older]
  const kept = keepSecret(config.dataDir, 'vault-key', randomKey)
  return [{ version: 1, key: Buffer.from(kept, 'base64') }]
}

/** In sandbox mode the newest secret also stands in the data dir, where tools that send test webhooks look for it. */
function webhookSecretsOf(config: Config): BillingTerms['webhookSecrets'] {
  const given = Object.fromEntries(config.providers.map((one) => [one.name, one.webhookSecrets]))
  const { name, webhookSecrets } = config.provider
  if (webhookSecrets.length > 0) {
    if (config.mode === 'sandbox') writeSecret(config.dataDir, 'webhook-secret', webhookSecrets[0]!)
    return given
  }
  // Toss signs nothing, so there is nothing to verify.
  if (name === 'toss') return given
  return { ...given, [name]: [keepSecret(config.dataDir, 'webhook-secret', () => `whsec_${randomKey()}`)] }
}

function randomKey(): string {
  return randomBytes(32).toString('base64')
}

import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import type { SourceSettings } from './batch/sources/port.ts'
import { isToken } from './platform/access/token.ts'
import { isOnThisMachine, readDatabaseUrl } from './platform/database/database-url.ts'
import { parseCron } from './platform/queue/cron.ts'
import { isZone } from './platform/time.ts'
import type { VaultKey } from './platform/vault/vault.ts'
import { type Environment, openReader, type Reader } from './settings/environment.ts'
import {
  type ProviderSettings,
  providerKeysIn,
  providerNames,
  readProviders,
  signsMessages,
} from './settings/provider-settings.ts'
import { readSeller, type SellerSettings } from './settings/seller-settings.ts'
import { readSources } from './settings/source-settings.ts'

export type Config = {
  readonly mode: 'sandbox' | 'live'
  readonly host: string
  readonly port: number
  /** Absent: the embedded PostgreSQL of the data dir. */
  readonly databaseUrl: string | undefined
  /** For session locks when DATABASE_URL goes through a transaction pooler. */
  readonly databaseUrlSession: string | undefined
  /** A streaming replica, for lists and lookups that may lag. Absent: the primary answers them. */
  readonly databaseUrlRead: string | undefined
  readonly database: {
    readonly poolSize: number
    readonly connectTimeoutMs: number
    readonly queryTimeoutMs: number
    readonly migrationLockTimeoutMs: number
    /** A replica that is further behind is not read. */
    readonly readLagMs: number
    readonly preparedStatements: boolean
  }
  /** Health and metrics on a port of their own; absent: none. */
  readonly metricsPort: number | undefined
  readonly metricsHost: string
  readonly dataDir: string
  readonly timeZone: string
  readonly bootstrapToken: string | undefined
  /** The provider of new payment methods. */
  readonly provider: ProviderSettings & { readonly timeoutMs: number }
  /** It, and every other one whose key is set: what it stored is still charged there. */
  readonly providers: readonly ProviderSettings[]
  /** Where ranks and volumes come from by themselves: those whose keys are set. */
  readonly sources: readonly SourceSettings[]
  readonly answerWithinMs: number
  /** How many requests of one token a process works at a time; 0 is no limit. */
  readonly tokenConcurrency: number
  /** How many billing requests a minute a process takes from one token; 0 is no limit. */
  readonly billingRate: number
  readonly sandboxPort: number
  /** Newest first. Empty: made and kept in the data dir. */
  readonly vaultKeys: readonly VaultKey[]
  /** Part of the path of `/api/billing/hints/…`; absent switches that route off. */
  readonly hintSecret: string | undefined
  readonly cancelLeadSeconds: number
  readonly dunningDays: readonly number[]
  readonly disputePolicy: 'keep' | 'cancel'
  readonly catchUpPeriods: number
  /** `stopped`: a start of the service stops charging, as a restored database needs it. */
  readonly charging: 'on' | 'stopped'
  readonly schedule: { readonly training: string; readonly prediction: string; readonly aggregation: string }
  readonly seller: SellerSettings
  readonly invoiceLanguage: 'en' | 'ko'
  readonly logLevel: (typeof logLevels)[number]
}

const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const

/** Every problem of the environment at once, so that an operator mends them in one go. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(
      `The environment needs ${problems.length === 1 ? 'a change' : `${problems.length} changes`}:\n  - ${problems.join('\n  - ')}`,
    )
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** Reads the process environment, completed by a `.env` file in the working folder if there is one. */
export function loadConfig(environment: Environment = process.env, folder = process.cwd()): Config {
  const file = resolve(folder, '.env')
  const fromFile = existsSync(file) ? parseEnv(readFileSync(file, 'utf8')) : {}
  const problems = providerKeysIn(fromFile)
  if (problems.length > 0) throw new ConfigError(problems)
  return readConfig({ ...fromFile, ...environment })
}

/** Turns an environment into the one frozen configuration, or refuses it with all of its problems. */
export function readConfig(environment: Environment): Config {
  const problems: string[] = []
  const read = openReader(environment, problems)

  const mode = read.oneOf('MODE', ['sandbox', 'live'] as const, 'sandbox')
  const providerName = read.oneOf('PAYMENT_PROVIDER', providerNames, 'sandbox')
  const { named, others } = readProviders(read, providerName, mode === 'live', problems)
  const config: Config = {
    mode,
    host: read.text('HOST') ?? '127.0.0.1',
    port: read.integer('PORT', 8080, 0, 65_535),
    databaseUrl: readUrl(read, 'DATABASE_URL', problems),
    databaseUrlSession: readUrl(read, 'DATABASE_URL_SESSION', problems),
    databaseUrlRead: readUrl(read, 'DATABASE_URL_READ', problems),
    database: {
      poolSize: read.integer('DATABASE_POOL_SIZE', 20, 2, 1_000),
      connectTimeoutMs: read.integer('DATABASE_CONNECT_TIMEOUT_MS', 5_000, 100, 60_000),
      queryTimeoutMs: read.integer('DATABASE_QUERY_TIMEOUT_MS', 30_000, 1_000, 600_000),
      migrationLockTimeoutMs: read.integer('MIGRATION_LOCK_TIMEOUT_MS', 60_000, 100, 3_600_000),
      readLagMs: read.integer('DATABASE_READ_LAG_MS', 10_000, 0, 3_600_000),
      preparedStatements: read.oneOf('PREPARED_STATEMENTS', ['on', 'off'] as const, 'on') === 'on',
    },
    metricsPort: read.optionalInteger('METRICS_PORT', 0, 65_535),
    metricsHost: read.text('METRICS_HOST') ?? read.text('HOST') ?? '127.0.0.1',
    dataDir: resolve(read.text('RANKLEDGER_DATA') ?? '.data'),
    timeZone: read.checked('TZ_DEFAULT', isZone, 'an IANA time zone such as Asia/Seoul') ?? 'UTC',
    bootstrapToken: read.checked(
      'BOOTSTRAP_TOKEN',
      (text) => isToken(text, mode === 'live' ? 'live' : 'test'),
      'a token made by `rankledger token create --print-only` for this mode',
    ),
    provider: {
      ...named,
      timeoutMs: read.integer(
        'PROVIDER_TIMEOUT_MS',
        providerName === 'sandbox' ? 3_000 : 60_000,
        100,
        600_000,
      ),
    },
    providers: [named, ...others],
    sources: readSources(read, mode === 'live', problems),
    answerWithinMs: read.integer('ANSWER_WITHIN_MS', 15_000, 100, 600_000),
    tokenConcurrency: read.integer('TOKEN_CONCURRENCY', 64, 0, 10_000),
    billingRate: read.integer('BILLING_RATE', 6_000, 0, 1_000_000),
    sandboxPort: read.integer('SANDBOX_PORT', 0, 0, 65_535),
    vaultKeys: readVaultKeys(read.list('VAULT_KEYS'), problems),
    hintSecret: read.checked(
      'HINT_SECRET',
      (text) => /^[\w-]{32,128}$/.test(text),
      '32 to 128 of A-Za-z0-9_-',
    ),
    cancelLeadSeconds: read.integer('CANCEL_LEAD_SECONDS', 60, 0, 86_400),
    dunningDays: readDunningDays(read.text('DUNNING_DAYS'), problems),
    catchUpPeriods: read.integer('CATCH_UP_PERIODS', 1, 0, 120),
    disputePolicy: read.oneOf('DISPUTE_POLICY', ['keep', 'cancel'] as const, 'keep'),
    charging: read.oneOf('CHARGING', ['on', 'stopped'] as const, 'on'),
    schedule: {
      training: read.checked('SCHEDULE_TRAINING', isCron, cronForm) ?? '30 3 * * *',
      prediction: read.checked('SCHEDULE_PREDICTION', isCron, cronForm) ?? '30 4 * * *',
      aggregation: read.checked('SCHEDULE_AGGREGATION', isCron, cronForm) ?? '30 0 * * *',
    },
    seller: readSeller(read, mode === 'live', problems),
    invoiceLanguage: read.oneOf('INVOICE_LANGUAGE', ['en', 'ko'] as const, 'en'),
    logLevel: read.oneOf('LOG_LEVEL', logLevels, 'info'),
  }
  problems.push(...unsafe(config))
  if (problems.length > 0) throw new ConfigError(problems)
  return Object.freeze(config)
}

/** What is well formed on its own but wrong together. */
function unsafe(config: Config): string[] {
  const problems: string[] = []
  const needs = (missing: boolean, sentence: string) => missing && problems.push(sentence)

  needs(
    config.databaseUrlSession !== undefined && config.databaseUrl === undefined,
    'DATABASE_URL_SESSION goes with DATABASE_URL: set both, or neither for the embedded database.',
  )
  needs(
    config.databaseUrlRead !== undefined && config.databaseUrl === undefined,
    'DATABASE_URL_READ goes with DATABASE_URL: the embedded database has no replica.',
  )
  if (config.databaseUrl) {
    const why = 'with DATABASE_URL, because two machines must not make up different ones'
    needs(config.vaultKeys.length === 0, `VAULT_KEYS is required ${why}.`)
    needs(lacksWebhookSecrets(config), `WEBHOOK_SECRETS is required ${why}.`)
  }
  if (config.mode === 'live') {
    problems.push(...unencrypted(config))
    needs(
      !config.databaseUrl,
      'DATABASE_URL is required with MODE=live: the embedded database is for development.',
    )
    needs(
      config.provider.name === 'sandbox',
      'PAYMENT_PROVIDER=sandbox takes no real money; choose another with MODE=live.',
    )
    needs(config.vaultKeys.length === 0 && !config.databaseUrl, 'VAULT_KEYS is required with MODE=live.')
    needs(lacksWebhookSecrets(config) && !config.databaseUrl, 'WEBHOOK_SECRETS is required with MODE=live.')
  }
  return problems
}

function lacksWebhookSecrets({ provider }: Config): boolean {
  return signsMessages(provider.name) && provider.webhookSecrets.length === 0
}

/** A database URL that the driver can read, too. What it would say of another may quote it, and is not said. */
function readUrl(read: Reader, name: string, problems: string[]): string | undefined {
  const text = read.url(name, ['postgres:', 'postgresql:'])
  if (text === undefined) return undefined
  const canRead = (reading: () => unknown) => {
    try {
      reading()
      return true
    } catch {
      return false
    }
  }
  if (!canRead(() => decodeURIComponent(text)))
    problems.push(
      `${name} holds a % that stands for no character; write a % of its own, as in a password, as %25.`,
    )
  else if (canRead(() => readDatabaseUrl(text))) return text
  else problems.push(`${name} cannot be read by the driver of PostgreSQL; correct what stands behind its ?.`)
  return undefined
}

/** Database URLs that would send customers' data over a network in the clear. */
function unencrypted(config: Config): string[] {
  const urls = {
    DATABASE_URL: config.databaseUrl,
    DATABASE_URL_SESSION: config.databaseUrlSession,
    DATABASE_URL_READ: config.databaseUrlRead,
  }
  return Object.entries(urls).flatMap(([name, text]) => {
    if (text === undefined) return []
    const address = readDatabaseUrl(text)
    return isOnThisMachine(address) || address.demandsTls
      ? []
      : [
          `${name} leads to another machine without TLS; with MODE=live end it with ?sslmode=verify-full (or require).`,
        ]
  })
}

const cronForm = 'five cron fields such as "30 3 * * *"'

function isCron(text: string): boolean {
  return parseCron(text) !== undefined
}

function readVaultKeys(entries: readonly string[], problems: string[]): VaultKey[] {
  const keys = entries.map((entry) => {
    const match = /^(\d{1,9}):([A-Za-z0-9+/_-]+={0,2})$/.exec(entry)
    const key = Buffer.from(match?.[2] ?? '', 'base64')
    return { version: Number(match?.[1] ?? Number.NaN), key }
  })
  const malformed = keys.some(({ version, key }) => Number.isNaN(version) || key.length !== 32)
  if (malformed)
    problems.push(
      'VAULT_KEYS must be a comma list of <number>:<base64 of 32 bytes>, the one that seals first.',
    )
  if (new Set(keys.map((key) => key.version)).size < keys.length)
    problems.push('VAULT_KEYS names one version twice.')
  return keys
}

function readDunningDays(text: string | undefined, problems: string[]): number[] {
  const days = (text ?? '1,3,5,7').split(',').map(Number)
  const rising = days.every(
    (day, at) => Number.isInteger(day) && day >= 1 && day <= 365 && day > (days[at - 1] ?? 0),
  )
  if (!rising) problems.push('DUNNING_DAYS must be rising whole days such as 1,3,5,7.')
  return days
}

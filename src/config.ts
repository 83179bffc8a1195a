import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import type { SourceSettings } from './batch/sources/port.ts'
import { isToken } from './platform/access/token.ts'
import { isLoopback } from './platform/loopback.ts'
import { parseCron } from './platform/queue/cron.ts'
import { isZone } from './platform/time.ts'
import type { VaultKey } from './platform/vault/vault.ts'
import { readSources, sourceKeyNames } from './source-settings.ts'

export type Config = {
  readonly mode: 'sandbox' | 'live'
  readonly host: string
  readonly port: number
  /** Absent: the embedded PostgreSQL of the data dir. */
  readonly databaseUrl: string | undefined
  /** For session locks when DATABASE_URL goes through a transaction pooler. */
  readonly databaseUrlSession: string | undefined
  readonly database: {
    readonly poolSize: number
    readonly connectTimeoutMs: number
    readonly queryTimeoutMs: number
    readonly migrationLockTimeoutMs: number
    readonly preparedStatements: boolean
  }
  /** Health and metrics on a port of their own; absent: none. */
  readonly metricsPort: number | undefined
  readonly metricsHost: string
  readonly dataDir: string
  readonly timeZone: string
  readonly bootstrapToken: string | undefined
  /** The provider of new cards. */
  readonly provider: ProviderSettings & { readonly timeoutMs: number }
  /** It, and every other one whose key is set: cards that it stored are still charged there. */
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
  readonly seller: {
    readonly name: string
    readonly address: string | null
    readonly registration: string | null
    readonly taxId: string | null
    /** The picture itself. */
    readonly logo: Buffer | null
  }
  readonly invoiceLanguage: 'en' | 'ko'
  readonly logLevel: (typeof logLevels)[number]
}

/** How one provider is reached. */
export type ProviderSettings = {
  readonly name: ProviderName
  readonly secretKey: string | undefined
  /** Its origin; absent: the provider's own. */
  readonly baseUrl: string | undefined
  /** Newest first. Of the sandbox, empty: made and kept in the data dir. */
  readonly webhookSecrets: readonly string[]
  /** PortOne's. */
  readonly storeId: string | undefined
  readonly channelKey: string | undefined
}

export type ProviderName = (typeof providerNames)[number]

const providerNames = ['sandbox', 'stripe', 'toss', 'portone'] as const
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

type Environment = Record<string, string | undefined>

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
  const read = reader(environment, problems)

  const mode = read.oneOf('MODE', ['sandbox', 'live'] as const, 'sandbox')
  const providerName = read.oneOf('PAYMENT_PROVIDER', providerNames, 'sandbox')
  const { named, others } = readProviders(read, providerName, mode, problems)
  const config: Config = {
    mode,
    host: read.text('HOST') ?? '127.0.0.1',
    port: read.integer('PORT', 8080, 0, 65_535),
    databaseUrl: read.url('DATABASE_URL', ['postgres:', 'postgresql:']),
    databaseUrlSession: read.url('DATABASE_URL_SESSION', ['postgres:', 'postgresql:']),
    database: {
      poolSize: read.integer('DATABASE_POOL_SIZE', 20, 2, 1_000),
      connectTimeoutMs: read.integer('DATABASE_CONNECT_TIMEOUT_MS', 5_000, 100, 60_000),
      queryTimeoutMs: read.integer('DATABASE_QUERY_TIMEOUT_MS', 30_000, 1_000, 600_000),
      migrationLockTimeoutMs: read.integer('MIGRATION_LOCK_TIMEOUT_MS', 60_000, 100, 3_600_000),
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
    seller: {
      name: read.checked('SELLER_NAME', isLine, 'one line of at most 200 characters') ?? 'Rankledger Sandbox',
      address:
        read
          .checked(
            'SELLER_ADDRESS',
            (text) => text.length <= 600,
            'at most 600 characters; \\n begins a new line',
          )
          ?.replaceAll('\\n', '\n') ?? null,
      registration: read.checked('SELLER_REGISTRATION', isLine, 'one line of at most 200 characters') ?? null,
      taxId: read.checked('SELLER_TAX_ID', isLine, 'one line of at most 200 characters') ?? null,
      logo: readLogo(read.text('SELLER_LOGO'), problems),
    },
    invoiceLanguage: read.oneOf('INVOICE_LANGUAGE', ['en', 'ko'] as const, 'en'),
    logLevel: read.oneOf('LOG_LEVEL', logLevels, 'info'),
  }
  if (mode === 'live' && read.text('SELLER_NAME') === undefined)
    problems.push('SELLER_NAME is required with MODE=live: it stands on every invoice.')
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

/** Toss signs nothing: its messages come to the hints route. */
function lacksWebhookSecrets({ provider }: Config): boolean {
  return provider.name !== 'toss' && provider.webhookSecrets.length === 0
}

/** Database URLs that would send customers' data over a network in the clear. */
function unencrypted(config: Config): string[] {
  const urls = { DATABASE_URL: config.databaseUrl, DATABASE_URL_SESSION: config.databaseUrlSession }
  return Object.entries(urls).flatMap(([name, text]) => {
    if (text === undefined) return []
    const url = new URL(text)
    const host = url.searchParams.get('host') ?? decodeURIComponent(url.hostname)
    const isNear = host === '' || host.startsWith('/') || isLoopback(host.replace(/^\[|\]$/g, ''))
    const isSafe = /^(?:require|verify-ca|verify-full)$/.test(url.searchParams.get('sslmode') ?? '')
    return isNear || isSafe
      ? []
      : [
          `${name} leads to another machine without TLS; with MODE=live end it with ?sslmode=verify-full (or require).`,
        ]
  })
}

/** The names under which each provider's settings stand in the environment. Those of the sandbox are the general ones. */
const ownNames: Readonly<Record<ProviderName, Partial<Record<Setting, string>>>> = {
  sandbox: {},
  stripe: {
    secretKey: 'STRIPE_SECRET_KEY',
    webhookSecrets: 'STRIPE_WEBHOOK_SECRETS',
    baseUrl: 'STRIPE_BASE_URL',
  },
  toss: { secretKey: 'TOSS_SECRET_KEY', baseUrl: 'TOSS_BASE_URL' },
  portone: {
    secretKey: 'PORTONE_API_SECRET',
    webhookSecrets: 'PORTONE_WEBHOOK_SECRETS',
    baseUrl: 'PORTONE_BASE_URL',
    storeId: 'PORTONE_STORE_ID',
    channelKey: 'PORTONE_CHANNEL_KEY',
  },
}

type Setting = Exclude<keyof ProviderSettings, 'name'>

const generalNames = {
  secretKey: 'PROVIDER_SECRET_KEY',
  webhookSecrets: 'WEBHOOK_SECRETS',
  baseUrl: 'PROVIDER_BASE_URL',
} as const satisfies Partial<Record<Setting, string>>

/**
 * The general names speak of the provider that is named, and its own names win over them. Others count once their key is
 * set. What is wrong with a variable is said of every one that is given, used or not.
 */
function readProviders(
  read: Reader,
  name: ProviderName,
  mode: Config['mode'],
  problems: string[],
): { named: ProviderSettings; others: ProviderSettings[] } {
  const isLive = mode === 'live'
  const origin = (variable: string) => readOrigin(read, variable, isLive)
  const secrets = (variable: string) => readWebhookSecrets(read, variable, isLive, problems)
  const general = {
    secretKey: readKey(read, generalNames.secretKey, name, isLive, problems),
    webhookSecrets: secrets(generalNames.webhookSecrets),
    baseUrl: origin(generalNames.baseUrl),
  }
  const settings = providerNames.map((one): ProviderSettings => {
    const own = ownNames[one]
    const key = own.secretKey && readKey(read, own.secretKey, one, isLive, problems)
    const ownSecrets = own.webhookSecrets ? secrets(own.webhookSecrets) : []
    const ownUrl = own.baseUrl && origin(own.baseUrl)
    const isNamed = one === name
    return {
      name: one,
      secretKey: key ?? (isNamed ? general.secretKey : undefined),
      webhookSecrets: ownSecrets.length === 0 && isNamed ? general.webhookSecrets : ownSecrets,
      baseUrl: ownUrl ?? (isNamed ? general.baseUrl : undefined),
      storeId: own.storeId && read.text(own.storeId),
      channelKey: own.channelKey && read.text(own.channelKey),
    }
  })
  const named = settings.find((one) => one.name === name)!
  const isGiven = (variable: string | undefined) =>
    variable !== undefined && read.text(variable) !== undefined
  if (name !== 'sandbox' && !isGiven(ownNames[name].secretKey) && !isGiven(generalNames.secretKey))
    problems.push(
      `PROVIDER_SECRET_KEY is required with PAYMENT_PROVIDER=${name}; ${ownNames[name].secretKey} does as well.`,
    )
  return { named, others: settings.filter((one) => one !== named && one.secretKey !== undefined) }
}

const keyForms: Readonly<Record<ProviderName, { form: RegExp; sentence: string } | undefined>> = {
  sandbox: undefined,
  stripe: { form: /^(?:sk|rk)_(?:live|test)_\w+$/, sentence: 'begins with sk_ or rk_' },
  toss: {
    form: /^(?:live|test)_g?sk_\w+$/,
    sentence: 'begins with live_sk_, live_gsk_, test_sk_ or test_gsk_',
  },
  portone: { form: /^[\x21-\x7e]+$/, sentence: 'has no spaces' },
}

/** Says what is wrong with a key without repeating it. */
function readKey(
  read: Reader,
  variable: string,
  provider: ProviderName,
  isLive: boolean,
  problems: string[],
): string | undefined {
  const key = read.text(variable)
  if (key === undefined) return undefined
  const expected = keyForms[provider]
  if (isLiveKey(key) && !isLive) problems.push(`${variable} is a live key; use it with MODE=live only.`)
  else if (isTestKey(key) && isLive) problems.push(`${variable} is a test key; MODE=live needs the live one.`)
  else if (expected && !expected.form.test(key))
    problems.push(`${variable} is no secret key of ${provider}, which ${expected.sentence}.`)
  return key
}

function readOrigin(read: Reader, variable: string, isLive: boolean): string | undefined {
  const accepts = (text: string) => {
    if (!URL.canParse(text)) return false
    const { protocol, pathname, search, hash, username } = new URL(text)
    const isOrigin = pathname === '/' && search === '' && hash === '' && username === ''
    return isOrigin && (protocol === 'https:' || (protocol === 'http:' && !isLive))
  }
  const form = isLive
    ? 'an https:// origin with MODE=live, such as https://api.example.com'
    : 'an origin such as https://api.example.com or http://127.0.0.1:9000, without a path'
  return read.checked(variable, accepts, form)
}

const shortestSecret = 24

function readWebhookSecrets(read: Reader, variable: string, isLive: boolean, problems: string[]): string[] {
  const secrets = read.list(variable)
  if (isLive && secrets.some((secret) => secret.length < shortestSecret))
    problems.push(
      `${variable} holds a secret of fewer than ${shortestSecret} characters; MODE=live needs longer ones.`,
    )
  return secrets
}

function isLiveKey(key: string | undefined): boolean {
  return key !== undefined && /^(?:(?:sk|rk)_live_|live_g?sk_)/.test(key)
}

function isTestKey(key: string): boolean {
  return /^(?:(?:sk|rk)_test_|test_g?sk_)/.test(key)
}

/** A file in the working folder is copied, committed and backed up; what can take money does not belong there. */
function providerKeysIn(file: Environment): string[] {
  return Object.entries(file)
    .filter(([name, value]) => (providerKeyNames.has(name) && value?.trim()) || isLiveKey(value?.trim()))
    .map(
      ([name]) =>
        `${name} in .env is a provider key; those come from the environment only, so remove it from the file.`,
    )
}

const providerKeyNames = new Set([
  'PROVIDER_SECRET_KEY',
  'STRIPE_SECRET_KEY',
  'TOSS_SECRET_KEY',
  'PORTONE_API_SECRET',
  'STRIPE_WEBHOOK_SECRETS',
  'PORTONE_WEBHOOK_SECRETS',
  ...sourceKeyNames,
])

function isLine(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what a line must not hold
  return text.length <= 200 && !/[\u0000-\u001f\u007f]/.test(text)
}

const largestLogo = 512 * 1024

function readLogo(file: string | undefined, problems: string[]): Buffer | null {
  if (file === undefined) return null
  let content: Buffer
  try {
    content = readFileSync(file)
  } catch (error) {
    problems.push(`SELLER_LOGO cannot be read (${(error as NodeJS.ErrnoException).code}).`)
    return null
  }
  const isPicture =
    content.subarray(0, 4).toString('hex') === '89504e47' ||
    content.subarray(0, 3).toString('hex') === 'ffd8ff'
  if (isPicture && content.length <= largestLogo) return content
  problems.push('SELLER_LOGO must be a PNG or JPEG file of at most 512 KiB.')
  return null
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
    problems.push('VAULT_KEYS must be a comma list of <number>:<base64 of 32 bytes>, newest first.')
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

type Reader = ReturnType<typeof reader>

function reader(environment: Environment, problems: string[]) {
  const text = (name: string): string | undefined => environment[name]?.trim() || undefined

  const checked = (name: string, accepts: (text: string) => boolean, form: string): string | undefined => {
    const value = text(name)
    if (value === undefined || accepts(value)) return value
    problems.push(`${name} must be ${form}.`)
    return undefined
  }

  return {
    text,
    checked,
    integer(name: string, fallback: number, least: number, most: number): number {
      const value = Number(text(name) ?? fallback)
      if (Number.isInteger(value) && value >= least && value <= most) return value
      problems.push(`${name} must be a whole number from ${least} to ${most}.`)
      return fallback
    },
    optionalInteger(name: string, least: number, most: number): number | undefined {
      return text(name) === undefined ? undefined : this.integer(name, least, least, most)
    },
    oneOf<const T extends readonly string[]>(name: string, values: T, fallback: T[number]): T[number] {
      return checked(name, (value) => values.includes(value), `one of ${values.join(', ')}`) ?? fallback
    },
    url(name: string, protocols: readonly string[]): string | undefined {
      const accepts = (value: string) => URL.canParse(value) && protocols.includes(new URL(value).protocol)
      return checked(
        name,
        accepts,
        `a URL that begins with ${protocols.map((one) => `${one}//`).join(' or ')}`,
      )
    },
    list(name: string): string[] {
      return (text(name) ?? '')
        .split(',')
        .map((item) => item.trim())
        .filter((item) => item !== '')
    },
  }
}

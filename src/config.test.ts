import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { ConfigError, loadConfig, readConfig } from './config.ts'
import { newToken } from './platform/access/token.ts'

afterEach(() => void vi.unstubAllEnvs())

const key = (fill: number) => Buffer.alloc(32, fill).toString('base64')
const live = {
  MODE: 'live',
  SELLER_NAME: 'Example Ltd',
  DATABASE_URL: 'postgres://db.example/rankledger?sslmode=verify-full',
  PAYMENT_PROVIDER: 'portone',
  PROVIDER_SECRET_KEY: 'a-secret',
  PORTONE_STORE_ID: 'store-1',
  PORTONE_CHANNEL_KEY: 'channel-1',
  VAULT_KEYS: `1:${key(1)}`,
  WEBHOOK_SECRETS: `whsec_${'a'.repeat(24)}`,
}

function problemsOf(environment: Record<string, string>): readonly string[] {
  try {
    readConfig(environment)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

test('nothing at all is a working sandbox', () => {
  const config = readConfig({})
  expect(config).toMatchObject({
    mode: 'sandbox',
    host: '127.0.0.1',
    port: 8080,
    databaseUrl: undefined,
    timeZone: 'UTC',
    provider: { name: 'sandbox', timeoutMs: 3_000 },
    answerWithinMs: 15_000,
    cancelLeadSeconds: 60,
    dunningDays: [1, 3, 5, 7],
    catchUpPeriods: 1,
    logLevel: 'info',
  })
  expect(Object.isFrozen(config)).toBe(true)
})

test('every problem is told at once', () => {
  const problems = problemsOf({
    MODE: 'production',
    PORT: '99999',
    TZ_DEFAULT: 'Mars/Olympus',
    DATABASE_URL: 'mysql://x',
    DUNNING_DAYS: '3,1',
    VAULT_KEYS: '1:short',
    SCHEDULE_TRAINING: 'daily',
    BOOTSTRAP_TOKEN: 'secret',
    LOG_LEVEL: 'loud',
  })
  expect(problems).toHaveLength(9)
})

test('live mode with everything it needs is accepted', () => {
  expect(readConfig(live).mode).toBe('live')
})

test.each([
  ['the embedded database', { DATABASE_URL: '' }, /DATABASE_URL is required with MODE=live/],
  ['the sandbox provider', { PAYMENT_PROVIDER: 'sandbox' }, /takes no real money/],
  ['no provider key', { PROVIDER_SECRET_KEY: '' }, /PROVIDER_SECRET_KEY is required/],
  ['a test key', { PROVIDER_SECRET_KEY: 'sk_test_abc' }, /test key/],
  [
    'a database elsewhere without TLS',
    { DATABASE_URL: 'postgres://db.example/x' },
    /DATABASE_URL .* without TLS/,
  ],
  [
    'a session connection without TLS',
    { DATABASE_URL_SESSION: 'postgres://db.example/x?sslmode=prefer' },
    /DATABASE_URL_SESSION .* without TLS/,
  ],
  ['a plain base URL', { PROVIDER_BASE_URL: 'http://pay.example' }, /PROVIDER_BASE_URL must be an https/],
  [
    'a plain base URL of another',
    { STRIPE_BASE_URL: 'http://127.0.0.1:1' },
    /STRIPE_BASE_URL must be an https/,
  ],
  ['a short secret', { WEBHOOK_SECRETS: `${'a'.repeat(30)},short` }, /WEBHOOK_SECRETS holds .* 24/],
  ['a short secret of another', { STRIPE_WEBHOOK_SECRETS: 'whsec_short' }, /STRIPE_WEBHOOK_SECRETS holds/],
  ['a test key of another', { TOSS_SECRET_KEY: 'test_sk_abc' }, /TOSS_SECRET_KEY is a test key/],
  ['a malformed key of another', { STRIPE_SECRET_KEY: 'pk_live_abc' }, /STRIPE_SECRET_KEY is no secret key/],
  ['no encryption key', { VAULT_KEYS: '' }, /VAULT_KEYS is required/],
  ['no webhook secret', { WEBHOOK_SECRETS: '' }, /WEBHOOK_SECRETS is required/],
  ['no seller', { SELLER_NAME: '' }, /SELLER_NAME is required/],
  ['a logo that is none', { SELLER_LOGO: import.meta.filename }, /SELLER_LOGO must be a PNG or JPEG/],
  ['a test token', { BOOTSTRAP_TOKEN: newToken('test') }, /BOOTSTRAP_TOKEN/],
])('live mode refuses %s', (_name, change, problem) => {
  expect(problemsOf({ ...live, ...change }).join('\n')).toMatch(problem)
})

test('a live key refuses the start of a sandbox', () => {
  for (const secret of ['sk_live_abc', 'rk_live_abc', 'live_sk_abc', 'live_gsk_abc']) {
    expect(problemsOf({ PAYMENT_PROVIDER: 'stripe', PROVIDER_SECRET_KEY: secret })).toHaveLength(1)
  }
})

test('the general names speak of the provider that is named, and its own names win', () => {
  const config = readConfig({
    PAYMENT_PROVIDER: 'stripe',
    PROVIDER_SECRET_KEY: 'sk_test_general',
    STRIPE_SECRET_KEY: 'sk_test_own',
    PROVIDER_BASE_URL: 'http://127.0.0.1:9001',
    WEBHOOK_SECRETS: 'whsec_general',
    PORTONE_API_SECRET: 'portone-secret',
    PORTONE_STORE_ID: 'store-1',
    PORTONE_CHANNEL_KEY: 'channel-1',
    PORTONE_WEBHOOK_SECRETS: 'whsec_2,whsec_1',
    TOSS_BASE_URL: 'http://127.0.0.1:9002',
  })
  const stripe = {
    name: 'stripe',
    secretKey: 'sk_test_own',
    baseUrl: 'http://127.0.0.1:9001',
    webhookSecrets: ['whsec_general'],
    storeId: undefined,
    channelKey: undefined,
  }
  expect(config.provider).toMatchObject(stripe)
  // Toss has no key, so nothing of it is used.
  expect(config.providers).toEqual([
    stripe,
    {
      name: 'portone',
      secretKey: 'portone-secret',
      baseUrl: undefined,
      webhookSecrets: ['whsec_2', 'whsec_1'],
      storeId: 'store-1',
      channelKey: 'channel-1',
    },
  ])
})

test("a provider's own key satisfies what the general name is required for", () => {
  const { PROVIDER_SECRET_KEY, WEBHOOK_SECRETS, ...others } = live
  const own = { PORTONE_API_SECRET: PROVIDER_SECRET_KEY, PORTONE_WEBHOOK_SECRETS: WEBHOOK_SECRETS }
  expect(problemsOf({ ...others, ...own })).toEqual([])
  expect(problemsOf(others)).toHaveLength(2)
  // Toss signs nothing, so it needs no secret to verify by.
  expect(problemsOf({ ...others, PAYMENT_PROVIDER: 'toss', TOSS_SECRET_KEY: 'live_sk_abc' })).toEqual([])
})

test('PortOne for new cards needs its store and its channel, each named with all that is missing', () => {
  const missing = (given: Record<string, string>) =>
    problemsOf({ PAYMENT_PROVIDER: 'portone', ...given }).map((problem) => problem.split(' ')[0])
  expect(missing({})).toEqual(['PROVIDER_SECRET_KEY', 'PORTONE_STORE_ID', 'PORTONE_CHANNEL_KEY'])
  for (const key of ['PROVIDER_SECRET_KEY', 'PORTONE_API_SECRET']) {
    expect(missing({ [key]: 'a-secret' })).toEqual(['PORTONE_STORE_ID', 'PORTONE_CHANNEL_KEY'])
    expect(missing({ [key]: 'a-secret', PORTONE_STORE_ID: 'store-1' })).toEqual(['PORTONE_CHANNEL_KEY'])
    expect(missing({ [key]: 'a-secret', PORTONE_CHANNEL_KEY: 'channel-1' })).toEqual(['PORTONE_STORE_ID'])
  }
  expect(missing({ PORT: '99999', PORTONE_API_SECRET: 'a-secret', PORTONE_STORE_ID: ' ' })).toEqual([
    'PORTONE_STORE_ID',
    'PORTONE_CHANNEL_KEY',
    'PORT',
  ])
})

test('PortOne for old cards needs its store, which every call names, and no channel', () => {
  const old = { PAYMENT_PROVIDER: 'stripe', STRIPE_SECRET_KEY: 'sk_test_a', PORTONE_API_SECRET: 'a-secret' }
  expect(problemsOf(old)).toEqual([expect.stringMatching(/^PORTONE_STORE_ID is required/)])
  expect(problemsOf({ ...old, PORTONE_STORE_ID: 'store-1' })).toEqual([])
  // A simulator on this machine takes any.
  expect(problemsOf({ ...old, PORTONE_BASE_URL: 'http://127.0.0.1:9000' })).toEqual([])
  const { PORTONE_API_SECRET: _, ...without } = old
  expect(problemsOf(without)).toEqual([])
})

test('every variable that is wrong in live mode is named at once', () => {
  const problems = problemsOf({
    MODE: 'live',
    PAYMENT_PROVIDER: 'stripe',
    STRIPE_SECRET_KEY: 'sk_test_abc',
    STRIPE_BASE_URL: 'http://pay.example',
    TOSS_SECRET_KEY: 'live_ck_abc',
    TOSS_BASE_URL: 'http://pay.example',
    PORTONE_BASE_URL: 'http://pay.example',
    PORTONE_WEBHOOK_SECRETS: 'short',
  }).join('\n')
  for (const name of [
    'STRIPE_SECRET_KEY',
    'STRIPE_BASE_URL',
    'TOSS_SECRET_KEY',
    'TOSS_BASE_URL',
    'PORTONE_BASE_URL',
    'PORTONE_WEBHOOK_SECRETS',
    'SELLER_NAME',
    'DATABASE_URL',
    'VAULT_KEYS',
    'WEBHOOK_SECRETS is required',
  ])
    expect(problems, name).toContain(name)
})

test('a database on this machine needs no TLS in live mode', () => {
  for (const where of [
    '127.0.0.1:5432/x',
    'localhost/x',
    '[::1]:5432/x',
    '%2Fvar%2Frun/x',
    '/x?host=/run/pg',
  ])
    expect(problemsOf({ ...live, DATABASE_URL: `postgres://${where}` }), where).toEqual([])
})

test.each([
  ['db.example/x?host=127.0.0.1', {}],
  ['db.example/x?host=db.example&host=/run/pg', {}],
  ['/x', {}],
  ['/x', { PGHOST: '/run/pg' }],
  ['db.example/x', { PGSSLMODE: 'verify-full' }],
  ['db.example/x?ssl=true', {}],
  ['db.example/x?sslmode=disable&sslmode=verify-full', {}],
  ['db.example/x?sslmode=verify-full&sslrootcert=/no/such/file', {}],
  ['db.example/x?sslmode=verify-full&sslnegotiation=direct', {}],
  ['db.example/x?sslrootcert=/no/such/file', {}],
])('live mode takes %s with %o, as the driver reads it', (where, environment) => {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value)
  expect(problemsOf({ ...live, DATABASE_URL: `postgres://${where}` })).toEqual([])
})

test.each([
  ['/x', { PGHOST: 'db.example' }],
  ['/x?host=', { PGHOST: 'db.example' }],
  ['127.0.0.1/x?host=db.example', {}],
  ['127.0.0.1/x?host=/run/pg&host=db.example', {}],
  ['db.example/x?sslmode=verify-full&sslmode=disable', {}],
  ['db.example/x?sslmode=disable&sslrootcert=/no/such/file', { PGSSLMODE: 'verify-full' }],
  ['db.example/x', { PGSSLMODE: 'no-verify' }],
  ['db.example/x?ssl=no-verify', {}],
])('live mode refuses %s with %o, as the driver reads it', (where, environment) => {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value)
  expect(problemsOf({ ...live, DATABASE_URL: `postgres://${where}` })).toEqual([
    expect.stringMatching(/^DATABASE_URL leads to another machine without TLS/),
  ])
})

test.each(['a:100%pure@db/x', 'a:%ff@db/x', 'a@db/x?application_name=%', 'a@db/%E0%A4'])(
  'a percent sign that stands for no character is a problem of the environment: %s',
  (where) => {
    for (const name of ['DATABASE_URL', 'DATABASE_URL_SESSION', 'DATABASE_URL_READ'])
      expect(
        problemsOf({
          ...live,
          [name]: `postgres://${where}${where.includes('?') ? '&' : '?'}sslmode=require`,
        }).filter((problem) => problem.includes('%25')),
      ).toEqual([expect.stringMatching(`^${name} holds a % that stands for no character`)])
  },
)

test('a URL that the driver refuses is a problem of the environment, and not said back', () => {
  const problems = problemsOf({ ...live, DATABASE_URL: 'postgres://a:hidden@db/x?sslnegotiation=direkt' })
  expect(problems[0]).toMatch(/^DATABASE_URL cannot be read by the driver/)
  expect(problems.join()).not.toContain('hidden')
})

test('a base URL is an origin', () => {
  for (const url of [
    'http://127.0.0.1:9000/v1',
    'https://a:b@pay.example',
    'https://pay.example?x',
    'ftp://x',
  ])
    expect(problemsOf({ PROVIDER_BASE_URL: url }), url).toHaveLength(1)
  expect(problemsOf({ PROVIDER_BASE_URL: 'http://127.0.0.1:9000/' })).toEqual([])
})

test('two machines on one database must be given their secrets', () => {
  expect(problemsOf({ DATABASE_URL: 'postgres://x/y' })).toHaveLength(2)
})

test('the newest vault key comes first, and one version cannot mean two keys', () => {
  const config = readConfig({ VAULT_KEYS: `2:${key(2)},1:${key(1)}` })
  expect(config.vaultKeys.map(({ version }) => version)).toEqual([2, 1])
  expect(problemsOf({ VAULT_KEYS: `1:${key(2)},1:${key(1)}` })).toHaveLength(1)
})

test('a .env file fills in what the environment leaves open, and never holds a provider key', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rankledger-env-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, '.env'), 'PORT=9001\nTZ_DEFAULT="Asia/Seoul"\n')
  expect(loadConfig({ PORT: '9002' }, folder)).toMatchObject({ port: 9002, timeZone: 'Asia/Seoul' })
  for (const line of [
    'PROVIDER_SECRET_KEY=sk_live_abc',
    'PROVIDER_SECRET_KEY=sk_test_abc',
    'TOSS_SECRET_KEY=anything',
    'PORTONE_API_SECRET=anything',
    'OTHER=sk_live_abc',
  ]) {
    writeFileSync(join(folder, '.env'), `${line}\n`)
    expect(() => loadConfig({}, folder), line).toThrow(/is a provider key; .* environment only/)
  }
})

test('no problem repeats a secret', () => {
  const message = problemsOf({
    PAYMENT_PROVIDER: 'stripe',
    PROVIDER_SECRET_KEY: 'sk_live_hidden',
    VAULT_KEYS: 'hidden',
  }).join()
  expect(message).not.toContain('hidden')
})

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ConfigError, loadConfig, readConfig } from './config.ts'
import { newToken } from './platform/access/token.ts'

const key = (fill: number) => Buffer.alloc(32, fill).toString('base64')
const live = {
  MODE: 'live',
  SELLER_NAME: 'Example Ltd',
  DATABASE_URL: 'postgres://db.example/rankledger',
  PAYMENT_PROVIDER: 'portone',
  PROVIDER_SECRET_KEY: 'a-secret',
  VAULT_KEYS: `1:${key(1)}`,
  WEBHOOK_SECRETS: 'whsec_abc',
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

import { isUrlOfLoopback } from '../platform/loopback.ts'
import { type Environment, isOrigin, type Reader } from './environment.ts'
import { sourceKeyNames } from './source-settings.ts'

/** How one provider is reached. */
export type ProviderSettings = {
  readonly name: ProviderName
  readonly secretKey: string | undefined
  /** Its origin; absent: the provider's own. */
  readonly baseUrl: string | undefined
  /** Newest first. Of the sandbox, empty: made and kept in the data dir. */
  readonly webhookSecrets: readonly string[]
  /** PortOne's: every call names the store; new cards are collected through the channel. */
  readonly storeId: string | undefined
  readonly channelKey: string | undefined
}

export type ProviderName = (typeof providerNames)[number]

export const providerNames = ['sandbox', 'stripe', 'toss', 'portone'] as const

/** Whether a provider signs its messages. Those of one that does not come to the hints route, and need no webhook secret. */
export function signsMessages(name: ProviderName): boolean {
  return name !== 'toss'
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
export function readProviders(
  read: Reader,
  name: ProviderName,
  isLive: boolean,
  problems: string[],
): { named: ProviderSettings; others: ProviderSettings[] } {
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
    const baseUrl = ownUrl ?? (isNamed ? general.baseUrl : undefined)
    const made = !isLive && baseUrl && isUrlOfLoopback(baseUrl) ? simulated : undefined
    return {
      name: one,
      secretKey: key ?? (isNamed ? general.secretKey : undefined),
      webhookSecrets: ownSecrets.length === 0 && isNamed ? general.webhookSecrets : ownSecrets,
      baseUrl,
      storeId: own.storeId && (read.text(own.storeId) ?? made?.storeId),
      channelKey: own.channelKey && (read.text(own.channelKey) ?? made?.channelKey),
    }
  })
  const named = settings.find((one) => one.name === name)!
  const isGiven = (variable: string | undefined) =>
    variable !== undefined && read.text(variable) !== undefined
  if (name !== 'sandbox' && !isGiven(ownNames[name].secretKey) && !isGiven(generalNames.secretKey))
    problems.push(
      `PROVIDER_SECRET_KEY is required with PAYMENT_PROVIDER=${name}; ${ownNames[name].secretKey} does as well.`,
    )
  const others = settings.filter((one) => one !== named && one.secretKey !== undefined)
  problems.push(...lackingOfPortone(named, others))
  return { named, others }
}

// A simulator on this machine takes any, so that whoever only tries one needs neither.
const simulated = { storeId: 'store-simulated', channelKey: 'channel-key-simulated' }

/** Without its store no call of PortOne finds anything; a card that is kept is charged through the channel it came by. */
function lackingOfPortone(named: ProviderSettings, others: readonly ProviderSettings[]): string[] {
  const portone = [named, ...others].find(({ name }) => name === 'portone')
  if (!portone) return []
  const { storeId, channelKey } = ownNames.portone
  const isNamed = portone === named
  const withWhat = isNamed ? 'PAYMENT_PROVIDER=portone' : ownNames.portone.secretKey
  const lacking: string[] = []
  if (portone.storeId === undefined)
    lacking.push(`${storeId} is required with ${withWhat}: each call there names the store.`)
  if (isNamed && portone.channelKey === undefined)
    lacking.push(`${channelKey} is required with ${withWhat}: new cards are collected through that channel.`)
  return lacking
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
  const form = isLive
    ? 'an https:// origin with MODE=live, such as https://api.example.com'
    : 'an origin such as https://api.example.com or http://127.0.0.1:9000, without a path'
  return read.checked(variable, (text) => isOrigin(text, isLive), form)
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
export function providerKeysIn(file: Environment): string[] {
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

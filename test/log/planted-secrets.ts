/** A secret in a text, and what of it must not be found in any output. */
export type Planted = {
  readonly kind: Kind
  /** The name under which such a value usually stands. */
  readonly key: string
  /** The value as it is spelled here. */
  readonly spelled: string
  /** A sentence with the value in it. */
  readonly sentence: string
  /** The value as it is, and parts of it that give it away. */
  readonly traces: readonly string[]
  /** In one of the encodings that programs use, and only once. */
  readonly isEncodedPlainly: boolean
}

export const kinds = [
  'card_number',
  'card_code',
  'billing_key',
  'provider_key',
  'api_secret',
  'client_secret',
  'token',
  'webhook_secret',
  'vault_key',
  'url_password',
  'email',
  'phone',
  'resident_number',
  'person_name',
  'jwt',
  'pem',
] as const
export type Kind = (typeof kinds)[number]

/** Those that this process holds itself, so that stage 4 knows their exact values. */
export const heldKinds: ReadonlySet<Kind> = new Set([
  'billing_key',
  'provider_key',
  'api_secret',
  'token',
  'webhook_secret',
  'vault_key',
  'url_password',
])

export type Random = () => number

/** Mulberry32: small, fast, and the same on every machine. */
export function seededRandom(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

export function pick<T>(random: Random, items: readonly T[]): T {
  return items[Math.floor(random() * items.length)]!
}

/** Values of the held kinds come from a fixed pool, because the process registers each. */
export function heldValues(seed: number): ReadonlyMap<Kind, readonly string[]> {
  const random = seededRandom(seed)
  return new Map([...heldKinds].map((kind) => [kind, Array.from({ length: 150 }, () => make(kind, random))]))
}

export function plant(random: Random, kind: Kind, held: ReadonlyMap<Kind, readonly string[]>): Planted {
  const values = held.get(kind)
  const value = values ? pick(random, values) : make(kind, random)
  const spelling = pick(random, spellingsOf(kind))
  const isWhole = random() < 0.2 && wholeSpellings.has(spelling)
  const spelled = spell(spelling, value, random)
  const phrase = phraseOf(kind, isWhole ? value : spelled, random)
  const around = pick(random, ['', 'the request failed with ', 'got: ', '(', 'sent "', '응답 '])
  const sentence =
    around +
    (isWhole ? spell(spelling, phrase, random) : phrase) +
    pick(random, ['', ' and then it ended', ')', '"'])
  return {
    kind,
    key: pick(random, keysOf[kind]),
    spelled,
    sentence,
    traces: tracesOf(kind, value),
    isEncodedPlainly: plainSpellings.has(spelling),
  }
}

const keysOf: Record<Kind, readonly string[]> = {
  card_number: ['card_number', 'cardNumber', 'pan', 'CARD-NUMBER', '카드번호'],
  card_code: ['cvc', 'cardCvc', 'cvv', 'CVV2', 'security_code', '보안코드'],
  billing_key: ['billing_key', 'billingKey', 'customer_key', 'x-billing-key'],
  provider_key: ['provider_secret_key', 'PROVIDER_SECRET_KEY', 'api_key', 'authorization', 'Authorization'],
  api_secret: ['PORTONE_API_SECRET', 'apiSecret', 'api_secret', 'authorization', 'Authorization'],
  client_secret: [
    'client_secret',
    'clientSecret',
    'next_action_client_secret',
    'payment_intent_client_secret',
  ],
  token: ['token', 'access_token', 'accessToken', 'authorization', 'BOOTSTRAP_TOKEN'],
  webhook_secret: ['webhook_secret', 'WEBHOOK_SECRETS', 'secret', 'client_secret'],
  vault_key: ['vault_key', 'VAULT_KEYS', 'vaultKey', 'encryption_key'],
  url_password: ['password', 'DATABASE_URL', 'passwd', 'db_password'],
  email: ['email', 'customerEmail', 'contact_email', '이메일'],
  phone: ['phone', 'phoneNumber', 'customer_mobile', '전화번호'],
  resident_number: ['rrn', 'resident_registration_number', 'ssn', '주민등록번호'],
  person_name: ['name', 'customer_name', 'customerName', 'holderName', 'full_name', '이름'],
  jwt: ['token', 'id_token', 'cookie', 'Set-Cookie', 'authorization'],
  pem: ['private_key', 'privateKey', 'signing_key'],
}

function make(kind: Kind, random: Random): string {
  switch (kind) {
    case 'card_number':
      return cardNumber(random)
    case 'card_code':
      return digits(random, pick(random, [3, 4]))
    case 'billing_key':
      return billingKey(random)
    case 'provider_key':
      return pick(random, providerPrefixes) + letters(random, pick(random, [24, 32, 99]))
    case 'api_secret':
      // PortOne's have no beginning of their own, only their length.
      return letters(random, pick(random, [48, 64, 80]))
    case 'client_secret':
      return `${pick(random, ['pi_3', 'seti_1'])}${letters(random, 23)}_secret_${letters(random, 25)}`
    case 'token':
      return pick(random, ['rl_test_', 'rl_live_']) + letters(random, 44)
    case 'webhook_secret':
      return `whsec_${bytes(random, 24 + Math.floor(random() * 9)).toString('base64')}`
    case 'vault_key':
      return bytes(random, 32).toString('base64')
    case 'url_password':
      return letters(random, 18)
    case 'email':
      return `${pick(random, ['minsu', 'j.doe', 'hong+bill', 'a_b'])}.${letters(random, 8)}@${letters(random, 6).toLowerCase()}.${pick(random, ['com', 'co.kr', 'io'])}`
    case 'phone':
      return phone(random)
    case 'resident_number':
      return residentNumber(random)
    case 'person_name':
      return `${pick(random, ['김', '이', 'Hong ', 'Jürgen ', 'Ms. '])}${pick(random, ['민수', 'Gildong', '서연'])} ${letters(random, 7)}`
    case 'jwt':
      return `${base64url('{"alg":"HS256","typ":"JWT"}')}.${base64url(`{"sub":"${letters(random, 12)}"}`)}.${letters(random, 43)}`
    case 'pem':
      return `-----BEGIN PRIVATE KEY-----\n${bytes(random, 48).toString('base64')}\n${bytes(random, 30).toString('base64')}\n-----END PRIVATE KEY-----`
  }
}

const providerPrefixes = [
  ...['sk_live_', 'sk_test_', 'rk_live_', 'rk_test_'],
  ...['live_sk_', 'test_sk_', 'live_gsk_', 'test_gsk_'],
]

function tracesOf(kind: Kind, value: string): readonly string[] {
  switch (kind) {
    case 'pem':
      return value.split('\n').slice(1, -1)
    case 'jwt':
      return value.split('.')
    case 'person_name':
      return [value, value.split(' ').at(-1)!]
    case 'email':
      return [value, value.split('@')[0]!]
    case 'token':
      return [value, value.slice(8)]
    case 'provider_key':
      // Also what follows the beginning, and any end of it that is long enough to matter.
      return [value, value.slice(value.lastIndexOf('_') + 1), value.slice(-16)]
    case 'api_secret':
      return [value, value.slice(0, 24), value.slice(-24)]
    case 'client_secret':
      return [value, value.slice(value.lastIndexOf('_') + 1)]
    default:
      return [value]
  }
}

function phraseOf(kind: Kind, spelled: string, random: Random): string {
  switch (kind) {
    case 'card_code':
      return (
        pick(random, ['cvc ', 'CVC: ', 'cvv=', 'the security code is ', '보안코드 ', '"cardCvc":"']) + spelled
      )
    case 'person_name':
      return (
        pick(random, ['name=', 'customer_name: ', '"customerName":"', "holderName='", '이름: ']) + spelled
      )
    case 'url_password':
      return `postgres://app:${spelled}@db.internal/app`
    case 'vault_key':
      return pick(random, ['', 'key ', 'VAULT_KEYS=']) + spelled
    case 'api_secret':
      return pick(random, ['', 'PortOne ', 'apiSecret=', 'Authorization: PortOne ']) + spelled
    case 'provider_key':
    case 'token':
      return pick(random, ['', 'Bearer ', 'token ']) + spelled
    default:
      return spelled
  }
}

const anySpelling = ['raw', 'percent', 'base64', 'base64url', 'unicode', 'hex', 'percent2'] as const
const wordSpelling = [...anySpelling, 'fullwidth', 'zerowidth', 'base64hex', 'percent64'] as const
const numberSpelling = [...wordSpelling, 'spaced', 'mixed', 'entity'] as const
type Spelling = (typeof numberSpelling)[number]

const plainSpellings: ReadonlySet<Spelling> = new Set(['raw', 'percent', 'base64', 'base64url', 'hex'])
const wholeSpellings: ReadonlySet<Spelling> = new Set([
  'percent',
  'base64',
  'base64url',
  'unicode',
  'hex',
  'percent64',
])

function spellingsOf(kind: Kind): readonly Spelling[] {
  if (kind === 'card_number' || kind === 'phone' || kind === 'resident_number') return numberSpelling
  if (kind === 'card_code')
    return ['raw', 'percent', 'base64', 'unicode', 'hex', 'fullwidth', 'zerowidth', 'percent2']
  return wordSpelling
}

function spell(spelling: Spelling, value: string, random: Random): string {
  const utf8 = Buffer.from(value)
  switch (spelling) {
    case 'raw':
      return value
    case 'percent':
      return percent(utf8)
    case 'percent2':
      return encodeURIComponent(percent(utf8))
    case 'base64':
      return utf8.toString('base64')
    case 'base64url':
      return utf8.toString('base64url')
    case 'hex':
      return utf8.toString('hex')
    case 'base64hex':
      return Buffer.from(utf8.toString('hex')).toString('base64')
    case 'percent64':
      return percent(Buffer.from(utf8.toString('base64')))
    case 'unicode':
      return Array.from(
        { length: value.length },
        (_, i) => `\\u${value.charCodeAt(i).toString(16).padStart(4, '0')}`,
      ).join('')
    case 'entity':
      return Array.from(value, (char) => `&#${char.codePointAt(0)};`).join('')
    case 'fullwidth':
      return Array.from(value, (char) =>
        char > ' ' && char < '\x7f' ? String.fromCharCode(char.charCodeAt(0) + 0xfee0) : char,
      ).join('')
    case 'zerowidth':
      return Array.from(value).join(pick(random, ['\u200b', '\u200d', '\ufeff', '\u00ad']))
    case 'spaced':
      return grouped(value.replace(/\D/g, ''), pick(random, [' ', '-', '.', ' - ', '\u00a0', '\u2011']), 4)
    case 'mixed':
      return grouped(value.replace(/\D/g, ''), pick(random, [' ', '-', '_']), pick(random, [1, 2, 3]))
  }
}

function percent(utf8: Buffer): string {
  return utf8.toString('hex').replace(/../g, '%$&')
}

function grouped(number: string, separator: string, size: number): string {
  return number.match(new RegExp(`.{1,${size}}`, 'g'))!.join(separator)
}

function digits(random: Random, count: number): string {
  let text = ''
  for (let i = 0; i < count; i++) text += Math.floor(random() * 10)
  return text
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

function letters(random: Random, count: number): string {
  let text = ''
  for (let i = 0; i < count; i++) text += alphabet[Math.floor(random() * alphabet.length)]
  return text
}

function bytes(random: Random, count: number): Buffer {
  return Buffer.from(Array.from({ length: count }, () => Math.floor(random() * 256)))
}

function base64url(text: string): string {
  return Buffer.from(text).toString('base64url')
}

const issuers = [
  ['4', 16],
  ['4', 13],
  ['4', 19],
  ['51', 16],
  ['5555', 16],
  ['2221', 16],
  ['2720', 16],
  ['34', 15],
  ['37', 15],
  ['36', 14],
  ['3530', 16],
  ['6011', 16],
  ['65', 16],
  ['62', 16],
  ['62', 19],
  ['5018', 12],
  ['6304', 13],
  ['9410', 16],
] as const

function cardNumber(random: Random): string {
  const [prefix, length] = pick(random, issuers)
  const body = prefix + digits(random, length - prefix.length - 1)
  for (let check = 0; check < 10; check++) if (luhn(body + check) % 10 === 0) return body + check
  throw new Error('one of ten check digits fits')
}

function luhn(number: string): number {
  return [...number].reverse().reduce((sum, char, i) => {
    const doubled = Number(char) * (i % 2 === 1 ? 2 : 1)
    return sum + Math.floor(doubled / 10) + (doubled % 10)
  }, 0)
}

function billingKey(random: Random): string {
  switch (Math.floor(random() * 6)) {
    case 4:
      return `cus_${letters(random, 14)}:pm_1${letters(random, 23)}`
    case 0:
      return `bk_test_${pick(random, ['ok', 'stolen', 'insufficient_funds', 'fails_on_renewal'])}`
    case 1:
      return `bk_live_${letters(random, 20)}`
    case 2:
      return `pm_1${letters(random, 23)}`
    case 3:
      return `billing-key-${bytes(random, 16)
        .toString('hex')
        .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')}`
    default:
      return `${bytes(random, 32).toString('base64url')}=`
  }
}

function phone(random: Random): string {
  const line = `${digits(random, 4)}-${digits(random, 4)}`
  return pick(random, [
    `010-${line}`,
    `010${line.replace('-', '')}`,
    `+82 10-${line}`,
    `+8210${line.replace('-', '')}`,
    `02-${line}`,
    `031-${line.slice(1)}`,
    `070-${line}`,
  ])
}

/** Births before 2020 with the check digit, in both forms; later ones have none. */
function residentNumber(random: Random): string {
  const two = (below: number) => String(1 + Math.floor(random() * below)).padStart(2, '0')
  const isRecent = random() < 0.3
  const year = String(isRecent ? 20 + Math.floor(random() * 7) : 40 + Math.floor(random() * 60))
  const front = year + two(12) + two(28)
  const back = pick(random, isRecent ? ['3', '4'] : ['1', '2']) + digits(random, 5)
  const sum = [...(front + back)].reduce(
    (total, char, i) => total + Number(char) * [2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5][i]!,
    0,
  )
  const check = isRecent ? digits(random, 1) : String((11 - (sum % 11)) % 10)
  return front + pick(random, ['', '-']) + back + check
}

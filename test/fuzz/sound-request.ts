import { createHash } from 'node:crypto'
import { Compile } from 'typebox/compile'
import { signStandardWebhook } from '../sign-webhook.ts'
import type { Random } from '../simulation/random.ts'
import type { Operation, Schema } from './operations.ts'
import type { Prefix, Scene } from './scene.ts'

/** A request before it is bytes: parts that a wound can take hold of. */
export type Draft = {
  readonly operation: Operation
  readonly k: number
  method: string
  path: string
  /** `name=value`, encoded. */
  query: string[]
  headers: [string, string][]
  /** What the body says, where it is JSON. */
  json: unknown
  body: Buffer | undefined
  /** Makes the bytes in its own way, where HTTP itself is the wound. */
  frame: ((lines: readonly string[], body: Buffer) => Buffer) | undefined
  /** False: path or framing are such that nobody can say which route this is for. */
  reaches: boolean
  fresh: boolean
  /** The loopback address it comes from, where that matters. */
  from: string | undefined
  halfClose: boolean
  /** The server may hang up without a word, because there is no request it could answer. */
  mayClose: boolean
  /** The only statuses that are right; undefined where the document does not decide. */
  expects: readonly number[] | undefined
  wound: string
}

/** A request as the document asks for it, about things that exist. It may still meet a no: the world is alive. */
export function soundRequest(operation: Operation, random: Random, scene: Scene, k: number): Draft {
  const turn = k % scene.tokens.length
  // Every other token is for all, and only those may act on the installation.
  const at = operation.scope === 'admin' ? Math.min(turn | 1, scene.tokens.length - 1) : turn
  const maker: Maker = { random, scene, k, operation, workspace: scene.workspaces[at]! }
  const draft: Draft = {
    operation,
    k,
    method: operation.method,
    path: operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
      const field = operation.fields.find((one) => one.name === name && one.in === 'path')
      return encodeURIComponent(String(soundValue(maker, field?.schema ?? {}, name)))
    }),
    query: [],
    headers: [['host', '127.0.0.1']],
    json: undefined,
    body: undefined,
    frame: undefined,
    reaches: true,
    fresh: false,
    from: undefined,
    halfClose: false,
    mayClose: false,
    expects: undefined,
    wound: 'none',
  }
  for (const field of operation.fields) {
    if (field.in !== 'query' || !(field.required || random.chance(0.4))) continue
    const value = soundValue(maker, field.schema, field.name)
    if (value !== undefined) draft.query.push(`${field.name}=${encodeURIComponent(String(value))}`)
  }
  if (operation.secured) draft.headers.push(['authorization', `Bearer ${scene.tokens[at]}`])
  // A token that is bound to no workspace has to name one.
  const named = operation.fields.some(({ name }) => name === 'workspace_id')
  if (named && at % 2 === 1 && !draft.query.some((pair) => pair.startsWith('workspace_id=')))
    draft.query.push(`workspace_id=${maker.workspace}`)
  if (operation.body !== undefined) {
    const json = soundValue(maker, operation.body, '')
    if (at % 2 === 1 && operation.body.properties?.['workspace_id'] !== undefined)
      Object.assign(json as object, { workspace_id: maker.workspace })
    setJson(draft, json)
  }
  if (operation.method === 'POST' && operation.path.startsWith('/api/billing/') && random.chance(0.3))
    draft.headers.push(['idempotency-key', `key-${random.chance(0.8) ? k : random.between(0, k)}`])
  recipes[operation.path]?.(draft, maker)
  return draft
}

/** The bytes of a request, honest about its length unless that is what is wrong with it. */
export function bytesOf(draft: Draft): Buffer {
  const target = draft.query.length === 0 ? draft.path : `${draft.path}?${draft.query.join('&')}`
  const lines = [
    `${draft.method} ${target} HTTP/1.1`,
    ...draft.headers.map(([name, value]) => `${name}: ${value}`),
  ]
  const body = draft.body ?? Buffer.alloc(0)
  if (draft.frame) return draft.frame(lines, body)
  if (draft.body !== undefined) lines.push(`content-length: ${body.length}`)
  return framed(lines, body)
}

export function framed(lines: readonly string[], body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body])
}

export function setJson(draft: Draft, json: unknown): void {
  draft.json = json
  setBody(draft, Buffer.from(renderJson(json)))
}

export function setBody(draft: Draft, body: Buffer): void {
  draft.body = body
  if (!draft.headers.some(([name]) => name === 'content-type'))
    draft.headers.push(['content-type', 'application/json'])
}

/** A number that JavaScript cannot hold, or not write so, but a caller can. */
export function literally(text: string): string {
  return `${mark}${text}${mark}`
}

const mark = '\u{f0000}'

function renderJson(json: unknown): string {
  return (JSON.stringify(json) ?? '').replaceAll(new RegExp(`"${mark}([^"]*?)${mark}"`, 'gu'), '$1')
}

type Maker = {
  readonly random: Random
  readonly scene: Scene
  readonly k: number
  readonly operation: Operation
  readonly workspace: string
}

/** A signed notification; half of their ids were used before. */
function notification(draft: Draft, { random, scene, k }: Maker): void {
  const body = Buffer.from(
    JSON.stringify({
      type: random.pick(['payment.paid', 'payment.declined', 'payment.refunded', 'weather.changed']),
      timestamp: '2030-01-15T12:00:00.000Z',
      data: { reference: random.pick(scene.ids('rl_')) },
    }),
  )
  const id = `evt_fuzz_${random.chance(0.5) ? k : random.between(0, 50)}`
  draft.headers.push(...Object.entries(signStandardWebhook(scene.webhookSecret, id, body, new Date())))
  setBody(draft, body)
}

/** What signs for itself cannot be made from a schema alone. */
const recipes: Readonly<Record<string, (draft: Draft, maker: Maker) => void>> = {
  '/api/billing/webhook': notification,
  '/api/billing/webhook/{provider}': notification,
  '/api/session'(draft, { random, scene }) {
    if (draft.method === 'POST') setJson(draft, { token: random.pick(scene.tokens) })
  },
  '/api/billing/hints/{secret}'(draft, { random, scene }) {
    setBody(draft, Buffer.from(JSON.stringify({ data: { orderId: random.pick(scene.ids('rl_')) } })))
  },
}

/** A value that the schema allows, about something that exists where the name tells what it is about. */
function soundValue(maker: Maker, schema: Schema, name: string): unknown {
  const { random } = maker
  // Until a list has given out a cursor there is no right one.
  if (name === 'cursor') return maker.scene.cursorOf(maker.operation.name)
  const named = byName[name]?.(maker)
  if (named !== undefined && isOne(schema, named)) return named
  if (schema.enum) return random.pick(schema.enum)
  if (schema.const !== undefined) return schema.const
  if (schema.anyOf) return soundValue(maker, random.pick(schema.anyOf), name)
  const type = [schema.type ?? 'string'].flat()[0]
  switch (type) {
    case 'object':
      return soundObject(maker, schema)
    case 'array': {
      const most = Math.min(schema.maxItems ?? 3, (schema.minItems ?? 0) + 3)
      const length = random.between(schema.minItems ?? 0, most)
      return Array.from({ length }, () => soundValue(maker, schema.items ?? {}, name))
    }
    case 'integer':
    case 'number': {
      const low = schema.minimum ?? 0
      const most = Math.min(schema.maximum ?? low + 1000, low + 1000)
      return type === 'integer' ? random.between(low, most) : low + random.next() * (most - low)
    }
    case 'boolean':
      return random.chance(0.5)
    case 'null':
      return null
    default:
      return soundText(maker, schema)
  }
}

function soundObject(maker: Maker, schema: Schema): Record<string, unknown> {
  const required = new Set(schema.required)
  const made: Record<string, unknown> = {}
  for (const [name, part] of Object.entries(schema.properties ?? {})) {
    if (!required.has(name) && maker.random.chance(0.5)) continue
    const value = soundValue(maker, part, name)
    if (value !== undefined) made[name] = value
  }
  return made
}

/** Tries the texts that mean something in this service, and takes one that has the asked form. */
function soundText({ random, scene, k }: Maker, schema: Schema): string {
  const texts = [
    scene.today,
    '2029-12',
    `01:${random.between(10, 59)}`,
    'KRW',
    'someone@example.com',
    `made-${k}`,
    `word ${k}`,
  ]
  const fitting = texts.filter((text) => isOne(schema, text))
  return fitting.length > 0 ? random.pick(fitting) : 'x'.repeat(schema.minLength ?? 1)
}

const known =
  (prefix: Prefix) =>
  ({ random, scene }: Maker) =>
    random.pick(scene.ids(prefix))

const byName: Readonly<Record<string, (maker: Maker) => unknown>> = {
  provider: () => 'sandbox',
  account_id: ({ random, scene, k }) => (random.chance(0.6) ? random.pick(scene.accounts) : `acct-new-${k}`),
  workspace_id: ({ workspace }) => workspace,
  // What others subscribe to stays on offer: plans that are written are plans of the fuzzer's own.
  plan_id: ({ random, scene, operation }) =>
    operation.method === 'PUT' ? `fuzz-plan-${random.between(0, 5)}` : random.pick(scene.plans),
  subscription_id: known('sub_'),
  invoice_id: known('inv_'),
  refund_id: known('ref_'),
  run_id: known('run_'),
  model_id: known('mdl_'),
  token_id: ({ random, scene }) => random.pick(scene.spareTokens),
  job_id: ({ random, scene }) => random.pick(scene.deadJobs),
  event_id: ({ random }) => `evt_fuzz_${random.between(0, 50)}`,
  reference: known('rl_'),
  secret: ({ scene }) => scene.hintSecret,
  billing_key: ({ random }) =>
    `bk_test_${random.weighted({ ok: 12, insufficient_funds: 1, stolen: 1, fails_on_renewal: 1, refund_fails: 1, nobody: 1 })}`,
  auth_key: ({ random }) => `ak_test_${random.weighted({ ok: 8, stolen: 1, nobody: 1 })}`,
  customer_key: ({ k }) => `customer-${k}`,
  timezone: ({ random }) => random.pick(['UTC', 'Asia/Seoul', 'America/New_York', 'Pacific/Chatham']),
  email: ({ k }) => `person${k}@example.com`,
  keyword: ({ random, scene }) => random.pick(scene.keywords),
  keywords: ({ random, scene, k }) => (random.chance(0.5) ? random.pick(scene.keywords) : `new word ${k}`),
  q: ({ random }) => random.pick(['shoe', '나이키', 'K', '']),
  task: ({ random }) => random.pick(['train_classifier', 'classifier', 'predict', 'aggregate_volumes']),
  advance_by: ({ random }) => random.weighted({ PT1S: 6, PT1M: 6, PT1H: 3, PT6H: 2, P1D: 1 }),
  advance_to: ({ k }) => new Date(Date.parse('2030-01-15T12:00:00Z') + k * 60_000).toISOString(),
  currency: ({ random }) => random.pick(['KRW', 'USD', 'JPY', 'EUR']),
  currencies: ({ random }) => random.pick(['KRW', 'USD', 'JPY', 'EUR']),
  amount: ({ random }) => random.between(1, 50),
  until: () => '2030-03-01T00:00:00+09:00',
  from: ({ scene }) => `${scene.today}T00:00:00Z`,
  to: () => '2031-01-01T00:00:00Z',
  limit: ({ random }) => random.between(1, 100),
  checked_at: ({ scene }) => `${scene.today}T03:00:00+09:00`,
  day: ({ random }) => `2030-01-${String(random.between(1, 14)).padStart(2, '0')}`,
  position: ({ random }) => random.between(1, 100),
  source: ({ random, operation }) =>
    operation.path.startsWith('/api/batch/trackers/') ? 'serpapi' : random.pick(['naver', 'google']),
  tracker_id: ({ random }) => `tracker-${random.chance(0.6) ? 0 : random.between(1, 5)}`,
  site: () => 'example.com',
  engine: () => 'google',
  device: ({ random }) => random.pick(['mobile', 'desktop']),
  location: ({ random }) => random.pick(['KR', 'US', 'jp']),
  depth: ({ random }) => random.between(1, 50),
  zone: () => 'Asia/Seoul',
  language: () => 'ko',
  url: () => 'https://example.com/shoes',
}

const compiled = new WeakMap<Schema, (value: unknown) => boolean>()

function isOne(schema: Schema, value: unknown): boolean {
  let check = compiled.get(schema)
  if (!check) {
    const made = Compile(schema as object)
    check = (one) => made.Check(one)
    compiled.set(schema, check)
  }
  return check(value)
}

/** The same number for the same seed and place, wherever a run begins. */
export function seedOf(seed: number, k: number): number {
  return createHash('sha256').update(`${seed} ${k}`).digest().readInt32BE(0)
}

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run, store } from '../batch/batch-story.ts'
import { seededRandom } from '../simulation/random.ts'
import { type Answer, openWorld, type World } from '../world.ts'
import { type ChangeWatch, watchChanges } from './change-watch.ts'
import { type Document, type Field, type Operation, operationsOf } from './operations.ts'
import { prefixes, type Scene } from './scene.ts'
import { soundRequest } from './sound-request.ts'

/**
 * Two tenants of one installation. Every route of the document is asked by one of them, with every value that names
 * something taken from the other.
 */
const document: Document = JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8'))
const operations = operationsOf(document)

/** What a name stands for decides what another tenant is told. A name that is missing here fails the test. */
const meanings: Readonly<
  Record<string, 'callers' | 'ours' | 'installation' | 'word' | 'place' | 'of_workspace'>
> = {
  account_id: 'callers',
  workspace_id: 'callers',
  subscription_id: 'ours',
  invoice_id: 'ours',
  refund_id: 'ours',
  plan_id: 'installation',
  run_id: 'installation',
  model_id: 'installation',
  token_id: 'installation',
  job_id: 'installation',
  provider: 'installation',
  event_id: 'installation',
  // Two workspaces may use one name, each for a thing of its own.
  tracker_id: 'of_workspace',
  keyword: 'word',
  keywords: 'word',
  q: 'word',
  cursor: 'place',
}

/** Routes without a token; they know no tenant, and a new one has to be thought about. */
const openRoutes = [
  'GET /healthz',
  'GET /readyz',
  'GET /metrics',
  'POST /api/session',
  'POST /api/billing/webhook',
  'POST /api/billing/webhook/{provider}',
]

type Tenant = {
  readonly token: string
  readonly values: Readonly<Record<string, string>>
  /** Everything that only this tenant may see. */
  readonly secrets: readonly string[]
  readonly cursors: Readonly<Record<string, string>>
}

let world: World
let mine: Tenant
let theirs: Tenant
let watch: ChangeWatch

beforeAll(async () => {
  world = await openWorld({
    now: '2030-01-15T12:00:00Z',
    worker: true,
    environment: {
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: 'http://127.0.0.1:1',
      SERPAPI_WORKSPACE_BUDGET_PER_DAY: '10',
    },
  })
  await store(world, 'ws-mine', ranksOf('mine'))
  await store(world, 'ws-theirs', ranksOf('theirs'))
  const { model_id, run_id } = await run(world, 'train_classifier')
  await run(world, 'predict')
  mine = await settleIn('mine', { model_id, run_id })
  theirs = await settleIn('theirs', { model_id, run_id })
  watch = await watchChanges(world.app.pool)
})
afterAll(() => world.close())

test('every name in the document that stands for something is known to stand for something', () => {
  const names = operations.flatMap((operation) => namesIn(operation).map(({ name }) => name))
  const idLike = [...new Set(names)].filter((name) => /(_id|keywords?|cursor|^q)$/.test(name))
  expect(idLike.filter((name) => meanings[name] === undefined)).toEqual([])
  const inPaths = operations.flatMap(({ fields }) => fields.filter((field) => field.in === 'path'))
  expect(inPaths.filter(({ name }) => meanings[name] === undefined)).toEqual([])
})

test('only these routes are open to everybody', () => {
  expect(operations.filter(({ secured }) => !secured).map(({ name }) => name)).toEqual(openRoutes)
})

test.each(operations.map((operation) => [operation.name, operation] as const))(
  '%s shows and changes nothing of another tenant',
  async (_name, operation) => {
    const own = await askAs(mine, operation, mine.values)
    expectNothingOfTheirs(own, [])
    if (operation.secured) {
      // A request that is not understood would prove nothing about whose it is.
      expect(own.text).not.toContain('validation_failed')
      if (operation.scope === 'admin') expect([own.status, own.body.error.code]).toEqual([403, 'forbidden'])
      else expect(own.status).not.toBe(403)
    }
    for (const { name, where } of namesIn(operation)) {
      const value = name === 'cursor' ? theirs.cursors[operation.path] : theirs.values[name]
      if (value === undefined || meanings[name] === undefined) continue
      const answer = await askAs(mine, operation, { ...mine.values, [name]: value }, name)
      expectNothingOfTheirs(answer, [value])
      expect([name, answer.status]).toEqual([name, expect.toBeOneOf(rightStatuses(operation, name, where))])
    }
    const theirIds = theirs.secrets.filter((secret) => !secret.includes(' '))
    const touched = (await watch.changes()).filter(({ row }) => theirIds.some((id) => row.includes(id)))
    expect(touched).toEqual([])
  },
)

test('a key that another tenant used says nothing about what it was used for', async () => {
  const body = { account_id: 'acct-mine', plan_id: 'pro-monthly' }
  const headers = { 'idempotency-key': 'theirs-key' }
  const answer = await world.post('/api/billing/trial', body, { token: mine.token, headers })
  expect(answer.headers.get('idempotent-replayed')).toBeNull()
  expect(answer.status).not.toBe(422)
  expectNothingOfTheirs(answer, [])
})

/** Ids that callers make answer 403, ids that we make 404; a filter may also find nothing. */
function rightStatuses(operation: Operation, name: string, where: Place): number[] {
  if (operation.scope === 'admin') return [403]
  switch (meanings[name]!) {
    case 'callers':
      return [403]
    case 'ours':
      return where === 'query' ? [200, 404] : [404]
    case 'installation':
      return [200, 201, 202, 402, 409]
    case 'of_workspace':
      return operation.method === 'PUT' ? [200, 409] : [404]
    case 'word':
      if (operation.path.startsWith('/api/batch/trackers/')) return [200, 404, 409]
      return operation.path.endsWith('/keywords') || operation.method === 'POST' ? [200] : [200, 404]
    case 'place':
      return [200, 400]
  }
}

function expectNothingOfTheirs(answer: Answer, sentByUs: readonly string[]): void {
  const cursor = answer.body?.data?.next_cursor
  const text = answer.text + (cursor ? Buffer.from(cursor, 'base64url').toString() : '')
  const leaked = theirs.secrets.filter((secret) => text.includes(secret) && !sentByUs.includes(secret))
  expect(leaked).toEqual([])
}

type Place = 'path' | 'query' | 'body'

/** Every name in a request: of the path, the query, and at any depth of the body. */
function namesIn(operation: Operation): { name: string; where: Place }[] {
  const inBody = (schema: Operation['body']): string[] => [
    ...Object.entries(schema?.properties ?? {}).flatMap(([name, part]) => [name, ...inBody(part)]),
    ...(schema?.anyOf ?? []).flatMap(inBody),
    ...(schema?.items ? inBody(schema.items) : []),
  ]
  return [
    ...operation.fields.map(({ name, in: where }: Field) => ({ name, where })),
    ...[...new Set(inBody(operation.body))].map((name) => ({ name, where: 'body' as const })),
  ]
}

/** Asks as a tenant, with these values wherever their names stand; `named` is asked about even where it is optional. */
async function askAs(
  tenant: Tenant,
  operation: Operation,
  values: Readonly<Record<string, string>>,
  named?: string,
): Promise<Answer> {
  const scene = sceneOf(tenant)
  const draft = soundRequest(operation, seededRandom(7), scene, 0)
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name]!))
  const wanted = operation.fields.filter(
    ({ in: where, name, required }) => where === 'query' && (required || name === named),
  )
  const sound = new URLSearchParams(draft.query.join('&'))
  const query = wanted.map(
    ({ name }) => `${name}=${encodeURIComponent(values[name] ?? sound.get(name) ?? '')}`,
  )
  const body = operation.body && withValues(draft.json, operation.body, values, named)
  return world.ask(operation.method, `${path}${query.length > 0 ? `?${query.join('&')}` : ''}`, {
    token: operation.secured ? tenant.token : null,
    ...(body !== undefined && { body }),
  })
}

/** The sound body with these values at the names they belong to. */
function withValues(
  json: unknown,
  schema: NonNullable<Operation['body']>,
  values: Readonly<Record<string, string>>,
  named: string | undefined,
): unknown {
  if (Array.isArray(json)) return json.map((item) => withValues(item, schema.items ?? {}, values, named))
  if (typeof json !== 'object' || json === null) return json
  const names = new Set([
    ...Object.keys(json),
    ...(named !== undefined && schema.properties?.[named] ? [named] : []),
  ])
  return Object.fromEntries(
    [...names].map((name) => {
      const part = schema.properties?.[name] ?? {}
      const value = values[name]
      if (value === undefined)
        return [name, withValues((json as Record<string, unknown>)[name], part, values, named)]
      const isList = [part, ...(part.anyOf ?? [])].some(({ type }) => type === 'array')
      return [name, isList ? [value] : value]
    }),
  )
}

function sceneOf({ token, values, cursors }: Tenant): Scene {
  const idOf = {
    sub_: 'subscription_id',
    inv_: 'invoice_id',
    ref_: 'refund_id',
    run_: 'run_id',
    mdl_: 'model_id',
  }
  return {
    tokens: [token],
    workspaces: [values['workspace_id']!],
    weakTokens: [],
    accounts: [values['account_id']!],
    plans: ['starter-monthly'],
    keywords: [values['keyword']!],
    spareTokens: ['tok_0'],
    deadJobs: ['1'],
    today: '2030-01-15',
    webhookSecret: world.environment['WEBHOOK_SECRETS']!,
    hintSecret: '',
    ids: (prefix) => [values[idOf[prefix as keyof typeof idOf]] ?? 'pay_0'],
    cursorOf: (operation) => cursors[operation.split(' ')[1]!],
    learn() {},
  }
}

/** A tenant with a bit of everything, and all that may be known of it. */
async function settleIn(who: string, installation: Record<string, string>): Promise<Tenant> {
  const [account_id, workspace_id] = [`acct-${who}`, `ws-${who}`]
  const token = await world.makeToken({
    account: account_id,
    workspace: workspace_id,
    scopes: ['billing:write', 'billing:refund', 'batch:write'],
  })
  const ask = async (method: string, path: string, body?: object) => {
    const answer = await world.ask(method, path, {
      token,
      headers: { 'idempotency-key': `${who}-key` },
      ...(body && { body }),
    })
    if (answer.status >= 300) throw new Error(`${method} ${path} answered ${answer.status} ${answer.text}`)
    return answer
  }
  const customer = { email: `${who}@example.com`, name: `Person of ${who}` }
  const method = { billing_key: 'bk_test_ok' }
  const subscribed = await ask('POST', '/api/billing/subscribe', {
    account_id,
    plan_id: 'pro-monthly',
    payment_method: method,
    customer,
  })
  const { subscription_id } = subscribed.body.data
  const invoice_id = (await ask('GET', '/api/billing/invoices')).body.data.invoices[0].invoice_id
  const note = `note of ${who}`
  const { refund_id } = (await ask('POST', '/api/billing/refund', { invoice_id, amount: 123, note })).body
    .data
  await ask('POST', '/api/billing/cancel', { subscription_id, reason: `reason of ${who}` })
  await ask('POST', '/api/billing/resume', { subscription_id })

  const tracker_id = `tracker-${who}`
  await ask('PUT', `/api/batch/trackers/${tracker_id}`, {
    site: `${who}.example`,
    match: 'host',
    engine: 'google',
    device: 'mobile',
    location: 'KR',
    depth: 10,
    source: 'serpapi',
    every: 'day',
    // Long over today, so that nothing is checked meanwhile.
    window: { from: '01:00', to: '02:00' },
    keywords: 'all',
  })

  const keyword = `${who} shoes`
  const lists = ['invoices', 'events', 'subscriptions'].map((name) => `/api/billing/${name}`)
  const views = await Promise.all(
    [
      ...lists,
      '/api/billing/upcoming?until=2031-01-01T00:00:00Z',
      `/api/billing/subscriptions/${subscription_id}/timeline`,
      `/api/billing/accounts/${account_id}`,
      `/api/batch/ranks/${encodeURIComponent(keyword)}`,
      '/api/batch/keywords',
    ].map((path) => ask('GET', path)),
  )
  const paged = [...lists, '/api/batch/keywords', `/api/batch/ranks/${encodeURIComponent(keyword)}`]
  const cursors = await Promise.all(
    paged.map(async (path): Promise<[string, string]> => {
      const { next_cursor } = (await ask('GET', `${path}?limit=1`)).body.data
      return [path.replace(/ranks\/.*/, 'ranks/{keyword}'), next_cursor]
    }),
  )
  const text = views.map((view) => view.text).join()
  const personal = prefixes.filter((prefix) => prefix !== 'run_' && prefix !== 'mdl_')
  const ids = text.match(new RegExp(`\\b(?:${personal.join('|')})\\w{16,40}`, 'g')) ?? []
  return {
    token,
    values: {
      account_id,
      workspace_id,
      subscription_id,
      invoice_id,
      refund_id,
      tracker_id,
      plan_id: 'starter-monthly',
      keyword,
      // What is registered and removed is another word than the one that is looked up.
      keywords: `${who} word 3`,
      q: who,
      ...installation,
    },
    secrets: [
      ...new Set([
        ...ids,
        account_id,
        workspace_id,
        ...Object.values(customer),
        note,
        `reason of ${who}`,
        keyword,
        `https://${who}.example`,
        tracker_id,
      ]),
    ],
    cursors: Object.fromEntries(cursors.filter(([, cursor]) => cursor !== null)),
  }
}

/** A week of ranks that rise, hold and fall, on pages that tell whose they are. */
function ranksOf(who: string) {
  const words = [`${who} shoes`, ...Array.from({ length: 79 }, (_, at) => `${who} word ${at}`)]
  return words.flatMap((keyword, word) =>
    Array.from({ length: 8 }, (_, day) => ({
      keyword,
      day: `2030-01-${String(7 + day).padStart(2, '0')}`,
      status: 'ranked' as const,
      position: 100 + ((word * 7 + day * ((word % 3) - 1) * 30 + 300) % 300),
      searched_depth: 1000,
      url: `https://${who}.example/${word}`,
    })),
  )
}

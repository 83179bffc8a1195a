import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { naverSearchWire } from '../src/sandbox/sources/naver-search-wire.ts'
import { serpapiWire } from '../src/sandbox/sources/serpapi-wire.ts'
import { openSourceSandbox } from '../src/sandbox/sources/source-sandbox.ts'

/** Writes `docs/api.md` anew: every route with a request and the answer a running service really gave. */
const root = fileURLToPath(new URL('..', import.meta.url))
const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-docs-'))
const source = await openSourceSandbox({ wire: serpapiWire })
const datalab = await openSourceSandbox({ wire: naverSearchWire })
const service = spawn(process.execPath, [join(root, 'dist/main.js'), 'serve'], {
  env: {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    RANKLEDGER_DATA: dataDir,
    PORT: '0',
    SERPAPI_API_KEY: 'a-key-of-the-sandbox',
    SERPAPI_BASE_URL: source.url,
    NAVER_DATALAB_CLIENT_ID: 'an-id-of-the-sandbox',
    NAVER_DATALAB_CLIENT_SECRET: 'a-key-of-the-sandbox',
    NAVER_DATALAB_BASE_URL: datalab.url,
  },
  stdio: ['ignore', 'pipe', 'inherit'],
})

// biome-ignore lint/suspicious/noExplicitAny: the examples read what they need from real answers
type Json = any
const out: string[] = []
/** By operation, for the API document. */
const examples: Record<string, { body?: Json; status: number; answer?: Json }> = {}
let operations: { id: string; matches: (method: string, path: string) => boolean }[] = []
const formless = new Set(
  'metrics rivals gate checks calibration artifact environment algorithm label data done'.split(' '),
)
let base = ''
let token = ''

try {
  base = await listening()
  token = readFileSync(join(dataDir, 'token'), 'utf8').trim()
  operations = operationsOf(await (await fetch(`${base}/openapi.json`)).json())
  await writeDocument()
  writeFileSync(join(root, 'docs/api.md'), `${out.join('\n').trim()}\n`)
  const shown = Object.entries(examples).sort(([a], [b]) => (a < b ? -1 : 1))
  const lines = shown.map(([operation, example]) => `${JSON.stringify(operation)}:${JSON.stringify(example)}`)
  writeFileSync(join(root, 'assets/api-examples.json'), `{\n${lines.join(',\n')}\n}\n`)
  process.stdout.write(
    'docs/api.md and assets/api-examples.json are written; `npm run openapi` takes them up.\n',
  )
} finally {
  service.kill('SIGTERM')
  await new Promise((resolve) => service.on('exit', resolve))
  await source.close()
  await datalab.close()
  rmSync(dataDir, { recursive: true, force: true })
}

function listening(): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    service.stdout.on('data', (chunk) => {
      text += chunk
      const port = /"event":"service.started".*?"port":(\d+)/.exec(text)?.[1]
      if (port) resolve(`http://127.0.0.1:${port}`)
    })
    service.on('exit', () => reject(new Error(`the service did not start:\n${text}`)))
  })
}

function say(...lines: string[]): void {
  out.push(...lines, '')
}

type Shown = {
  headers?: Record<string, string>
  quiet?: boolean
  shorten?: (answer: Json) => Json
  raw?: string
}

/** Asks, shows request and answer, and hands the answer's data back. */
async function show(
  method: string,
  path: string,
  body?: Json,
  { headers = {}, quiet, shorten = (all) => all, raw }: Shown = {},
): Promise<Json> {
  const answer = await fetch(base + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined && raw === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(raw !== undefined ? { body: raw } : body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const type = answer.headers.get('content-type') ?? ''
  const bytes = Buffer.from(await answer.arrayBuffer())
  const json = type.includes('json') ? JSON.parse(bytes.toString('utf8')) : undefined
  if (!quiet) {
    const extra = Object.entries(headers)
      .filter(([name]) => name === 'idempotency-key')
      .map(([name, value]) => `${name}: ${value}`)
    const sent = raw ?? (body === undefined ? [] : JSON.stringify(body))
    say(
      '```http',
      `${method} ${decodeURI(path)}`,
      ...extra,
      ...[sent].flat().flatMap((text) => ['', text]),
      '```',
    )
    const shown =
      json === undefined ? `(${type}, ${bytes.length} bytes)` : JSON.stringify(shorten(json), null, 2)
    say(`→ ${answer.status}`, '', '```json', shown, '```')
    keepExample(method, path, body, answer.status, json)
  }
  return json?.data
}

/** The first success of each operation. What is secret is secret here too. */
function keepExample(method: string, path: string, body: Json, status: number, answer: Json): void {
  const [name] = path.split('?')
  const operation = operations.find((one) => one.matches(method, name!))
  if (!operation || status >= 300 || examples[operation.id]) return
  const data = answer && brief(answer.data)
  examples[operation.id] = {
    ...(body !== undefined && { body: brief(body) }),
    status,
    ...(answer && { answer: answer.data === undefined ? answer : { success: true, data } }),
  }
}

/** One item of every list, the beginning of what has no fixed form, four decimals, and no token. */
function brief(value: Json, name = '', within = false): Json {
  if (name === 'token') return 'rl_test_…'
  const open = within || formless.has(name)
  if (Array.isArray(value)) return open ? [] : value.slice(0, 1).map((one) => brief(one))
  // Nobody reads the sixteenth digit of an example.
  if (typeof value === 'number') return Math.round(value * 1e4) / 1e4
  if (typeof value !== 'object' || value === null) return value
  if (within) return {}
  const entries = Object.entries(value).slice(0, open ? 2 : undefined)
  return Object.fromEntries(entries.map(([inner, one]) => [inner, brief(one, inner, open)]))
}

/** What cannot be made to happen here: a job is dead only once all its attempts have failed. */
function keepDeadJobs(): void {
  const job = {
    job_id: '1042',
    name: 'work_run',
    status: 'waiting',
    attempts: 0,
    max_attempts: 25,
    last_error: null,
    run_at: '2026-11-15T09:00:00+09:00',
    updated_at: '2026-11-15T09:00:00+09:00',
  }
  examples['retryJob'] = { status: 200, answer: { success: true, data: job } }
  examples['discardJob'] = { status: 200, answer: { success: true, data: { ...job, status: 'discarded' } } }
}

function operationsOf(document: Json): typeof operations {
  return Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, { operationId }]) => {
      const pattern = new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`)
      return {
        id: operationId,
        matches: (asked: string, at: string) => asked.toLowerCase() === method && pattern.test(at),
      }
    }),
  )
}

function firstOf(name: string): (answer: Json) => Json {
  return (answer) => ({ ...answer, data: { ...answer.data, [name]: answer.data[name].slice(0, 1) } })
}

async function untilRunEnds(runId: string): Promise<void> {
  for (;;) {
    const run = await show('GET', `/api/batch/runs/${runId}`, undefined, { quiet: true })
    if (run.status !== 'queued' && run.status !== 'running') return
    await sleep(500)
  }
}

async function writeDocument(): Promise<void> {
  say(
    '# API',
    '',
    'Every answer here was given by a running service; `npm run api-docs` writes this page anew. `/docs` of your own service lets you',
    'browse the schemas, and `openapi.json` holds them for programs.',
  )
  conventions()
  await billing()
  await batch()
  await installation()
  await sandbox()
  say(
    '## Operations',
    '',
    '`GET /healthz` (alive), `GET /readyz` (may take traffic), `GET /metrics` (Prometheus; while `HOST` is loopback, else on `METRICS_PORT`), `GET /openapi.json`, `GET /docs`.',
  )
  await show('GET', '/healthz')
  await show('GET', '/readyz')
}

function conventions(): void {
  say(
    '## Conventions',
    '',
    '- `Authorization: Bearer <token>` on every route under `/api` but webhooks, hints and signing in; a cookie of the console does as well. Scopes: `billing:read billing:write billing:refund',
    '  batch:read batch:write admin`; GET needs read, a refund `billing:refund`, the rest write; write includes read, admin includes all.',
    '- What concerns the whole installation (`admin`: changing plans, storing volumes, models put to use or out of it, stored notifications, reconciliations, sandbox, tokens, audit, jobs) needs a token bound to all workspaces and accounts.',
    '- A process works 64 requests of one token and scope at a time (`TOKEN_CONCURRENCY`); 512 more wait their turn; beyond that, and above 6,000',
    '  billing requests a minute per token (`BILLING_RATE`), 429 `rate_limited` with `Retry-After`. Bodies above 64 KiB and long pages are worked one at a time per token while other tokens ask.',
    '- Bodies come as they are: a `Content-Encoding` is 415. Names hold no control characters and no marks of writing direction.',
    '- Success: `{"success": true, "data": {…}}`. Error: `{"success": false, "error": {code, message, request_id, details?}}`.',
    '- Lists take `limit` (1–100, default 20; ranks of one keyword 1–1,000, default 1,000) and `cursor`, and answer `next_cursor`, null at the end.',
    "- `amount` is an integer of the currency's minor unit (9900 KRW is ₩9,900; 1900 USD is $19.00).",
    '- Times go out with a numeric offset, in the zone of the account where there is one; they come in with any offset.',
    '- `Idempotency-Key` on subscribe, cancel, resume, refund, trial, setup and payment-method makes retries safe for 30 days: the same bytes come',
    '  back with `Idempotent-Replayed: true`; another body under the same key is 422; while the first still runs, 409. A key that has',
    '  answered 202 keeps whatever comes last, and never begins anew. Once the account is erased, a repeat answers 410 `answer_erased`,',
    '  which tells the first status and the id of what was done.',
    '- Unknown body fields are refused (400), as are bodies over 256 KiB (413; ranks and volumes 2 MiB, webhook 64 KiB).',
    '- Batch routes accept 100 requests in any 60 seconds per workspace; then 429 with `Retry-After`. `RateLimit` and `RateLimit-Policy` tell',
    '  how many are left.',
    '- With a read replica (`DATABASE_URL_READ`), lists and lookups may lag some seconds. Answers to writes carry `X-Write-Position`; sent back',
    '  with a read, that read is no older than the write.',
  )
}

async function billing(): Promise<void> {
  say('## Billing')
  say('### Plans')
  await show('GET', '/api/billing/plans', undefined, { shorten: firstOf('plans') })
  await show('GET', '/api/billing/plans/pro-monthly')
  say('`PUT` needs the scope `admin`. A running subscription keeps the terms it started with.')
  await show('PUT', '/api/billing/plans/team-monthly', {
    name: 'Team, monthly',
    amount: 59000,
    currency: 'KRW',
    interval: 'month',
    interval_count: 1,
    trial_days: 14,
    active: true,
  })

  say(
    '### Subscribe',
    '',
    'Charges the first period at once. `payment_method` is a `billing_key`, or `auth_key` with `customer_key` fresh from the browser.',
    'Declined is 402; an answer the provider never gave is 202 with `incomplete`, and settles by itself.',
  )
  const subscribe = {
    account_id: 'acct_1',
    plan_id: 'pro-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
    timezone: 'Asia/Seoul',
    customer: { email: 'billing@example.com', name: '홍길동' },
  }
  const headers = { 'idempotency-key': '"order-1"' }
  const subscription = await show('POST', '/api/billing/subscribe', subscribe, { headers })
  await show('POST', '/api/billing/subscribe', {
    ...subscribe,
    account_id: 'acct_2',
    payment_method: { billing_key: 'bk_test_insufficient_funds' },
  })

  say(
    '### Trial',
    '',
    'One per account, for ever. No payment method needed; subscribing during the trial adds one and keeps the trial end.',
  )
  await show('POST', '/api/billing/trial', { account_id: 'acct_3', plan_id: 'starter-monthly' })
  await show('POST', '/api/billing/trial', { account_id: 'acct_3', plan_id: 'starter-monthly' })

  say(
    '### Cancel and resume',
    '',
    'A cancellation runs one minute before the next billing date; until then it can be taken back.',
  )
  const id = subscription.subscription_id
  await show('POST', '/api/billing/cancel', { subscription_id: id, reason: 'moving on' })
  await show(
    'POST',
    '/api/billing/resume',
    { subscription_id: id },
    {
      shorten: ({ success, data }) => ({
        success,
        data: { subscription_id: data.subscription_id, status: data.status, cancel_at: data.cancel_at },
      }),
    },
  )

  say(
    '### Collect a card',
    '',
    "Prepares the collecting of a card in the browser: `client` is what the provider's own SDK needs, and its result goes into",
    '`payment_method` of subscribe and payment-method. [providers.md](providers.md) shows the lines of browser code. A customer key',
    'is taken from the account it was given to only.',
  )
  await show('POST', '/api/billing/setup', { account_id: 'acct_1' })

  say(
    '### Change the payment method',
    '',
    'If a renewal has failed, the open invoice is charged at once with the new payment method.',
  )
  await show(
    'POST',
    '/api/billing/payment-method',
    { subscription_id: id, payment_method: { billing_key: 'bk_test_slow' } },
    {
      shorten: ({ success, data }) => ({
        success,
        data: {
          subscription_id: data.subscription_id,
          status: data.status,
          payment_method: data.payment_method,
        },
      }),
    },
  )

  say('### Subscriptions')
  await show('GET', '/api/billing/subscriptions?account_id=acct_1', undefined, {
    shorten: firstOf('subscriptions'),
  })
  await show('GET', `/api/billing/subscriptions/${id}`)
  say('The timeline tells every fact that led here, and what happens next and when.')
  await show('GET', `/api/billing/subscriptions/${id}/timeline`)

  say('### Invoices')
  await show('GET', '/api/billing/invoices?account_id=acct_1&limit=1')
  const [invoice] = (await show('GET', '/api/billing/invoices?account_id=acct_1', undefined, { quiet: true }))
    .invoices
  await show('GET', `/api/billing/invoices/${invoice.invoice_id}`)
  await show('GET', `/api/billing/invoices/${invoice.invoice_id}.pdf`)

  say(
    '### Refund',
    '',
    'All that remains, or `amount`. 202 with `pending` while the provider has not answered.',
  )
  const refund = await show('POST', '/api/billing/refund', {
    invoice_id: invoice.invoice_id,
    amount: 9000,
    reason: 'requested_by_customer',
  })
  await show('GET', `/api/billing/refunds/${refund.refund_id}`)
  await show('POST', '/api/billing/refund', { invoice_id: invoice.invoice_id, amount: 29000 })

  say(
    '### Accounts',
    '',
    '`DELETE` erases contact data, payment method, reasons and notes; money and the trial stay. 409 while a subscription lives.',
  )
  await show('GET', '/api/billing/accounts?q=acct_1')
  await show('GET', '/api/billing/accounts/acct_1')
  await show('PUT', '/api/billing/accounts/acct_1', {
    timezone: 'Europe/Berlin',
    customer: { email: 'new@example.com' },
  })
  await show('DELETE', '/api/billing/accounts/acct_2')

  say('### What is coming, and what happened')
  await show('GET', '/api/billing/upcoming?until=2027-06-01T00:00:00Z', undefined, {
    shorten: firstOf('charges'),
  })
  await show('GET', '/api/billing/events?account_id=acct_1&limit=2')

  say(
    '### Webhook',
    '',
    'The provider calls this. The sandbox and PortOne sign by Standard Webhooks; the HMAC-SHA256 over `{webhook-id}.{webhook-timestamp}.{body}` is',
    'checked before anything is read. What it says is only a hint: the payment is read back from the provider.',
  )
  const raw = JSON.stringify({
    type: 'payment.paid',
    timestamp: new Date().toISOString(),
    data: { reference: invoice.payments[0].payment_id },
  })
  await show('POST', '/api/billing/webhook', undefined, { raw, headers: signed(raw) })
  await show('POST', '/api/billing/webhook', undefined, {
    raw,
    headers: { ...signed(raw), 'webhook-signature': 'v1,AAAA' },
  })
  say(
    'Where several providers are in use, the secret that verifies tells whose a notification is; `POST /api/billing/webhook/{provider}` takes those of one.',
    '',
  )
  await show('POST', '/api/billing/webhook/sandbox', undefined, { raw, headers: signed(raw) })
  say('What came is kept, with what became of it; scope `admin`.')
  await show('GET', '/api/billing/webhooks?limit=1')
  await show('POST', '/api/billing/webhooks/evt_none/replay')
  examples['replayWebhook'] = {
    status: 202,
    answer: { success: true, data: { event_id: 'evt_1', queued: true } },
  }
  say(
    '`POST /api/billing/hints/{secret}` takes unsigned notifications (Toss) as a hint to re-read a payment; it exists only if `HINT_SECRET` is set.',
  )
}

function signed(body: string): Record<string, string> {
  const secret = readFileSync(join(dataDir, 'webhook-secret'), 'utf8').trim()
  const [id, timestamp] = ['msg_docs_1', String(Math.floor(Date.now() / 1000))]
  const signature = createHmac('sha256', Buffer.from(secret.slice(6), 'base64'))
    .update(`${id}.${timestamp}.${body}`)
    .digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}

async function batch(): Promise<void> {
  say('### How it stands', '', 'What the console shows first, and what a comparison of both books found.')
  await show('GET', '/api/billing/summary')
  await show('POST', '/api/billing/reconciliations', {
    from: '2026-01-01T00:00:00Z',
    to: '2026-02-01T00:00:00Z',
  })
  await show('GET', '/api/billing/reconciliations')
  say('## Batch')
  say(
    '### Keywords',
    '',
    'A keyword is compared by a folded form (width, case, white space, `ß`), and shown as it was first written. All entries are acceptable,',
    'or nothing is written and `details` names each bad one.',
  )
  await show('POST', '/api/batch/keywords', {
    workspace_id: 'ws_1',
    keywords: ['running shoes', '나이키 운동화', 'Running  Shoes'],
  })
  await show('POST', '/api/batch/keywords', { workspace_id: 'ws_1', keywords: ['fine', '👟', '   '] })
  say(
    'With `days` (up to 92) each keyword comes with its ranks, 40,000 in a page: it ends before the keyword whose ranks no longer fit, and `next_cursor`',
    'goes on there. Of a keyword that alone has more, the newest 40,000 are told; `GET /api/batch/ranks/{keyword}` tells all.',
  )
  await show('GET', '/api/batch/keywords?workspace_id=ws_1&q=run&days=30')
  await show('DELETE', '/api/batch/keywords', { workspace_id: 'ws_1', keywords: ['나이키 운동화'] })

  const today = new Date().toISOString().slice(0, 10)
  say(
    '### Ranks',
    '',
    'One row per keyword, engine, device, location and day; a later `checked_at` wins; a failed check never replaces a good one.',
  )
  await show('POST', '/api/batch/ranks', {
    workspace_id: 'ws_1',
    observations: [
      {
        keyword: 'running shoes',
        day: today,
        status: 'ranked',
        position: 7,
        url: 'https://shop.example/running',
      },
      { keyword: 'never registered', day: today, status: 'not_in_depth' },
    ],
  })
  say('`best` tells the best place ever of each series; of more than 1,000, of those that were ranked last.')
  await show('GET', `/api/batch/ranks/running%20shoes?workspace_id=ws_1&from=${today}&to=${today}`)

  say(
    '### Volumes',
    '',
    'Observations (scope `admin`) become monthly volumes by the daily job: a `month` as reported; `day`s summed, and scaled to the month where some',
    'are missing; `rolling_30d` windows spread over their days. "Fewer than 10" is `volume_max: 9`: the month then has bounds and no invented number.',
  )
  await show('POST', '/api/batch/volumes', {
    observations: [
      { keyword: 'running shoes', source: 'naver', kind: 'month', day: '2026-09-30', volume: 12100 },
      { keyword: 'running shoes', source: 'naver', kind: 'month', day: '2026-10-31', volume: 13400 },
    ],
  })
  const aggregation = await show('POST', '/api/batch/trigger', { task: 'aggregate_volumes' })
  await untilRunEnds(aggregation.run_id)
  await show('GET', '/api/batch/volumes/running%20shoes?from=2026-01&to=2026-12')

  say(
    '### Trends',
    '',
    'How searches went over three years, from Naver DataLab, asked for once a month (task `collect_volumes`) where its keys are set. A value is a ratio of',
    'the highest in the same answer: it has no unit, and values of two keywords, or of two answers about one, cannot be compared. Months of which',
    'nothing is told are missing, and are not zero. The next answer takes the place of the whole series. Nothing stored: 404 `trend_not_found`.',
  )
  const collection = await show('POST', '/api/batch/trigger', { task: 'collect_volumes' }, { quiet: true })
  await untilRunEnds(collection.run_id)
  await show('GET', '/api/batch/trends/running%20shoes', undefined, {
    shorten: (all) => ({ ...all, data: { ...all.data, values: all.data.values.slice(-2) } }),
  })

  say(
    '### Training and predictions',
    '',
    'Training needs 1,000 rows of rank history. It runs at 03:30 by itself (`SCHEDULE_TRAINING`), or now. It learns from days that are over; data that',
    'the active model of this release has seen train nothing (`metrics.decision` is `unchanged`). Tokens bound to a workspace may start one training',
    'an hour, all of them together: then 429 with `Retry-After`. Of more than two million usable ranks a sample of the keywords is read; the `data` of a',
    'model says how many (`rows` of `rows_stored`). [The model card](model.md) says what the figures mean.',
  )
  await show('POST', '/api/batch/trigger', { task: 'train_classifier' })
  await fillWithDemo()
  const training = await show('POST', '/api/batch/trigger', { task: 'train_classifier' })
  await untilRunEnds(training.run_id)
  await show('GET', `/api/batch/runs/${training.run_id}`)
  await show('GET', '/api/batch/runs?limit=1')
  await show('GET', '/api/batch/models', undefined, {
    shorten: (answer) => ({
      ...answer,
      data: {
        models: answer.data.models.map(({ model_id, status, algorithm }: Json) => ({
          model_id,
          status,
          algorithm,
        })),
      },
    }),
  })
  const [model] = (await show('GET', '/api/batch/models', undefined, { quiet: true })).models
  await show('GET', `/api/batch/models/${model.model_id}`)
  const shortModel = {
    shorten: (all: Json) => ({ ...all, data: { model_id: all.data.model_id, status: all.data.status } }),
  }
  await show('POST', `/api/batch/models/${model.model_id}/retire`, undefined, shortModel)
  await show('POST', `/api/batch/models/${model.model_id}/activate`, undefined, shortModel)
  await show('GET', '/api/batch/summary?workspace_id=demo', undefined, {
    shorten: (all: Json) => ({
      ...all,
      data: {
        ...all.data,
        last_runs: all.data.last_runs.slice(0, 1),
        active_model: shortModel.shorten({ data: all.data.active_model }).data,
      },
    }),
  })
  const scoring = await show('POST', '/api/batch/trigger', { task: 'predict' }, { quiet: true })
  await untilRunEnds(scoring.run_id)
  const [{ keyword }] = (
    await show('GET', '/api/batch/keywords?workspace_id=demo&limit=1', undefined, { quiet: true })
  ).keywords
  say(
    'Every series (engine, device, location) is predicted. Without naming one, the series with the most usable days speaks. `moved_by` names the',
    'features that moved it most: parts of the score of the predicted class above the mean of all.',
  )
  await show('GET', `/api/batch/predictions/${encodeURIComponent(keyword)}?workspace_id=demo`)
  say('What was said, and what came true once the horizon had passed, is kept for 400 days:')
  await show('GET', `/api/batch/predictions/${encodeURIComponent(keyword)}/history?workspace_id=demo`)

  say('### Trackers and sources')
  await show('PUT', '/api/batch/trackers/main', {
    workspace_id: 'demo',
    site: 'example.com',
    match: 'host',
    engine: 'google',
    device: 'mobile',
    location: 'KR',
    depth: 20,
    source: 'serpapi',
    every: 'day',
    window: { from: '01:00', to: '06:00', zone: 'Asia/Seoul' },
    keywords: 'all',
    budget_per_day: 500,
  })
  await show('GET', '/api/batch/trackers?workspace_id=demo')
  await show('GET', '/api/batch/trackers/main?workspace_id=demo')
  await show('POST', '/api/batch/trackers/main/check', {
    workspace_id: 'demo',
    keywords: [keyword],
    dry_run: true,
  })
  await show('DELETE', '/api/batch/trackers/main?workspace_id=demo')
  await show('GET', '/api/batch/sources')
  await show('GET', '/api/batch/movements?workspace_id=demo&limit=2')
}

async function fillWithDemo(): Promise<void> {
  const demo = spawn(process.execPath, [join(root, 'dist/main.js'), 'demo', '--batch'], {
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      RANKLEDGER_DATA: dataDir,
      PORT: new URL(base).port,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const code = await new Promise((resolve) => demo.on('exit', resolve))
  if (code !== 0) throw new Error('demo --batch failed')
}

async function installation(): Promise<void> {
  say(
    '## Sessions',
    '',
    'How a browser signs in: the cookie lasts 12 hours and ends with its token. With it every route answers as with that token; anything but `GET` needs `X-Console: 1` from the same origin, else 403 `cross_site`.',
  )
  await show('POST', '/api/session', { token: 'rl_test_…' })
  const session = await show('POST', '/api/session', { token }, { quiet: true })
  examples['signIn'] = {
    body: { token: 'rl_test_…' },
    status: 201,
    answer: { success: true, data: brief(session) },
  }
  await show('GET', '/api/session')
  await show('DELETE', '/api/session')
  say('## Installation', '', 'Scope `admin`, for tokens bound to all workspaces and accounts.')
  say(
    '### Tokens',
    '',
    'A token stands in the answer that makes it and nowhere else. `admin` is for all only.',
  )
  const hidden = (answer: Json) => ({ ...answer, data: { ...answer.data, token: 'rl_test_…' } })
  const asked = { name: 'dashboard', scopes: ['batch:read'], workspace: 'ws_1', expires_in: 'P90D' }
  const made = await show('POST', '/api/tokens', asked, { shorten: hidden })
  await show('GET', '/api/tokens?limit=1')
  await show('DELETE', '/api/tokens', { token_id: made.token_id })
  const other = await show('POST', '/api/tokens', asked, { quiet: true })
  await show('DELETE', `/api/tokens/${other.token_id}`)
  say(
    '### Audit',
    '',
    'Filters: `actor action account_id target from to`. Reads of personal data are noted once a minute per reader.',
  )
  await show('GET', '/api/audit?limit=2')
  say('### Jobs', '', '`status` is waiting, running or dead. Only a dead job can be retried or discarded.')
  await show('GET', '/api/jobs?status=dead')
  await show('POST', '/api/jobs/1/retry')
  await show('POST', '/api/jobs/1/discard')
  keepDeadJobs()
}

async function sandbox(): Promise<void> {
  say('## Sandbox', '', 'Sandbox mode only, scope `admin`.')
  say(
    '### Clock',
    '',
    'Time only goes forward, and ticks on. A move stops at every due instant and does what falls due there.',
  )
  await show('GET', '/api/sandbox/clock')
  await show('POST', '/api/sandbox/clock', { advance_by: 'P1M' })
  say("### The provider's own book, and its faults")
  const book = await show('GET', '/api/sandbox/provider/payments?limit=1')
  await show('POST', '/api/sandbox/provider/faults', {})
  await show('GET', '/api/sandbox/provider/faults')
  say('### Demo data', '', 'As `rankledger demo` makes it. `GET` tells how far it is.')
  await show('POST', '/api/sandbox/demo', { parts: ['batch'] })
  await show('GET', '/api/sandbox/demo')
  say('### Disputes', '', 'The bank opens one; `status: "won"` or `"lost"` decides it.')
  await show('POST', '/api/sandbox/provider/disputes', {
    reference: book.payments[0].reference,
    status: 'open',
  })
}

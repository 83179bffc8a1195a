import { signStandardWebhook } from '../sign-webhook.ts'
import { type Random, seededRandom } from '../simulation/random.ts'
import { type Arrivals, arrive } from './arrivals.ts'
import { type Answer, type Call, type Client, dataOf } from './client.ts'

export type TrafficOptions = {
  readonly client: Client
  readonly webhookSecret: string
  readonly seed: number
  /** Things that somebody does; most of them are one to three requests. */
  readonly perSecond: number
}

/**
 * Customers and collectors as they come in real life: people subscribe, cancel, ask for refunds and look at invoices,
 * collectors post ranks and volumes. They come at a steady pace, and their number stays about the same however long it
 * goes on.
 */
export function startTraffic({ client, webhookSecret, seed, perSecond }: TrafficOptions): Arrivals {
  const random = seededRandom(seed)
  let made = 0
  const town: Town = {
    random,
    customers: [],
    leavers: [],
    newName: (kind) => `${kind}_${++made}`,
    newKey: () => `key-${++made}`,
    ask: (route, call) => client.ask(route, call),
    webhookSecret,
  }
  const weights = Object.fromEntries(Object.entries(steps).map(([name, [weight]]) => [name, weight]))
  return arrive(1000 / perSecond, () => steps[random.weighted(weights)]![1](town))
}

type Customer = { accountId: string; subscriptionId: string }

/** What the steps share. */
type Town = {
  readonly random: Random
  readonly customers: Customer[]
  /** Who canceled, or never meant to stay. */
  readonly leavers: Customer[]
  newName(kind: string): string
  newKey(): string
  ask(route: string, call: Call): Promise<Answer>
  readonly webhookSecret: string
}

const mostCustomers = 100
// Enough for the limiter to let everybody in, and few enough words and days for the tables to be full in minutes:
// a service that holds more because it is told more says nothing about what it forgets to let go.
const workspaces = 300
const collectors = 20
const words = [
  'running shoes',
  '나이키 운동화',
  'trail map',
  'ブーツ',
  'kayak',
  '등산화',
  'tent',
  'winter coat',
]
const days = 7

const customerOf = ({ customers, random }: Town) =>
  customers.length === 0 ? undefined : random.pick(customers)
const workspaceOf = ({ random }: Town) => `ws_${random.between(1, workspaces)}`
const collectorOf = ({ random }: Town) => `collector_${random.between(1, collectors)}`
const wordOf = ({ random }: Town) => `${random.pick(words)} ${random.between(1, 3)}`
const dayOf = ({ random }: Town) =>
  new Date(Date.now() - random.between(1, days) * 86_400_000).toISOString().slice(0, 10)
const keyed = (town: Town) => ({ 'idempotency-key': town.newKey() })
const counted = (workspace: string) => ({ 'x-workspace-id': workspace })

const cards = {
  bk_test_ok: 20,
  bk_test_insufficient_funds: 1,
  bk_test_stolen: 1,
  bk_test_fails_on_renewal: 3,
  bk_test_refund_fails: 1,
} as const

async function subscribe(town: Town): Promise<void> {
  const body = {
    account_id: town.newName('acct'),
    plan_id: town.random.pick(['starter-monthly', 'pro-monthly', 'pro-yearly', 'global-monthly']),
    payment_method: { billing_key: town.random.weighted(cards) },
    timezone: town.random.pick(['Asia/Seoul', 'Europe/Berlin', 'America/New_York']),
    customer: { email: `${town.newName('mail')}@example.com` },
  }
  const call = { body, headers: keyed(town), expect: [201, 202, 402] }
  const answer = await town.ask('POST /api/billing/subscribe', call)
  const { subscription_id: subscriptionId } = dataOf(answer)
  if (subscriptionId !== undefined) await welcome(town, { accountId: body.account_id, subscriptionId })
  // Some clients do not trust the first answer.
  if (town.random.chance(0.1)) await town.ask('POST /api/billing/subscribe', call)
}

/** Who comes when the town is full takes the place of the one who has been there longest. */
async function welcome(town: Town, customer: Customer): Promise<void> {
  town.customers.push(customer)
  if (town.customers.length <= mostCustomers) return
  const leaver = town.customers.shift()!
  await town.ask('POST /api/billing/cancel', {
    body: { subscription_id: leaver.subscriptionId, reason: 'Moved away' },
    headers: keyed(town),
    expect: [200, 409],
  })
  town.leavers.push(leaver)
}

async function tryOut(town: Town): Promise<void> {
  const accountId = town.newName('trial')
  const call = { body: { account_id: accountId, plan_id: 'pro-monthly' }, expect: [201] }
  const answer = await town.ask('POST /api/billing/trial', { ...call, headers: keyed(town) })
  const { subscription_id: subscriptionId } = dataOf(answer)
  if (town.random.chance(0.3))
    await town.ask('POST /api/billing/trial', { ...call, headers: keyed(town), expect: [409] })
  if (subscriptionId === undefined) return
  if (town.random.chance(0.5)) await welcome(town, { accountId, subscriptionId })
  else town.leavers.push({ accountId, subscriptionId })
}

async function changeMind(town: Town): Promise<void> {
  const customer = customerOf(town)
  if (!customer) return
  const body = { subscription_id: customer.subscriptionId }
  await town.ask('POST /api/billing/cancel', { body, headers: keyed(town), expect: [200, 409] })
  await town.ask('POST /api/billing/resume', { body, headers: keyed(town), expect: [200, 409] })
}

async function changeCard(town: Town): Promise<void> {
  const customer = customerOf(town)
  if (!customer) return
  const payment_method = town.random.chance(0.5)
    ? { billing_key: 'bk_test_ok' }
    : { auth_key: 'ak_test_ok', customer_key: customer.accountId }
  await town.ask('POST /api/billing/payment-method', {
    body: { subscription_id: customer.subscriptionId, payment_method },
    headers: keyed(town),
    expect: [200, 202, 402, 409],
  })
}

async function askMoneyBack(town: Town): Promise<void> {
  const invoiceId = await lookAtInvoices(town)
  if (invoiceId === undefined) return
  const answer = await town.ask('POST /api/billing/refund', {
    body: { invoice_id: invoiceId, amount: 100, reason: 'requested_by_customer' },
    headers: keyed(town),
    expect: [200, 202, 402, 409, 422],
  })
  const { refund_id: refundId } = dataOf(answer)
  if (refundId !== undefined)
    await town.ask('GET /api/billing/refunds/{refund_id}', { at: [refundId], expect: [200] })
}

async function lookAtInvoices(town: Town): Promise<string | undefined> {
  const customer = customerOf(town)
  if (!customer) return undefined
  const query = { account_id: customer.accountId }
  const answer = await town.ask('GET /api/billing/invoices', { query, expect: [200] })
  return dataOf(answer).invoices?.[0]?.invoice_id
}

async function readInvoice(town: Town): Promise<void> {
  const invoiceId = await lookAtInvoices(town)
  if (invoiceId === undefined) return
  await town.ask('GET /api/billing/invoices/{invoice_id}', { at: [invoiceId], expect: [200] })
  if (town.random.chance(0.3))
    await town.ask('GET /api/billing/invoices/{invoice_id}.pdf', { at: [invoiceId], expect: [200] })
}

async function readSubscription(town: Town): Promise<void> {
  const customer = customerOf(town)
  if (!customer) return
  const at = [customer.subscriptionId]
  await town.ask('GET /api/billing/subscriptions/{subscription_id}', { at, expect: [200] })
  await town.ask('GET /api/billing/subscriptions/{subscription_id}/timeline', { at, expect: [200] })
}

async function readBilling(town: Town): Promise<void> {
  const { now } = dataOf(await town.ask('GET /api/sandbox/clock', { expect: [200] }))
  if (now === undefined) return
  const until = new Date(Date.parse(now) + 40 * 86_400_000).toISOString()
  const [route, query] = town.random.pick<[string, Record<string, string>]>([
    ['GET /api/billing/subscriptions', { status: 'active' }],
    ['GET /api/billing/upcoming', { until }],
    ['GET /api/billing/events', { limit: '50' }],
    ['GET /api/billing/plans', {}],
  ])
  await town.ask(route, { query, expect: [200] })
  await town.ask('GET /api/billing/plans/{plan_id}', { at: ['pro-monthly'], expect: [200] })
}

async function keepAccount(town: Town): Promise<void> {
  const customer = customerOf(town)
  if (!customer) return
  const at = [customer.accountId]
  await town.ask('PUT /api/billing/accounts/{account_id}', {
    at,
    body: { timezone: 'Asia/Tokyo', customer: { name: 'Kim' } },
    expect: [200],
  })
  await town.ask('GET /api/billing/accounts/{account_id}', { at, expect: [200] })
}

async function eraseLeaver(town: Town): Promise<void> {
  const leaver = town.leavers.shift()
  if (!leaver) return
  const at = [leaver.accountId]
  await town.ask('DELETE /api/billing/accounts/{account_id}', { at, expect: [200, 409] })
}

async function notify(town: Town): Promise<void> {
  const reference = town.newName('pay')
  const type = town.random.pick(['payment.paid', 'payment.declined', 'something.else'])
  const body = Buffer.from(JSON.stringify({ type, timestamp: new Date().toISOString(), data: { reference } }))
  const headers = signStandardWebhook(town.webhookSecret, town.newName('evt'), body, new Date())
  await town.ask('POST /api/billing/webhook', { body, headers, expect: [200] })
  if (town.random.chance(0.3)) await town.ask('POST /api/billing/webhook', { body, headers, expect: [200] })
  if (town.random.chance(0.1)) {
    const forged = { ...headers, 'webhook-id': 'evt_forged' }
    await town.ask('POST /api/billing/webhook', { body, headers: forged, expect: [401] })
  }
}

async function collectRanks(town: Town): Promise<void> {
  const workspace_id = collectorOf(town)
  const keywords = Array.from({ length: 20 }, () => wordOf(town))
  await town.ask('POST /api/batch/keywords', { body: { workspace_id, keywords }, expect: [200] })
  const observations = keywords.map((keyword) => ({
    keyword,
    day: dayOf(town),
    status: 'ranked',
    position: town.random.between(1, 100),
  }))
  await town.ask('POST /api/batch/ranks', { body: { workspace_id, observations }, expect: [200] })
}

async function readRanks(town: Town): Promise<void> {
  const workspace_id = collectorOf(town)
  const keyword = wordOf(town)
  const query = { workspace_id }
  await town.ask('GET /api/batch/keywords', { query, expect: [200] })
  await town.ask('GET /api/batch/ranks/{keyword}', { at: [keyword], query, expect: [200, 404] })
  await town.ask('GET /api/batch/predictions/{keyword}', { at: [keyword], query, expect: [200, 404] })
}

async function dropKeywords(town: Town): Promise<void> {
  const body = { workspace_id: collectorOf(town), keywords: [wordOf(town)] }
  await town.ask('DELETE /api/batch/keywords', { body, expect: [200] })
}

async function collectVolumes(town: Town): Promise<void> {
  const observations = Array.from({ length: 20 }, () => ({
    keyword: wordOf(town),
    source: 'naver',
    kind: 'day',
    day: dayOf(town),
    volume: town.random.between(0, 10_000),
  }))
  await town.ask('POST /api/batch/volumes', {
    body: { observations },
    headers: counted(workspaceOf(town)),
    expect: [200],
  })
}

async function readVolumes(town: Town): Promise<void> {
  const query = { workspace_id: workspaceOf(town) }
  await town.ask('GET /api/batch/volumes/{keyword}', { at: [wordOf(town)], query, expect: [200, 404] })
}

async function readRuns(town: Town): Promise<void> {
  const query = { workspace_id: workspaceOf(town) }
  const [run] = dataOf(await town.ask('GET /api/batch/runs', { query, expect: [200] })).runs ?? []
  if (run) await town.ask('GET /api/batch/runs/{run_id}', { at: [run.run_id], query, expect: [200] })
  const [model] = dataOf(await town.ask('GET /api/batch/models', { query, expect: [200] })).models ?? []
  if (model)
    await town.ask('GET /api/batch/models/{model_id}', { at: [model.model_id], query, expect: [200] })
}

/** Requests that are wrong, by mistake or on purpose: each is told so, and none of them costs the service anything. */
async function bungle(town: Town): Promise<void> {
  const workspace_id = workspaceOf(town)
  const emoji = { workspace_id, keywords: ['👟'] }
  await town.random.pick([
    () => town.ask('POST /api/batch/keywords', { body: emoji, expect: [400] }),
    () =>
      town.ask('POST /api/batch/keywords', {
        body: Buffer.from('{"workspace_id":'),
        headers: counted(workspace_id),
        expect: [400, 429],
      }),
    () => town.ask('GET /api/billing/plans', { headers: { authorization: 'Bearer nobody' }, expect: [401] }),
    () => town.ask('GET /api/billing/refunds/{refund_id}', { at: ['ref_none'], expect: [404] }),
    () => town.ask('POST /api/batch/trigger', { body: { task: 'dance', workspace_id }, expect: [400] }),
  ])()
}

async function operate(town: Town): Promise<void> {
  await town.random.pick([
    () => town.ask('GET /healthz', { expect: [200] }),
    () => town.ask('GET /metrics', { expect: [200] }),
    () => town.ask('GET /api/sandbox/provider/payments', { expect: [200] }),
    () => town.ask('POST /api/sandbox/provider/faults', { body: {}, expect: [200] }),
    () =>
      town.ask('PUT /api/billing/plans/{plan_id}', {
        at: ['weekly'],
        body: { name: 'Weekly', amount: 2900, currency: 'KRW', interval: 'week' },
        expect: [200, 201],
      }),
  ])()
}

/** What people do, and how often. */
const steps: Record<string, [weight: number, run: (town: Town) => Promise<void>]> = {
  subscribe: [2, subscribe],
  tryOut: [1, tryOut],
  changeMind: [2, changeMind],
  changeCard: [1, changeCard],
  askMoneyBack: [4, askMoneyBack],
  readInvoice: [6, readInvoice],
  readSubscription: [5, readSubscription],
  readBilling: [5, readBilling],
  keepAccount: [2, keepAccount],
  eraseLeaver: [1, eraseLeaver],
  notify: [4, notify],
  collectRanks: [4, collectRanks],
  readRanks: [6, readRanks],
  dropKeywords: [1, dropKeywords],
  collectVolumes: [3, collectVolumes],
  readVolumes: [10, readVolumes],
  readRuns: [2, readRuns],
  bungle: [2, bungle],
  operate: [3, operate],
}

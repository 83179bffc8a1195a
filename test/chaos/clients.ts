import { drawCommonAsk } from '../simulation/draw-ask.ts'
import type { RequestEntry } from '../simulation/history.ts'
import { profileOf } from '../simulation/model-provider.ts'
import { type Random, seededRandom } from '../simulation/random.ts'
import type { Ask } from '../simulation/simulated-world.ts'
import { type Caller, type Errand, pause } from './caller.ts'
import type { ChaosProvider } from './provider.ts'
import type { ServiceTime } from './service-time.ts'

export type Clients = {
  /** What clients entrust to the service and nobody else may see. */
  readonly secrets: ReadonlySet<string>
  stop(): Promise<void>
}

/** Prices of the plans that are sold here. The weekly one is made for the run. */
export const prices: ReadonlyMap<string, readonly bigint[]> = new Map([
  ['weekly', [2500n]],
  ['starter-monthly', [9900n]],
  ['global-monthly', [1900n]],
])

export const weeklyPlan = { name: 'Weekly', amount: 2500, currency: 'KRW', interval: 'week', trial_days: 3 }

/** What the clients know: only what they were told. */
type Knowledge = {
  readonly provider: ChaosProvider
  readonly subscriptions: string[]
  readonly invoices: string[]
  /** Under which name the provider knows an account, where it was told. */
  readonly customers: Map<string, string>
  readonly secrets: Set<string>
  keys: number
  people: number
}

const remembered = 150

/** Several clients at once, one that crowds the limiter, and one that turns the clock. */
export function startClients(
  caller: Caller,
  provider: ChaosProvider,
  time: ServiceTime,
  { seed, count }: { seed: number; count: number },
): Clients {
  const known: Knowledge = {
    provider,
    subscriptions: [],
    invoices: [],
    customers: new Map(),
    secrets: new Set(),
    keys: 0,
    people: 8,
  }
  let stopped = false
  const again = async (random: Random, act: (random: Random) => Promise<void>) => {
    while (!stopped) await act(random)
  }
  const loops = [
    ...Array.from({ length: count }, (_, at) =>
      again(seededRandom(seed * 100 + at), (random) => takeStep(caller, known, random)),
    ),
    again(seededRandom(seed * 100 + 98), (random) => crowd(caller, random)),
    again(seededRandom(seed * 100 + 99), async (random) => {
      await pause(random.between(3_000, 8_000))
      if (!stopped) await turnClock(caller, time, random, Number(random.weighted(spans)))
    }),
  ]
  return {
    secrets: known.secrets,
    async stop() {
      stopped = true
      await Promise.all(loops)
    },
  }
}

/** Days by which the clock is turned at once: so few that no key is forgotten while its client still asks. */
const spans = { '0.05': 3, '1': 4, '2': 4, '4': 3, '7': 1 } as const

const weights = {
  subscribe: 12,
  trial: 3,
  cancel: 3,
  resume: 2,
  changeCard: 4,
  refund: 7,
  readInvoices: 5,
  readSubscription: 4,
  keywords: 4,
  twins: 3,
} as const

type Wish = Exclude<keyof typeof weights, 'twins'> | 'setUp'

async function takeStep(caller: Caller, known: Knowledge, random: Random): Promise<void> {
  const what = random.weighted({ ...weights, setUp: known.provider.customerKey ? 3 : 0 })
  const wish: Wish =
    what === 'twins' ? random.pick(['subscribe', 'refund', 'changeCard', 'cancel', 'trial'] as const) : what
  const ask = drawAsk(known, random, wish) ?? drawAsk(known, random, 'subscribe')!
  if (ask.key === undefined) {
    learn(known, await caller.send(ask, random))
  } else {
    const errand: Errand = { ask, entries: [] }
    caller.errands.push(errand)
    const askers = what === 'twins' ? 2 : 1
    await Promise.all(Array.from({ length: askers }, () => caller.carryThrough(errand, random, 40)))
    for (const entry of errand.entries) learn(known, entry)
  }
  await pause(random.between(0, 150))
}

function drawAsk(known: Knowledge, random: Random, wish: Wish): Ask | undefined {
  const post = (path: string, body: object): Ask => ({
    method: 'POST',
    path: `/api/billing${path}`,
    body,
    key: `key-${known.keys++}`,
  })
  const account = drawAccount(known, random)
  const subscription = known.subscriptions[latest(random, known.subscriptions)]
  const invoice = known.invoices[latest(random, known.invoices)]
  switch (wish) {
    case 'subscribe':
      return post('/subscribe', {
        account_id: account,
        plan_id: random.weighted({
          weekly: 5,
          'starter-monthly': 2,
          'global-monthly': known.provider.currencies.includes('USD') ? 1 : 0,
        }),
        payment_method: drawCard(known, random, account),
        ...(random.chance(0.3) && {
          timezone: random.pick(['UTC', 'Asia/Seoul', 'America/New_York', 'Europe/Berlin']),
        }),
        ...(random.chance(0.4) && { customer: { email: secret(known, `${account}.mail@chaos.example`) } }),
      })
    case 'setUp':
      return post('/setup', { account_id: account })
    case 'trial':
      return post('/trial', { account_id: account, plan_id: random.pick(['weekly', 'starter-monthly']) })
    case 'cancel':
      return subscription === undefined ? undefined : post('/cancel', { subscription_id: subscription })
    default:
      return drawCommonAsk(
        random,
        { account, subscription, invoice, post, drawCard: () => drawCard(known, random), keywords: 400 },
        wish,
      )
  }
}

/** Old customers mostly, and now and then a new one. */
function drawAccount(known: Knowledge, random: Random): string {
  if (random.chance(0.08)) known.people++
  const at = random.chance(0.5) ? known.people - random.between(0, 5) : random.between(1, known.people)
  return `acct_${at}`
}

/** Mostly a new one, because something still happens to it. */
function latest(random: Random, list: readonly unknown[]): number {
  if (list.length === 0) return -1
  return random.chance(0.6)
    ? Math.max(0, list.length - random.between(1, 8))
    : random.between(0, list.length - 1)
}

const cards = {
  ok: 12,
  fails_on_renewal: 3,
  insufficient_funds: 2,
  stolen: 1,
  expired: 1,
  timeout_after_charge: 2,
  error_before_charge: 0.5,
  slow: 2,
  refund_fails: 1,
  refund_timeout: 2,
} as const

/** A key that is remembered for longer than this keeps a doubt too long to be waited for, each time it is charged. */
const longestDoubtMs = 2 * 86_400_000

/** `account`: whose card it is to be, where that is known. */
function drawCard(known: Knowledge, random: Random, account?: string): object {
  const { name: provider, asks, customerKey } = known.provider
  if (asks !== undefined && random.chance(0.15)) return { billing_key: secret(known, asks) }
  const isEndless = profileOf(provider).keyWindowMs > longestDoubtMs
  const name = random.weighted({ ...cards, ...(isEndless && { error_before_charge: 0 }) })
  secret(known, `bk_test_${name}`)
  const customer = customerKey ? known.customers.get(account ?? '') : 'customer_of_chaos'
  return customer === undefined || random.chance(0.8)
    ? { billing_key: `bk_test_${name}` }
    : { auth_key: secret(known, `ak_test_${name}`), customer_key: customer }
}

function secret(known: Knowledge, text: string): string {
  known.secrets.add(text)
  return text
}

function learn(known: Knowledge, { answer, body }: RequestEntry): void {
  if (!answer || answer.status >= 300) return
  const { data } = JSON.parse(answer.text)
  const customer = data?.client && known.provider.customerKey?.(data.client)
  if (customer !== undefined) known.customers.set((body as { account_id: string }).account_id, customer)
  const add = (list: string[], id: unknown) => {
    if (typeof id !== 'string' || list.includes(id)) return
    list.push(id)
    if (list.length > remembered) list.shift()
  }
  add(known.subscriptions, data?.subscription_id)
  for (const invoice of data?.invoices ?? []) {
    if (invoice.amount_paid > invoice.amount_refunded) add(known.invoices, invoice.invoice_id)
    add(known.subscriptions, invoice.subscription_id)
  }
}

/** More than a workspace may ask in a minute, so that the limiter is at its limit most of the time. */
async function crowd(caller: Caller, random: Random): Promise<void> {
  const ask: Ask = { method: 'GET', path: '/api/batch/keywords?workspace_id=crowd' }
  await Promise.all(Array.from({ length: random.between(1, 3) }, () => caller.send(ask, random)))
  await pause(random.between(100, 500))
}

/** Turns the clock by so many days and waits until it stands, as long as that may fairly take. Tells whether it does. */
export async function turnClock(
  caller: Caller,
  time: ServiceTime,
  random: Random,
  days: number,
): Promise<boolean> {
  const path = '/api/sandbox/clock'
  const clock = await caller.send({ method: 'GET', path }, random)
  if (clock.answer?.status !== 200) return false
  const { now, moving } = JSON.parse(clock.answer.text).data
  time.heard(Date.parse(now))
  if (moving) return false
  const target = time.earliest() + days * 86_400_000
  time.aims(target)
  const body = { advance_to: new Date(target).toISOString() }
  const moved = await caller.send({ method: 'POST', path, body }, random, 30_000)
  if (moved.answer?.status === 200) time.heard(Date.parse(JSON.parse(moved.answer.text).data.now))
  return moved.answer?.status === 200
}

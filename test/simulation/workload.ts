import { retryUnmatched, settleUnmatched } from '../../src/billing/refunds/settle-unmatched.ts'
import { processWebhooks } from '../../src/billing/webhooks/process-webhook.ts'
import { type CommonAsk, drawCommonAsk } from './draw-ask.ts'
import type { RequestEntry } from './history.ts'
import { type BookCharge, isDisputed, isHidden, type Notice, profileOf } from './model-provider.ts'
import { compareAll, restore } from './restore.ts'
import { type Ask, calm, type Deed, type SimulatedWorld } from './simulated-world.ts'
import { plans, type Service } from './stage.ts'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** What the clients of a run know: only what they were told. */
export type Clients = {
  readonly accounts: readonly string[]
  readonly subscriptions: string[]
  readonly invoices: string[]
  /** Requests that carry a key, and may be sent again. */
  readonly keyed: Keyed[]
  readonly secrets: string[]
  count: number
}

type Keyed = { readonly ask: Ask; readonly entries: RequestEntry[] }

export function openClients(world: SimulatedWorld): Clients {
  const accounts = Array.from({ length: world.random.between(1, 2) }, (_, at) => `acct_${at + 1}`)
  return { accounts, subscriptions: [], invoices: [], keyed: [], secrets: [], count: 0 }
}

const weights = {
  subscribe: 12,
  trial: 4,
  cancel: 5,
  resume: 3,
  changeCard: 6,
  refund: 30,
  readInvoices: 16,
  readSubscription: 2,
  repeat: 9,
  reuseKey: 1,
  erase: 1,
  editPlan: 1,
  contact: 2,
  convert: 4,
  lapse: 4,
  refundTwice: 3,
  deliver: 8,
  forge: 1,
  arrive: 3,
  decide: 3,
  putRight: 1,
  revokeCredentials: 1,
  resumeCharging: 3,
  refundByHand: 6,
  bounce: 2,
  dispute: 8,
  decideDispute: 8,
  operate: 4,
  strand: 5,
  confirm: 8,
  wait: 9,
  advance: 14,
  outage: 2,
  backUp: 6,
  restore: 6,
  sweep: 8,
  turnKeys: 5,
  jobs: 12,
  keywords: 2,
  race: 12,
  release: 4,
} as const

/** Every kind of step. */
export const stepKinds: readonly string[] = Object.keys(weights)

/** One thing happens. Which one, the seed says. */
export async function takeStep(world: SimulatedWorld, clients: Clients): Promise<void> {
  const what = world.random.weighted(weights)
  world.count(`step ${what}`)
  switch (what) {
    case 'subscribe':
    case 'trial':
    case 'cancel':
    case 'resume':
    case 'changeCard':
    case 'refund':
    case 'readInvoices':
    case 'readSubscription':
    case 'erase':
    case 'editPlan':
    case 'contact':
    case 'keywords':
      await send(world, clients, drawAsk(world, clients, what) ?? firstThings(world, clients))
      return
    case 'convert':
      return convert(world, clients)
    case 'lapse':
      return lapse(world, clients)
    case 'refundTwice':
      return refundTwice(world, clients)
    case 'repeat':
      return repeat(world, clients)
    case 'reuseKey':
      return reuseKey(world, clients)
    case 'deliver':
      return deliverSome(world)
    case 'forge': {
      const notice = world.model.notices.at(-1)
      return notice && world.do(world.delivering(notice, true))
    }
    case 'arrive':
      return void world.model.arrive()
    case 'decide':
      return world.model.decidePending()
    case 'putRight':
      return world.model.putRight()
    case 'revokeCredentials':
      world.count('revoked credentials')
      return world.model.refuseCredentials(true)
    case 'resumeCharging':
      return world.resumeCharging()
    case 'refundByHand':
    case 'bounce':
    case 'dispute':
    case 'decideDispute':
      return actAtProvider(world, what)
    case 'operate':
      return operate(world, 0.3)
    case 'strand':
      return strand(world, clients)
    case 'confirm':
      return confirmSome(world)
    case 'wait':
      return world.pass(world.random.pick([1, 2, 5, 12, 15, 30, 60]) * second)
    case 'advance':
      return advance(world, world.now() + drawSpan(world))
    case 'outage':
      return world.turnTo(world.now() + world.random.between(1, 70) * day)
    case 'backUp':
      return world.backUp()
    case 'restore':
      return restore(world)
    case 'sweep':
      await world.sweep()
      return world.workJobs()
    case 'jobs':
      return world.workJobs()
    case 'turnKeys':
      return world.turnKeys()
    case 'race':
      return race(world, clients)
    case 'release':
      return world.releaseStalled()
  }
}

/** Who knows of nothing yet looks, or begins. */
function firstThings(world: SimulatedWorld, clients: Clients): Ask | undefined {
  return drawAsk(world, clients, clients.subscriptions.length === 0 ? 'subscribe' : 'readInvoices')
}

/** With and without summer time; one of them moves its clocks by half an hour. */
export const zones = [
  'UTC',
  'Asia/Seoul',
  'America/New_York',
  'Europe/Berlin',
  'Australia/Lord_Howe',
  'Pacific/Apia',
] as const

type Asked = 'subscribe' | 'trial' | 'cancel' | 'erase' | 'editPlan' | 'contact' | CommonAsk

function drawAsk(world: SimulatedWorld, clients: Clients, what: Asked, about?: About): Ask | undefined {
  const { random } = world
  const account = about?.account ?? random.pick(clients.accounts)
  const subscription = about?.subscription ?? clients.subscriptions[latest(world, clients.subscriptions)]
  const invoice = about?.invoice ?? clients.invoices[latest(world, clients.invoices)]
  const key = random.chance(0.8) ? { key: `key-${clients.count++}` } : {}
  const post = (path: string, body: object): Ask => ({
    method: 'POST',
    path: `/api/billing${path}`,
    body,
    ...key,
  })
  switch (what) {
    case 'subscribe':
      return post('/subscribe', {
        account_id: account,
        plan_id:
          about?.plan ??
          random.weighted({ weekly: 4, monthly: 2, global: 1 } satisfies Record<keyof typeof plans, number>),
        payment_method: drawCard(world, clients, about?.card),
        ...(random.chance(0.6) && { timezone: drawZone(world) }),
        ...(random.chance(0.3) && {
          customer: { email: secret(clients, `${account}.${clients.count}@mail.test`) },
        }),
      })
    case 'trial':
      return post('/trial', {
        account_id: account,
        plan_id: about?.plan ?? random.pick(['monthly', 'weekly', 'global']),
      })
    case 'cancel':
      return subscription === undefined
        ? undefined
        : post('/cancel', {
            subscription_id: subscription,
            ...(random.chance(0.3) && { reason: 'too dear' }),
          })
    case 'erase':
      return { method: 'DELETE', path: `/api/billing/accounts/${account}` }
    case 'contact':
      return {
        method: 'PUT',
        path: `/api/billing/accounts/${account}`,
        body: {
          customer: { email: secret(clients, `${account}.${clients.count++}@mail.test`) },
          ...(random.chance(0.5) && { timezone: drawZone(world) }),
        },
      }
    case 'editPlan': {
      const { planId, interval, trialDays, minor, currency } = plans[about?.plan ?? 'weekly']
      const amount = Number(minor) + random.pick([0, 200, 600])
      const body = { name: planId, amount, currency, interval, trial_days: trialDays }
      return { method: 'PUT', path: `/api/billing/plans/${planId}`, body }
    }
    default:
      return drawCommonAsk(
        random,
        {
          account,
          subscription,
          invoice,
          post,
          drawCard: () => drawCard(world, clients, about?.card),
          amount: about?.amount,
          keywords: 9,
        },
        what,
      )
  }
}

/** Often one whose clocks are about to skip or double the present time of day. */
function drawZone({ random, home }: SimulatedWorld): string {
  return home !== undefined && random.chance(0.5) ? home : random.pick(zones)
}

/** Mostly the newest one, because something still happens to it. */
function latest(world: SimulatedWorld, list: readonly unknown[]): number {
  if (list.length === 0) return -1
  return world.random.chance(0.6) ? list.length - 1 : world.random.between(0, list.length - 1)
}

type Behaviour = 'ok' | 'once' | 'poor' | 'stolen' | 'nobody' | 'asks'

function drawCard(world: SimulatedWorld, clients: Clients, wanted?: Behaviour): object {
  const { random } = world
  const behaviour =
    wanted ??
    random.weighted({
      ok: 12,
      once: 3,
      poor: 2,
      stolen: 1,
      nobody: 1,
      asks: profileOf().asks ? 4 : 0,
    })
  const text = `${Array.from({ length: 12 }, () => random.pick([...'abcdefghjkmnpqrstvwxyz23456789'])).join('')}`
  secret(clients, text)
  return random.chance(0.6)
    ? { billing_key: `bk_${text}_${behaviour}` }
    : { auth_key: `ak_${text}_${behaviour}`, customer_key: `customer_${clients.count}` }
}

function secret(clients: Clients, text: string): string {
  clients.secrets.push(text)
  return text
}

/** Sends a request and learns from its answer. Without a service, chance says which process takes it. */
export async function send(
  world: SimulatedWorld,
  clients: Clients,
  ask: Ask | undefined,
  service?: Service,
): Promise<RequestEntry | undefined> {
  if (!ask) return undefined
  const entry = await world.ask(ask, service)
  if (ask.key !== undefined) {
    const known = clients.keyed.find((one) => one.ask.key === ask.key && one.ask.path === ask.path)
    if (known) known.entries.push(entry)
    else clients.keyed.push({ ask, entries: [entry] })
  }
  learn(clients, entry)
  return entry
}

function learn(clients: Clients, { answer }: RequestEntry): void {
  if (!answer || answer.status >= 300 || answer.text === '') return
  const { data } = JSON.parse(answer.text)
  const add = (list: string[], id: unknown) => {
    if (typeof id === 'string' && !list.includes(id)) list.push(id)
  }
  add(clients.subscriptions, data?.subscription_id)
  for (const invoice of data?.invoices ?? []) {
    add(clients.invoices, invoice.invoice_id)
    add(clients.subscriptions, invoice.subscription_id)
  }
}

async function repeat(world: SimulatedWorld, clients: Clients): Promise<void> {
  const open = clients.keyed.filter(({ entries }) => !isFinal(entries.at(-1)!))
  const from = open.length > 0 && world.random.chance(0.7) ? open : clients.keyed
  if (from.length > 0) await send(world, clients, world.random.pick(from).ask)
}

function isFinal({ answer }: RequestEntry): boolean {
  return answer !== null && [200, 201, 402].includes(answer.status)
}

/** A trial gets its card after its plan has got another price. */
async function convert(world: SimulatedWorld, clients: Clients): Promise<void> {
  const about: About = {
    account: world.random.pick(clients.accounts),
    plan: world.random.pick(['weekly', 'monthly']),
  }
  for (const what of ['contact', 'trial', 'editPlan', 'subscribe'] as const)
    await send(world, clients, drawAsk(world, clients, what, about))
}

/** A card stops to pay while nobody is at work; months later another one takes its place, sometimes after one that fails as well. */
async function lapse(world: SimulatedWorld, clients: Clients): Promise<void> {
  const { random, weather } = world
  const active = await findOne(
    world,
    `select id, next_billing_at as at from billing.subscription where status = 'active' order by id limit 1`,
  )
  const about: About = active ? { subscription: active.id } : {}
  const change = (card: Behaviour) =>
    send(world, clients, drawAsk(world, clients, 'changeCard', { ...about, card }))
  const offersAnother = random.chance(0.6)
  // The failure is the card's own, and that of the one that is offered.
  if (offersAnother) world.weather = calm
  await change('poor')
  world.turnTo(world.now() + random.between(20, 70) * day)
  await world.sweep()
  if (offersAnother) {
    // By then a retry has fallen due, and nobody was there to make it.
    world.turnTo(world.now() + random.between(1, 8) * day)
    world.planned.set('charge', random.pick([[], ['not_sent'], ['lost_request']]))
    const offered = await change(random.pick(['poor', 'stolen', 'once']))
    world.planned.delete('charge')
    if (offered?.answer && [402, 503].includes(offered.answer.status)) world.count('offer failed')
    await world.sweep()
  }
  world.weather = weather
  await change('ok')
  await world.sweep()
}

/** While the provider works on a refund, another part of the same invoice is asked back. */
async function refundTwice(world: SimulatedWorld, clients: Clients): Promise<void> {
  const invoice = clients.invoices.at(-1)
  if (invoice === undefined) return
  world.planned.set('refund', ['pending'])
  for (const amount of [100, 400])
    await send(world, clients, drawAsk(world, clients, 'refund', { invoice, amount }))
  world.planned.delete('refund')
}

/** The same key for something else. */
async function reuseKey(world: SimulatedWorld, clients: Clients): Promise<void> {
  const used = clients.keyed.find(
    ({ entries, ask }) => isFinal(entries.at(-1)!) && ask.path.endsWith('/subscribe'),
  )
  if (!used) return
  const body = { ...(used.ask.body as object), account_id: 'acct_other' }
  await world.ask({ ...used.ask, body })
}

async function deliverSome(world: SimulatedWorld): Promise<void> {
  const { random, model } = world
  const waiting = model.notices.filter(({ taken }) => !taken)
  const again = model.notices.filter(({ taken }) => taken)
  const batch = random.shuffled(waiting).slice(0, random.between(1, 4))
  if (again.length > 0 && random.chance(0.3)) batch.push(random.pick(again))
  for (const notice of batch) {
    if (notice.unsigned && random.chance(0.2)) lose(world, notice)
    else await deliver(world, notice)
  }
}

/** Unsigned messages come twice, and others come that nobody there has sent. */
async function deliver(world: SimulatedWorld, notice: Notice): Promise<void> {
  const { random } = world
  if (notice.unsigned && random.chance(0.2)) await world.do(world.delivering(notice, true))
  await world.do(world.delivering(notice))
  if (!notice.unsigned || !random.chance(0.2)) return
  world.count('hint doubled')
  await world.do(world.delivering(notice))
}

/** Its sender gives up; what nobody else tells is found when somebody compares books. */
function lose({ count }: SimulatedWorld, notice: Notice): void {
  notice.taken = true
  if (notice.unsigned) count(notice.vital ? 'hint lost for ever' : 'hint lost')
}

/** Customers confirm what waits for them, or try to where it has ended. */
function confirmSome({ random, model, count }: SimulatedWorld): void {
  const asked = model.book.filter(
    ({ status, asks }) => asks && (status === 'awaiting' || status === 'canceled'),
  )
  if (asked.length === 0) return
  const waiting = asked.filter(({ status }) => status === 'awaiting')
  const isDone = model.confirm(random.pick(waiting.length > 0 && random.chance(0.8) ? waiting : asked))
  count(isDone ? 'confirmed' : 'confirmed too late')
}

/** Money comes for what was cancelled meanwhile, its bank does not take it back, and an operator is told. */
async function strand(world: SimulatedWorld, clients: Clients): Promise<void> {
  world.planned.set('charge', ['late_request'])
  // Somebody new, who has no subscription yet.
  const about: About = { account: `acct_late_${clients.count++}`, card: 'ok' }
  const asked = await send(world, clients, drawAsk(world, clients, 'subscribe', about))
  world.planned.delete('charge')
  if (asked?.answer?.status !== 202) return
  const subscription: string = JSON.parse(asked.answer.text).data.subscription_id
  await send(world, clients, drawAsk(world, clients, 'cancel', { subscription }))
  world.model.arrive()
  world.planned.set('refund', ['declined'])
  // A search that is behind, or fails, is asked again.
  for (let looks = 0; looks < 4 && world.planned.get('refund')!.length > 0; looks++) {
    world.pass(3 * minute)
    await world.sweep()
    await world.workJobs()
  }
  world.planned.delete('refund')
  await operate(world, 0.6)
}

/** An operator looks after money that pays for nothing and did not go back; by hand so often. */
async function operate(world: SimulatedWorld, byHandRate: number): Promise<void> {
  const stuck = await findOne(
    world,
    `select subject as id, null::timestamptz as at from platform.alarm where kind = 'unmatched_money'
     order by raised_at, subject limit 1`,
  )
  if (!stuck) return
  const byHand = world.random.chance(byHandRate)
  await world.do(
    world.working(byHand ? 'settle unmatched' : 'retry unmatched', async ({ billing }) => {
      const outcome = byHand
        ? await settleUnmatched(billing, stuck.id, 'paid back by hand', 'operator')
        : await retryUnmatched(billing, stuck.id, 'operator')
      // Whether anything was left to be done, only the outcome tells.
      if (outcome === true) world.count('unmatched settled')
      else if (outcome && outcome !== 'not_unmatched') world.count('unmatched retried')
      return outcome
    }),
  )
}

function actAtProvider(
  world: SimulatedWorld,
  what: 'refundByHand' | 'bounce' | 'dispute' | 'decideDispute',
): void {
  const { random, model } = world
  if (what === 'decideDispute') {
    const open = model.book.filter(({ dispute }) => dispute?.status === 'open')
    if (open.length === 0) return
    const status = random.pick(['won', 'lost'] as const)
    world.count(`dispute ${status}`)
    const charge = random.pick(open)
    model.decideDispute(charge, status)
    // Staff ends one by giving money back, after which the record shows no dispute.
    if (!profileOf().hidesDisputes || status === 'lost' || model.leftOf(charge) === 0n) return
    if (random.chance(0.5)) return
    world.count('dispute ended by giving back')
    giveBackByHand(world, charge)
    return
  }
  const paid = model.book.filter(mayBeGivenBack)
  if (paid.length === 0) return
  const charge = random.pick(paid)
  if (what === 'dispute') {
    if (charge.dispute !== null || model.leftOf(charge) === 0n || !profileOf().disputes) return
    world.count('dispute')
    model.dispute(charge)
    return
  }
  if (what === 'bounce') {
    const done = charge.refunds.filter(
      ({ status, reference }) => status === 'succeeded' && reference !== null,
    )
    if (done.length === 0) return
    world.count('bounced refund')
    model.bounce(charge, random.pick(done))
    return
  }
  if (model.leftOf(charge) === 0n) return
  world.count('by-hand refund')
  giveBackByHand(world, charge)
}

function mayBeGivenBack(charge: BookCharge): boolean {
  return charge.status === 'paid' && !isDisputed(charge) && charge.wrongUntil !== Number.POSITIVE_INFINITY
}

function giveBackByHand({ random, model }: SimulatedWorld, charge: BookCharge): void {
  const left = model.leftOf(charge)
  model.refundByHand(charge, random.chance(0.5) ? left : (left + 1n) / 2n)
}

function drawSpan(world: SimulatedWorld): number {
  const { random } = world
  switch (random.weighted({ minutes: 3, hours: 4, days: 5, month: 3 })) {
    case 'minutes':
      return random.between(1, 40) * minute
    case 'hours':
      return random.between(1, 26) * hour
    case 'days':
      return random.between(1, 8) * day
    case 'month':
      return random.between(27, 32) * day
  }
}

/** Turns time by way of every instant at which something falls due, as the sandbox's clock does. */
export async function advance(world: SimulatedWorld, target: number): Promise<void> {
  await walk(world, target, world.turnTo, 24)
}

/** The same, and real time passes with it. */
async function live(world: SimulatedWorld, ms: number): Promise<void> {
  await walk(world, world.now() + ms, (instant) => world.pass(Math.max(0, instant - world.now())), 200)
}

async function walk(
  world: SimulatedWorld,
  target: number,
  goTo: (instant: number) => void,
  most: number,
): Promise<void> {
  let stuckAt: number | undefined
  for (let moves = 0; moves < most; moves++) {
    const due = await world.nextDue()
    if (due === undefined || due > target || due === stuckAt) break
    stuckAt = due <= world.now() ? due : undefined
    goTo(due)
    await world.sweep()
    if (moves % 4 === 3) await world.workJobs()
  }
  goTo(target)
}

type About = {
  account?: string
  subscription?: string
  invoice?: string
  plan?: 'weekly' | 'monthly'
  card?: Behaviour
  amount?: number
}

/** Two that touch the same thing at once, one of them cut in the middle by the other. */
async function race(world: SimulatedWorld, clients: Clients): Promise<void> {
  const { random } = world
  const pair = random.weighted({
    renewal: 9,
    doubts: 6,
    refunds: 5,
    accounts: 4,
    twins: 4,
    sweeps: 3,
    notices: profileOf().hints ? 12 : 2,
    states: 3,
    seals: 3,
  })
  if (pair === 'notices' && profileOf().hints && random.chance(0.8)) return tellTwice(world)
  const deeds = await drawPair(world, clients, pair)
  if (!deeds) return
  const before = world.history.entries.length
  await world.race(...(random.shuffled(deeds) as [Deed, Deed]))
  for (const entry of world.history.entries.slice(before))
    if (entry.kind === 'request') remember(clients, entry)
}

function remember(clients: Clients, entry: RequestEntry): void {
  learn(clients, entry)
  if (entry.key === undefined || entry.method !== 'POST') return
  const known = clients.keyed.find(({ ask }) => ask.key === entry.key && ask.path === entry.path)
  if (known) known.entries.push(entry)
  else {
    const ask: Ask = { method: 'POST', path: entry.path, body: entry.body as object, key: entry.key }
    clients.keyed.push({ ask, entries: [entry] })
  }
}

async function drawPair(
  world: SimulatedWorld,
  clients: Clients,
  pair: 'renewal' | 'doubts' | 'refunds' | 'accounts' | 'twins' | 'sweeps' | 'notices' | 'states' | 'seals',
): Promise<[Deed, Deed] | undefined> {
  const { random } = world
  const draw = (what: Asked, about: About): Deed | undefined => {
    const ask = drawAsk(world, clients, what, about)
    return ask && world.asking(ask)
  }
  const both = (a: Deed | undefined, b: Deed | undefined): [Deed, Deed] | undefined =>
    a && b ? [a, b] : undefined
  const subscription = clients.subscriptions.at(-1)
  const about: About = {
    account: random.pick(clients.accounts),
    ...(subscription !== undefined && { subscription }),
    ...(clients.invoices.length > 0 && { invoice: random.pick(clients.invoices.slice(-3)) }),
  }
  switch (pair) {
    case 'renewal': {
      const next = await findOne(
        world,
        `select id, next_billing_at as at from billing.subscription
         where status in ('active', 'trialing') order by next_billing_at, id limit 1`,
      )
      if (!next || next.at!.getTime() > world.now() + 40 * day) return undefined
      world.turnTo(next.at!.getTime())
      const what = random.weighted({ cancel: 5, changeCard: 2 })
      return both(world.sweeping(), draw(what, { ...about, subscription: next.id }))
    }
    case 'doubts': {
      const open = await findOne(
        world,
        `select subscription_id as id, null::timestamptz as at from billing.payment
         where status in ('sending', 'unknown') order by id limit 1`,
      )
      if (!open) return undefined
      // Long enough for whoever was at it to be thought dead.
      world.pass(minute)
      const what = random.weighted({ cancel: 5, changeCard: 2 })
      return both(world.sweeping(), draw(what, { ...about, subscription: open.id }))
    }
    case 'refunds':
      return both(draw('refund', about), draw('refund', about))
    case 'accounts':
      return both(
        draw(random.pick(['subscribe', 'trial'] as const), about),
        draw(random.pick(['subscribe', 'trial', 'erase'] as const), about),
      )
    case 'twins': {
      const what = random.pick(['subscribe', 'refund', 'changeCard', 'cancel', 'trial'] as const)
      const ask = drawAsk(world, clients, what, about)
      if (!ask) return undefined
      const keyed = { ...ask, key: ask.key ?? `key-${clients.count++}` }
      return [world.asking(keyed), world.asking(keyed)]
    }
    case 'sweeps': {
      const due = await world.nextDue()
      if (due !== undefined && due < world.now() + 40 * day) world.turnTo(due)
      return [world.sweeping(), world.sweeping()]
    }
    case 'notices': {
      const notice = world.model.notices.at(-1)
      return (
        notice && [world.delivering(notice), random.chance(0.5) ? world.delivering(notice) : world.sweeping()]
      )
    }
    case 'seals': {
      for (let step = 0; step < 7 && !world.resealing(); step++) await world.turnKeys()
      const rival = random.weighted({ contact: 4, erase: 3, subscribe: 1, changeCard: 1, sweep: 2 })
      return both(world.resealing(), rival === 'sweep' ? world.sweeping() : draw(rival, about))
    }
    case 'states':
      return both(
        draw(random.pick(['cancel', 'resume', 'changeCard'] as const), about),
        draw(random.pick(['cancel', 'resume', 'changeCard', 'subscribe'] as const), about),
      )
  }
}

/** A payment is read for an earlier hint, and at that moment something else happens to it, of which the next one tells. */
async function tellTwice(world: SimulatedWorld): Promise<void> {
  const { random, model } = world
  const paid = model.book.filter((charge) => mayBeGivenBack(charge) && model.leftOf(charge) > 1n)
  if (paid.length === 0) return
  const charge = random.pick(paid)
  const { reference } = charge
  model.refundByHand(charge, 1n)
  await world.do(world.hinting({ reference }))
  world.pass(2 * second)
  world.count('hint while one is acted on')
  const happens = () => {
    if (model.leftOf(charge) > 0n) model.refundByHand(charge, 1n)
  }
  const acting = world.working('webhooks', ({ billing }) => processWebhooks(billing))
  await world.race(acting, world.hinting({ reference, happens }))
}

/** Where the next collision is to be had. The clients would only guess at it. */
async function findOne(
  { observer }: SimulatedWorld,
  text: string,
): Promise<{ id: string; at: Date | null } | undefined> {
  return (await observer.query<{ id: string; at: Date | null }>(text)).rows[0]
}

/** More than a hundred calls in one minute, some of them exactly a minute after others. */
export async function crowd(world: SimulatedWorld, clients: Clients): Promise<void> {
  const { random } = world
  const ask: Ask = { method: 'GET', path: '/api/batch/keywords?workspace_id=shop' }
  const call = async (times: number) => {
    for (let count = 0; count < times; count++) await send(world, clients, ask)
  }
  world.pass(61 * second)
  const opened = world.real()
  const early = random.between(60, 98)
  await call(early)
  world.pass(random.pick([1, 20, 59]) * second)
  await call(102 - early)
  // To the very end of the first calls' minute, and then just past it.
  world.pass(opened + minute - world.real())
  await call(2)
  world.pass(1)
  await call(2)
}

/** Faults are over. Everybody asks again until they know, and time passes until nothing is left to do. */
export async function converge(
  world: SimulatedWorld,
  clients: Clients,
  restDays: number,
  beforeRest: (world: SimulatedWorld, clients: Clients) => Promise<void> = async () => {},
): Promise<void> {
  await world.releaseStalled()
  world.model.arrive()
  world.model.putRight()
  await world.resumeCharging()
  await world.retryKilledJobs()
  for (const days of [0, 2]) {
    await live(world, days * day)
    await settleDown(world)
    await askAgain(world, clients)
    // Whoever asks next meets a key that was changed in between.
    if (days === 0) for (let step = 0; step < 7; step++) await world.turnKeys()
  }
  if (world.counts['hint lost for ever']) await compareAll(world)
  await beforeRest(world, clients)
  let since = world.now()
  await live(world, restDays * day)
  await settleDown(world)
  // A charge that was begun at the very end has a day for its customer, and so has each retry after it.
  const isAwaited = () => world.model.book.some(({ status }) => status === 'awaiting')
  // A refund refused over a dispute that its record does not show ends with its key window, and then comes the next one's turn.
  const hidden = () => world.model.book.filter((charge) => isDisputed(charge) && isHidden(charge))
  const waits = async () =>
    isAwaited() || (hidden().length > 0 && (await isRestless(world))) || (await gotItsTurn(world, since))
  for (let days = 0; days < 12 && (await waits()); days++) {
    since = world.now()
    // Money that belongs to nobody is given back anew until it is gone, so that some day the bank has to decide.
    if (days === 6)
      for (const charge of hidden())
        world.model.decideDispute(charge, world.random.pick(['won', 'lost'] as const))
    await live(world, day)
    await settleDown(world)
  }
}

/** Whether a refund waits whose turn came only since then, when another one of its payment ended. */
async function gotItsTurn({ observer }: SimulatedWorld, since: number): Promise<boolean> {
  const { rowCount } = await observer.query(
    `select from billing.refund r join billing.refund other using (payment_id)
     where r.status = 'pending' and other.settled_at >= $1 limit 1`,
    [new Date(since)],
  )
  return rowCount === 1
}

/** Works until nothing waits any more, or as long as it may fairly take. */
async function settleDown(world: SimulatedWorld): Promise<void> {
  for (let round = 0; round < 6 && (round === 0 || (await isRestless(world))); round++) {
    world.model.decidePending()
    for (const notice of world.model.notices.filter(({ taken }) => !taken)) {
      // A notice that nobody needs may be lost for ever.
      if (notice.vital || world.random.chance(0.7)) await deliver(world, notice)
      else lose(world, notice)
    }
    world.pass(30 * second)
    await world.sweep()
    await world.workJobs()
  }
}

async function isRestless({ observer, model }: SimulatedWorld): Promise<boolean> {
  if (model.notices.some(({ taken }) => !taken)) return true
  const { rows } = await observer.query<{ restless: boolean }>(
    `select exists (select from billing.payment where status in ('sending', 'unknown'))
         or exists (select from billing.refund where status = 'pending')
         or exists (select from billing.payment_method where state = 'pending')
         or exists (select from billing.webhook where status = 'waiting')
         or exists (select from graphile_worker._private_jobs) as restless`,
  )
  return rows[0]!.restless
}

/** Whoever left is erased, and asks once more all the same. */
export async function forget(world: SimulatedWorld, clients: Clients): Promise<void> {
  for (const account of clients.accounts) {
    const erased = await send(world, clients, drawAsk(world, clients, 'erase', { account }))
    if (erased?.answer?.status !== 200) continue
    for (const { ask } of world.random.shuffled(clients.keyed).slice(0, 3)) await send(world, clients, ask)
  }
}

async function askAgain(world: SimulatedWorld, clients: Clients): Promise<void> {
  world.pass(20 * second)
  for (const { ask, entries } of clients.keyed) {
    const last = entries.at(-1)!
    const open = last.answer === null || last.answer.status === 202 || last.answer.status >= 500
    const inProgress = last.answer?.status === 409 && last.answer.text.includes('request_in_progress')
    if (open || inProgress) await send(world, clients, ask)
  }
}

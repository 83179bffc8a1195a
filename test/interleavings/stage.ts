import pg from 'pg'
import { saveAccount } from '../../src/billing/accounts/save-account.ts'
import type { BillingApp } from '../../src/billing/app.ts'
import { runDue } from '../../src/billing/due.ts'
import { type SubscribeRequest, subscribe } from '../../src/billing/lifecycle/subscribe.ts'
import { seedPlans } from '../../src/billing/plans/seed-plans.ts'
import type { Provider } from '../../src/billing/providers/port.ts'
import { billingRoutes } from '../../src/billing/routes.ts'
import type { Subscription } from '../../src/billing/subscriptions/subscription.ts'
import type { BillingTables } from '../../src/billing/tables.ts'
import { openInbox } from '../../src/billing/webhooks/inbox-rows.ts'
import { openAccess, scopes } from '../../src/platform/access/access.ts'
import { openRateLimiter } from '../../src/platform/access/rate-limit.ts'
import { newToken } from '../../src/platform/access/token.ts'
import { insertToken } from '../../src/platform/access/token-rows.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { openDb } from '../../src/platform/database/db.ts'
import { buildHttp, type Http } from '../../src/platform/http/http.ts'
import type { Finished } from '../../src/platform/idempotency.ts'
import { billingOn, onlyProvider } from '../billing/scripted-billing.ts'
import { scriptedProvider } from '../billing/scripted-provider.ts'
import { openPatientPool } from '../patience.ts'
import type { Sides } from './run-order.ts'
import { openSide, type Side } from './stepper.ts'

/** A side as a pair sees it: billing on the side's own connection, and its own HTTP face. */
export type Actor = { readonly app: BillingApp; readonly side: Side; readonly http: Http }

/** One database on which schedule after schedule runs, each with an account of its own. */
export type Stage = {
  readonly url: string
  /** Not stepped: for what happens before, after and beside a schedule. */
  readonly app: BillingApp
  readonly script: ReturnType<typeof scriptedProvider>
  readonly sides: Sides
  readonly actors: { readonly A: Actor; readonly B: Actor }
  /** Tells who waits for whom. */
  readonly watcher: pg.Client
  readonly token: string
  skipTo(instant: string): void
  newAccount(): string
  /** An account that was there before, so that nobody waits for its making. */
  knownAccount(): Promise<string>
  /** Writes a subscription's intent, not charged yet. */
  beginSubscription(accountId: string, by?: BillingApp): Promise<Begun>
  /** Subscribes on the given connection. */
  subscribeBy(by: BillingApp, accountId: string): Promise<Subscribed>
  /** A running subscription, its first period paid. */
  subscribe(accountId: string): Promise<Begun>
  /** A subscription whose first charge was sent and never answered; `taken` says whether it arrived. */
  subscribeInDoubt(accountId: string, taken: boolean): Promise<Begun>
  /** Stores a notification about a payment as if it had come in a while ago. */
  storeWebhook(eventId: string, reference: string, type?: string): Promise<void>
  /** Lets waits and leases in real time run out, but for rows that somebody holds at the moment. */
  passTime(): Promise<void>
  /** Does what the sweeps would do in the minutes that follow. */
  settle(): Promise<void>
  /** Takes an account out of the way of the next schedule. */
  retire(accountId: string): Promise<void>
  close(): Promise<void>
}

/** Paid, or in doubt. */
export type Subscribed = Finished<Subscription>

export type Begun = {
  readonly subscriptionId: string
  readonly invoiceId: string
  readonly paymentId: string
  readonly reference: string
  /** Takes the money. */
  finish(): Promise<Subscribed>
}

const start = '2026-03-05T09:00:00+09:00'
export const firstRenewal = '2026-04-05T09:00:00+09:00'
export const card = 'bk_test_ok'

export async function openStage(url: string): Promise<Stage> {
  const pool = openPatientPool(url, 5, 'interleaving stage')
  const watcher = new pg.Client({ connectionString: url })
  await watcher.connect()
  let now = new Date(start)
  const clock: Clock = Object.assign(() => now, { sync: async () => {}, moveTo: async () => {} })
  const script = scriptedProvider({ now: clock })
  const app = billingOn(pool, clock, script.provider)
  await seedPlans(app)
  const token = newToken('test')
  const grant = { name: 'test', scopes, workspace: '*', account: '*', createdAt: now, expiresAt: null }
  await insertToken(pool, token, grant)
  const sides = { A: openSide('A', url), B: openSide('B', url) }
  const actors = { A: await openActor(app, sides.A), B: await openActor(app, sides.B) }
  let accounts = 0
  const newAccount = () => `acct_${++accounts}`

  async function beginSubscription(accountId: string, by = app): Promise<Begun> {
    const { begin, finish } = subscribe(by, requestOf(accountId))
    const intent = await by.db.transaction().execute(begin)
    const { id: paymentId } = intent
    const { rows } = await pool.query(
      'select subscription_id, invoice_id, provider_reference from billing.payment where id = $1',
      [paymentId],
    )
    return {
      subscriptionId: rows[0].subscription_id,
      invoiceId: rows[0].invoice_id,
      paymentId,
      reference: rows[0].provider_reference,
      finish: () => finish(intent),
    }
  }

  async function passTime(): Promise<void> {
    const free = (table: string, id: string, state: string) =>
      `${id} in (select ${id} from billing.${table} where ${state} for update skip locked)`
    await pool.query(`
      with payments as (
        update billing.payment set sending_until = null, next_lookup_at = clock_timestamp()
        where ${free('payment', 'id', `status in ('sending', 'unknown')`)}),
      refunds as (
        update billing.refund set sending_until = null, next_lookup_at = clock_timestamp()
        where ${free('refund', 'id', `status = 'pending'`)}),
      cards as (
        update billing.payment_method set next_lookup_at = clock_timestamp()
        where ${free('payment_method', 'id', `state = 'pending' and next_lookup_at is not null`)}),
      webhooks as (
        update billing.webhook set next_lookup_at = clock_timestamp()
        where ${free('webhook', 'event_id', `status = 'waiting'`)})
      select`)
  }

  /** Whether a sweep would find anything to do, now or after some time. */
  async function hasWork(): Promise<boolean> {
    const { rows } = await pool.query({
      name: 'interleaving-work',
      text: `
        select exists (select from billing.payment where status in ('sending', 'unknown'))
          or exists (select from billing.refund where status = 'pending')
          or exists (select from billing.payment_method where state = 'pending')
          or exists (select from billing.webhook where status = 'waiting')
          or exists (select from billing.subscription where status in ('active', 'trialing') and next_billing_at <= $1)
          or exists (select from billing.subscription where status = 'canceling' and cancel_at <= $1)
          or exists (select from billing.invoice where due_at <= $1) as work`,
      values: [now],
    })
    return rows[0].work
  }

  return {
    url,
    app,
    script,
    sides,
    actors,
    watcher,
    token,
    skipTo(instant) {
      now = new Date(instant)
    },
    newAccount,
    async knownAccount() {
      const accountId = newAccount()
      await saveAccount(app, { accountId, actor: 'test' })
      return accountId
    },
    beginSubscription,
    async subscribeBy(by, accountId) {
      const { begin, finish } = subscribe(by, requestOf(accountId))
      return finish(await by.db.transaction().execute(begin))
    },
    async subscribe(accountId) {
      const begun = await beginSubscription(accountId)
      await begun.finish()
      return begun
    },
    async subscribeInDoubt(accountId, taken) {
      const begun = await beginSubscription(accountId, silentOnLookup(app))
      script.nextCharges({ kind: taken ? 'lost_answer' : 'lost_request' })
      await begun.finish()
      return begun
    },
    async storeWebhook(eventId, reference, type = 'payment.updated') {
      await openInbox(pool).add(webhookOf(app, eventId, reference, type))
      await passTime()
    },
    passTime,
    async settle() {
      for (let round = 0; round < 5 && (await hasWork()); round++) {
        await passTime()
        await runDue(app)
      }
    },
    async retire(accountId) {
      await pool.query(
        `update billing.subscription set status = 'canceled', canceled_at = $2, next_billing_at = null
         where account_id = $1 and status <> 'canceled'`,
        [accountId, now],
      )
      script.book.clear()
      now = new Date(start)
    },
    async close() {
      await Promise.all([actors.A.http.close(), actors.B.http.close()])
      await Promise.all([sides.A.close(), sides.B.close(), watcher.end()])
      await pool.end()
    },
  }
}

async function openActor(base: BillingApp, side: Side): Promise<Actor> {
  const app = {
    ...base,
    db: openDb<BillingTables>(side.pool),
    pool: side.pool,
    providers: onlyProvider(steppedProvider(base.providers.forNew, side)),
  }
  const http = buildHttp({
    // Who asks and how often is decided beside the steps: other pairs are about that.
    access: openAccess(base.pool, base.clock),
    limiter: openRateLimiter(base.pool),
    openPrefixes: [],
    onAnswer() {},
    onFault() {},
  })
  billingRoutes(http, app)
  await http.ready()
  // The first use opens the connection, so that no schedule waits for it.
  await side.pool.query('select 1')
  return { app, side, http }
}

function requestOf(accountId: string): SubscribeRequest {
  return {
    accountId,
    planId: 'starter-monthly',
    method: { billingKey: card },
    bound: false,
    timeZone: undefined,
    contact: undefined,
    actor: 'test',
  }
}

/** The calls that move or judge money are steps; what a card looks like concerns nobody else. */
function steppedProvider(provider: Provider, side: Side): Provider {
  return {
    ...provider,
    charge: (request) => side.pass('charge', () => provider.charge(request)),
    refund: (request) => side.pass('refund', () => provider.refund(request)),
    findPayment: (reference) => side.pass('look up', () => provider.findPayment(reference)),
    cancelPayment: (reference, id) => side.pass('cancel', () => provider.cancelPayment(reference, id)),
  }
}

function silentOnLookup(app: BillingApp): BillingApp {
  const silent: Provider = { ...app.providers.forNew, findPayment: async () => ({ kind: 'unknown' }) }
  return { ...app, providers: onlyProvider(silent) }
}

export function webhookOf(app: BillingApp, eventId: string, reference: string, type: string) {
  const claim = type === 'payment.paid' ? ('paid' as const) : ('changed' as const)
  return {
    provider: 'scripted',
    eventId,
    bodyHash: Buffer.from(eventId),
    sealed: app.vault.seal('{}', `webhook:scripted ${eventId}`),
    type,
    claim,
    reference,
    receivedAt: app.clock(),
  }
}

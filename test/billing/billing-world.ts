import type { BillingApp, BillingTerms } from '../../src/billing/app.ts'
import { stopForCredentials } from '../../src/billing/charging-stop.ts'
import { findChargingStop } from '../../src/billing/charging-stop-rows.ts'
import { nextDue, runDue } from '../../src/billing/due.ts'
import { seedPlans } from '../../src/billing/plans/seed-plans.ts'
import { type Providers, providersOf } from '../../src/billing/providers/providers.ts'
import { openStopSwitch, stoppableProvider } from '../../src/billing/providers/stoppable-provider.ts'
import { billingRoutes } from '../../src/billing/routes.ts'
import { openAccess, type Scope, scopes } from '../../src/platform/access/access.ts'
import { openRateLimiter } from '../../src/platform/access/rate-limit.ts'
import { newToken } from '../../src/platform/access/token.ts'
import { insertToken } from '../../src/platform/access/token-rows.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { buildHttp } from '../../src/platform/http/http.ts'
import { openPatientPool } from '../patience.ts'
import { createDatabase, dropDatabase } from '../world.ts'
import { billingOn } from './scripted-billing.ts'
import { scriptedProvider } from './scripted-provider.ts'

type Script = ReturnType<typeof scriptedProvider>

export type BillingWorld = Awaited<ReturnType<typeof openBillingWorld>>

// biome-ignore lint/suspicious/noExplicitAny: stories read fields that their assertions pin down
export type Reply = { status: number; body: any; data: any; text: string; headers: Record<string, unknown> }

/**
 * Billing alone, on a real database and through its real routes, with a provider that follows a script and a clock that
 * stands still until it is turned: for races, crashes and answers that no provider gives on demand.
 */
export async function openBillingWorld(
  options: {
    now?: string | Date
    terms?: Partial<BillingTerms>
    stoppable?: boolean
    /** Where cards may have been stored before. */
    others?: readonly Script[]
    /** A database that is there already, and the provider that it dealt with. */
    on?: { url: string; script: Script }
  } = {},
) {
  const url = options.on?.url ?? (await createDatabase())
  const pool = openPatientPool(url, 20, 'test')
  let now = new Date(options.now ?? '2026-03-05T09:00:00+09:00')
  const clock: Clock = Object.assign(() => now, {
    sync: async () => {},
    moveTo: async (instant: Date) => {
      now = instant
    },
  })
  const script = options.on?.script ?? scriptedProvider()
  for (const one of [script, ...(options.others ?? [])]) one.setting.now = () => now
  const plain = billingOn(
    pool,
    clock,
    [script.provider, ...(options.others ?? []).map(({ provider }) => provider)],
    options.terms,
    script.vaultKey,
  )
  const app: BillingApp = options.stoppable ? { ...plain, providers: stoppable(plain) } : plain
  await seedPlans(app)
  const faults: unknown[] = []
  const http = buildHttp({
    access: openAccess(pool, clock),
    limiter: openRateLimiter(pool),
    openPrefixes: [],
    onAnswer: () => {},
    onFault: (error) => void faults.push(error),
  })
  billingRoutes(http, app)
  await http.ready()

  async function makeToken(
    grant: { scopes?: readonly Scope[]; account?: string | null } = {},
  ): Promise<string> {
    const made = newToken('test')
    const { account = '*' } = grant
    await insertToken(pool, made, {
      name: 'test',
      scopes: grant.scopes ?? (account === '*' ? scopes : scopes.filter((scope) => scope !== 'admin')),
      workspace: account === '*' ? '*' : null,
      account,
      createdAt: now,
      createdBy: 'test',
      expiresAt: null,
    })
    return made
  }
  const token = await makeToken()

  async function ask(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: object,
    more: { key?: string; token?: string } = {},
  ): Promise<Reply> {
    const answer = await http.inject({
      method,
      url: `/api/billing${path}`,
      headers: {
        authorization: `Bearer ${more.token ?? token}`,
        ...(more.key !== undefined && { 'idempotency-key': more.key }),
      },
      ...(body !== undefined && { payload: body }),
    })
    const parsed = answer.body === '' ? undefined : JSON.parse(answer.body)
    return {
      status: answer.statusCode,
      body: parsed,
      data: parsed?.data,
      text: answer.body,
      headers: answer.headers,
    }
  }

  /** A notification, byte for byte, with its signature. */
  async function deliver(path: string, payload: Buffer, headers: Record<string, string>): Promise<Reply> {
    const answer = await http.inject({ method: 'POST', url: `/api/billing${path}`, headers, payload })
    const parsed = JSON.parse(answer.body)
    return { status: answer.statusCode, body: parsed, data: parsed.data, text: answer.body, headers: {} }
  }

  /** Turns the clock by way of every due instant, as the sandbox's mover does. */
  async function advanceTo(instant: string | Date): Promise<void> {
    const target = new Date(instant)
    let stuckAt: Date | undefined
    for (let due = await nextDue(app); due && due <= target; due = await nextDue(app, stuckAt)) {
      if (due > now) now = due
      const counts = await runDue(app)
      if (!Object.values(counts).some((count) => count > 0)) stuckAt = due
    }
    now = target
    await runDue(app)
  }

  return {
    app,
    script,
    faults,
    makeToken,
    ask,
    deliver,
    get: (path: string, more?: { token?: string }) => ask('GET', path, undefined, more),
    post: (path: string, body: object, more?: { key?: string; token?: string }) =>
      ask('POST', path, body, more),
    advanceTo,
    /** Turns the clock as an outage does: nothing runs on the way. */
    skipTo(instant: string | Date): void {
      now = new Date(instant)
    },
    runDue: () => runDue(app),
    /** Lets every lease and every real-time wait run out, as if their owners had died long ago. */
    async forgetLeases(): Promise<void> {
      await pool.query(`update billing.payment set sending_until = null, next_lookup_at = clock_timestamp()
                        where status in ('sending', 'unknown')`)
      await pool.query(`update billing.refund set sending_until = null, next_lookup_at = clock_timestamp()
                        where status = 'pending'`)
      await pool.query(
        `update billing.payment_method set next_lookup_at = clock_timestamp() where state = 'pending'`,
      )
      await pool.query('update platform.idempotency_key set leased_until = null')
    },
    async subscribe(
      accountId: string,
      more: { plan?: string; card?: string; key?: string; timezone?: string } = {},
    ) {
      return ask(
        'POST',
        '/subscribe',
        {
          account_id: accountId,
          plan_id: more.plan ?? 'starter-monthly',
          payment_method: { billing_key: more.card ?? 'bk_test_ok' },
          ...(more.timezone !== undefined && { timezone: more.timezone }),
        },
        more.key === undefined ? {} : { key: more.key },
      )
    },
    async subscription(id: string) {
      return (await ask('GET', `/subscriptions/${id}`)).data
    },
    /** Newest first. */
    async invoices(accountId: string) {
      return (await ask('GET', `/invoices?account_id=${accountId}&limit=100`)).data.invoices
    },
    async rows<R extends object>(text: string, values: unknown[] = []): Promise<R[]> {
      return (await pool.query(text, values)).rows
    },
    /** What stands in each book of the ledger, in won unless said otherwise. */
    async books(currency = 'KRW'): Promise<Record<string, number>> {
      const found = await pool.query(
        `select e.book, sum(e.amount)::bigint as sum from billing.ledger_entry e
         join billing.ledger_transfer t on t.id = e.transfer_id where t.currency = $1 group by e.book`,
        [currency],
      )
      return Object.fromEntries(found.rows.map((row) => [row.book, Number(row.sum)]))
    },
    url,
    /** Closes it and leaves its database behind. */
    async leave(): Promise<void> {
      await http.close()
      await pool.end()
    },
    async close(): Promise<void> {
      await http.close()
      await pool.end()
      await dropDatabase(url)
    },
  }
}

function stoppable({ db, providers, clock }: BillingApp): Providers {
  const [forNew, ...others] = providers.all.map((provider) => {
    const { name } = provider
    const stop = openStopSwitch({
      isStopped: async () => (await findChargingStop(db, name)) !== undefined,
      onCredentialsRefused: () => stopForCredentials(db, name, clock()),
    })
    return stoppableProvider(provider, stop)
  })
  return providersOf([forNew!, ...others], async () => {})
}

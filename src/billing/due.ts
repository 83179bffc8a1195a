import { type RawBuilder, sql } from 'kysely'
import type { BillingApp, BillingStore } from './app.ts'
import { calendarStopped, isCalendarStopped } from './charging-stop-rows.ts'
import { deletePaymentMethods } from './collection/delete-payment-methods.ts'
import { resolveOpenPayments, sendUnsentPayments } from './collection/resolve-open-payments.ts'
import { retryDueInvoices } from './collection/retry-due-invoices.ts'
import { resumePaymentMethods } from './collection/try-payment-method.ts'
import { endCanceled, endTrials, endUnpaid } from './lifecycle/end-due-subscriptions.ts'
import { renewDueSubscriptions } from './lifecycle/renew-due-subscriptions.ts'
import { probeProviders } from './probe-provider.ts'
import { probeDue } from './probe-rows.ts'
import type { ProviderUse } from './providers/guarded-provider.ts'
import { followDisputes } from './reconciliation/follow-disputes.ts'
import { resumeRefunds } from './refunds/resume-refunds.ts'
import { notFailed, retriedByFailure, type Sweep } from './sweeps/sweep-failure-rows.ts'
import { forgetOverFailures } from './sweeps/sweep-failures.ts'
import { isOpenPayment } from './unsettled-rows.ts'
import { bodiesUntil, eraseOldBodies } from './webhooks/inbox-rows.ts'
import { processWebhooks } from './webhooks/process-webhook.ts'

/**
 * Does all that is due at or before now, one kind after the other. Ends come first, so that nothing is charged that
 * should have ended; what is in doubt comes last, so that a silent provider delays only itself.
 */
export async function runDue(
  app: BillingApp,
  appFor: (use: ProviderUse) => BillingApp = () => app,
): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  const failures: unknown[] = []
  for (const kinds of [dueByClock, dueByProvider]) {
    const isDue = await readDue(app, kinds)
    for (const [kind, { work, turn }] of Object.entries(kinds)) {
      try {
        counts[kind] = isDue[kind] ? await work(appFor(useOf[turn])) : 0
      } catch (error) {
        // One kind that fails must not keep the others waiting; its rows stay due.
        failures.push(error)
      }
    }
  }
  if (failures.length > 0) throw failures.length === 1 ? failures[0] : new AggregateError(failures)
  return counts
}

/** Work that goes on beside the rest: however long one turn takes, no other waits for it. */
export type DueTurn =
  | 'ends'
  | 'renewals'
  | 'retries'
  | 'sends'
  | 'probes'
  | 'lookups'
  | 'payment_methods'
  | 'refunds'
  | 'webhooks'

/** Whose places at the provider a turn takes. */
const useOf: Readonly<Record<DueTurn, ProviderUse>> = {
  ends: 'lookups',
  renewals: 'charges',
  retries: 'charges',
  sends: 'charges',
  probes: 'lookups',
  lookups: 'lookups',
  payment_methods: 'lookups',
  refunds: 'refunds',
  webhooks: 'webhooks',
}

/** The turns in which something is due. */
export async function listDueTurns(app: BillingApp): Promise<DueTurn[]> {
  const kinds = { ...dueByClock, ...dueByProvider }
  const isDue = await readDue(app, kinds)
  const due = Object.entries(kinds).filter(([kind]) => isDue[kind])
  return [...new Set(due.map(([, { turn }]) => turn))]
}

/** Does what is due in one turn. */
export async function runTurn(appFor: (use: ProviderUse) => BillingApp, turn: DueTurn): Promise<void> {
  const app = appFor(useOf[turn])
  const failures: unknown[] = []
  // What shares this turn may be due while the calendar stands still.
  const stopped = await isCalendarStopped(app.db)
  for (const kind of Object.values({ ...(stopped ? {} : dueByClock), ...dueByProvider })) {
    if (kind.turn !== turn || app.stopping?.aborted) continue
    try {
      await kind.work(app)
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}

type Kind = {
  readonly turn: DueTurn
  readonly work: (app: BillingApp) => Promise<number>
  /** Selects a row if there is anything to do, by an index: the order keeps it from reading the table for want of one. */
  readonly due: (now: Date) => RawBuilder<unknown>
}

const dueByClock: Readonly<Record<string, Kind>> = {
  cancellations: {
    turn: 'ends',
    work: endCanceled,
    due: (now) => sql`
      (select from billing.subscription
       where status = 'canceling' and cancel_at <= ${now} and ${notFailed('cancellations', sql.ref('id'))}
       order by cancel_at limit 1)
      union all ${failed('cancellations')}`,
  },
  trials_ended: {
    turn: 'ends',
    work: endTrials,
    due: (now) => sql`
      (select from billing.subscription
       where status = 'trialing' and payment_method_id is null and next_billing_at <= ${now}
         and ${notFailed('trials_ended', sql.ref('id'))}
       order by next_billing_at limit 1)
      union all ${failed('trials_ended')}`,
  },
  renewals: {
    turn: 'renewals',
    work: renewDueSubscriptions,
    due: (now) => sql`
      (select from billing.subscription
       where status in ('active', 'trialing') and next_billing_at <= ${now} and ${notFailed('renewals', sql.ref('id'))}
       order by next_billing_at limit 1)
      union all ${failed('renewals')}`,
  },
  retries: {
    turn: 'retries',
    work: retryDueInvoices,
    due: (now) => sql`
      (select from billing.invoice
       where due_at <= ${now} and dunning = 'retry' and ${notFailed('retries', sql.ref('subscription_id'))}
       order by due_at limit 1)
      union all ${failed('retries')}`,
  },
  given_up: {
    turn: 'ends',
    work: endUnpaid,
    due: (now) => sql`
      (select from billing.invoice
       where due_at <= ${now} and dunning = 'give_up' and ${notFailed('given_up', sql.ref('subscription_id'))}
       order by due_at limit 1)
      union all ${failed('given_up')}`,
  },
}

const dueByProvider: Readonly<Record<string, Kind>> = {
  // Whoever asks a silent provider may wait for as long as a call may take, and nobody waits behind that.
  provider_probed: { turn: 'probes', work: probeProviders, due: probeDue },
  payments_looked_up: {
    turn: 'lookups',
    work: resolveOpenPayments,
    due: (now) => dueAttempts(now, sql`sent_at is not null`),
  },
  payments_sent: {
    turn: 'sends',
    work: sendUnsentPayments,
    due: (now) => dueAttempts(now, sql`sent_at is null`),
  },
  disputes_looked_up: {
    turn: 'lookups',
    work: followDisputes,
    due: (now) => sql`
      select from billing.payment where dispute_status = 'open' and dispute_lookup_at <= ${now}`,
  },
  payment_methods_resumed: {
    turn: 'payment_methods',
    work: resumePaymentMethods,
    due: () => sql`
      select from billing.payment_method where state = 'pending' and next_lookup_at <= statement_timestamp()`,
  },
  // The API's name for it: the answer of a clock move counts what was done by these names.
  cards_deleted: {
    turn: 'payment_methods',
    work: deletePaymentMethods,
    due: () => sql`
      select from billing.payment_method_to_delete
      where next_try_at <= statement_timestamp() order by next_try_at limit 1`,
  },
  refunds_resumed: {
    turn: 'refunds',
    work: resumeRefunds,
    due: (now) => sql`
      (select from billing.refund
       where status = 'pending' and next_lookup_at <= statement_timestamp() order by next_lookup_at limit 1)
      union all (select from billing.refund
       where status = 'pending' and lookup_by <= ${now} order by lookup_by limit 1)`,
  },
  bodies_erased: {
    turn: 'webhooks',
    work: (app) => eraseOldBodies(app.db, app.clock()),
    due: (now) =>
      sql`select from billing.webhook where sealed is not null and received_at <= ${bodiesUntil(now)}`,
  },
  webhooks: {
    turn: 'webhooks',
    work: processWebhooks,
    due: () => sql`select from billing.webhook where status = 'waiting'`,
  },
  failures_over: {
    turn: 'ends',
    work: forgetOverFailures,
    due: () => sql`select from billing.sweep_failure where sweep <> all (${retriedByFailure})`,
  },
}

function dueAttempts(now: Date, which: RawBuilder<unknown>): RawBuilder<unknown> {
  const open = sql`select from billing.payment where ${isOpenPayment()} and ${which}`
  return sql`
    (${open} and next_lookup_at <= statement_timestamp() order by next_lookup_at limit 1)
    union all (${open} and lookup_by <= ${now} order by lookup_by limit 1)`
}

/** Rows that failed in this sweep and are to be tried again. */
function failed(sweep: Sweep): RawBuilder<unknown> {
  return sql`select from billing.sweep_failure where sweep = ${sweep} and next_try_at <= statement_timestamp()`
}

/** One round trip tells which kinds have work, so that a quiet second, or a stop of a moved clock, costs little. */
async function readDue(
  app: BillingApp,
  kinds: Readonly<Record<string, Kind>>,
): Promise<Record<string, boolean>> {
  const now = app.clock()
  const columns = Object.entries(kinds).map(([kind, { due }]) => {
    const unlessStopped = kind in dueByClock ? sql`not ${calendarStopped} and` : sql``
    return sql`${unlessStopped} exists (${due(now)}) as ${sql.ref(kind)}`
  })
  const found = await sql<Record<string, boolean>>`select ${sql.join(columns)}`.execute(app.db)
  return found.rows[0]!
}

type DueDates = {
  cancellations: Date | null
  renewals: Date | null
  dunning: Date | null
  payments: Date | null
  refunds: Date | null
  disputes: Date | null
}

/**
 * The earliest instant at which a row falls due; with `after`, the earliest past that. Charges and refunds that wait for
 * the provider in real time are not among them: moving the clock brings their answer no nearer.
 */
export async function nextDue(app: BillingApp, after?: Date): Promise<Date | null> {
  const { payments, refunds, disputes, ...byClock } = await readDueDates(app, after)
  const stopped = await isCalendarStopped(app.db)
  const dates = [payments, refunds, disputes, ...(stopped ? [] : Object.values(byClock))].filter(
    (date) => date !== null,
  )
  return dates.length === 0 ? null : new Date(Math.min(...dates.map((date) => date.getTime())))
}

/** How long the oldest work of each kind has been due, in seconds. */
export async function overdueSeconds(app: BillingStore): Promise<Record<keyof DueDates, number>> {
  const now = app.clock().getTime()
  const dates = await readDueDates(app)
  const age = (date: Date | null) => (date === null ? 0 : Math.max(0, (now - date.getTime()) / 1000))
  return {
    cancellations: age(dates.cancellations),
    renewals: age(dates.renewals),
    dunning: age(dates.dunning),
    payments: age(dates.payments),
    refunds: age(dates.refunds),
    disputes: age(dates.disputes),
  }
}

async function readDueDates(app: BillingStore, after = new Date(0)): Promise<DueDates> {
  const found = await sql<DueDates>`
    select
      (select min(cancel_at) from billing.subscription
       where status = 'canceling' and cancel_at > ${after}) as cancellations,
      (select min(next_billing_at) from billing.subscription
       where status in ('active', 'trialing') and next_billing_at > ${after}) as renewals,
      (select min(due_at) from billing.invoice where due_at is not null and due_at > ${after}) as dunning,
      (select min(lookup_by) from billing.payment
       where ${isOpenPayment()} and lookup_by is not null and lookup_by > ${after}) as payments,
      (select min(lookup_by) from billing.refund
       where status = 'pending' and lookup_by is not null and lookup_by > ${after}) as refunds,
      (select min(dispute_lookup_at) from billing.payment
       where dispute_status = 'open' and dispute_lookup_at > ${after}) as disputes`.execute(app.db)
  return found.rows[0]!
}

/** Charges and refunds whose outcome nobody knows yet. */
export async function countUnsettled(app: BillingStore): Promise<number> {
  const found = await sql<{ count: number }>`
    select (select count(*) from billing.payment where ${isOpenPayment()})::int
         + (select count(*) from billing.refund where status = 'pending')::int as count`.execute(app.db)
  return found.rows[0]!.count
}

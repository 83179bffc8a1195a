import { type RawBuilder, sql } from 'kysely'
import type { BillingApp } from './app.ts'
import { takeUpRefunds } from './refunds/take-up-refunds.ts'
import { endCanceled, endTrials, endUnpaid } from './subscriptions/end-due-subscriptions.ts'
import { renewDueSubscriptions } from './subscriptions/renew-due-subscriptions.ts'
import { retryDueInvoices } from './subscriptions/retry-due-invoices.ts'
import { takeUpPayments } from './subscriptions/take-up-payments.ts'
import { takeUpCards } from './subscriptions/use-card.ts'
import { eraseOldBodies } from './webhooks/inbox-rows.ts'
import { processWebhooks } from './webhooks/process-webhook.ts'

/**
 * Does all that is due at or before now. Ends come first, so that nothing is charged that should have ended; what is
 * in doubt comes last, so that a silent provider delays only itself.
 */
export async function runDue(app: BillingApp): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  const failures: unknown[] = []
  for (const kinds of [dueByClock, dueByProvider]) {
    const isDue = await readDue(app, kinds)
    for (const [kind, { work }] of Object.entries(kinds)) {
      try {
        counts[kind] = isDue[kind] ? await work(app) : 0
      } catch (error) {
        // One kind that fails must not keep the others waiting; its rows stay due.
        failures.push(error)
      }
    }
  }
  if (failures.length > 0) throw failures.length === 1 ? failures[0] : new AggregateError(failures)
  return counts
}

type Kind = {
  readonly work: (app: BillingApp) => Promise<number>
  /** Selects a row if there is anything to do, by an index. Without it the work is tried every time. */
  readonly due?: (now: Date) => RawBuilder<unknown>
}

const dueByClock: Readonly<Record<string, Kind>> = {
  cancellations: {
    work: endCanceled,
    due: (now) => sql`select from billing.subscription where status = 'canceling' and cancel_at <= ${now}`,
  },
  trials_ended: {
    work: endTrials,
    due: (now) => sql`
      select from billing.subscription
      where status = 'trialing' and payment_method_id is null and next_billing_at <= ${now}`,
  },
  renewals: {
    work: renewDueSubscriptions,
    due: (now) => sql`
      select from billing.subscription where status in ('active', 'trialing') and next_billing_at <= ${now}`,
  },
  retries: {
    work: retryDueInvoices,
    due: (now) => sql`select from billing.invoice where due_at <= ${now} and dunning = 'retry'`,
  },
  given_up: {
    work: endUnpaid,
    due: (now) => sql`select from billing.invoice where due_at <= ${now} and dunning = 'give_up'`,
  },
}

const dueByProvider: Readonly<Record<string, Kind>> = {
  payments_looked_up: {
    work: takeUpPayments,
    due: (now) => sql`
      select from billing.payment
      where status in ('sending', 'unknown') and (look_at <= statement_timestamp() or check_at <= ${now})`,
  },
  cards_taken_up: {
    work: takeUpCards,
    due: () => sql`
      select from billing.payment_method where state = 'pending' and look_at <= statement_timestamp()`,
  },
  refunds_taken_up: {
    work: takeUpRefunds,
    due: (now) => sql`
      select from billing.refund
      where status = 'pending' and (look_at <= statement_timestamp() or check_at <= ${now})`,
  },
  bodies_erased: { work: (app) => eraseOldBodies(app.db, app.clock()) },
  webhooks: { work: processWebhooks },
}

/** One round trip tells which kinds have work, so that a quiet second, or a stop of a moved clock, costs little. */
async function readDue(
  app: BillingApp,
  kinds: Readonly<Record<string, Kind>>,
): Promise<Record<string, boolean>> {
  const now = app.clock()
  const columns = Object.entries(kinds).map(([kind, { due }]) =>
    due ? sql`exists (${due(now)}) as ${sql.ref(kind)}` : sql`true as ${sql.ref(kind)}`,
  )
  const found = await sql<Record<string, boolean>>`select ${sql.join(columns)}`.execute(app.db)
  return found.rows[0]!
}

type DueDates = {
  cancellations: Date | null
  renewals: Date | null
  dunning: Date | null
  payments: Date | null
  refunds: Date | null
}

/**
 * The earliest instant at which a row falls due. Charges and refunds that wait for the provider in real time are not
 * among them: moving the clock brings their answer no nearer.
 */
export async function nextDue(app: BillingApp): Promise<Date | null> {
  const dates = Object.values(await readDueDates(app)).filter((date) => date !== null)
  return dates.length === 0 ? null : new Date(Math.min(...dates.map((date) => date.getTime())))
}

/** How long the oldest work of each kind has been due, in seconds. */
export async function overdueSeconds(app: BillingApp): Promise<Record<keyof DueDates, number>> {
  const now = app.clock().getTime()
  const dates = await readDueDates(app)
  const age = (date: Date | null) => (date === null ? 0 : Math.max(0, (now - date.getTime()) / 1000))
  return {
    cancellations: age(dates.cancellations),
    renewals: age(dates.renewals),
    dunning: age(dates.dunning),
    payments: age(dates.payments),
    refunds: age(dates.refunds),
  }
}

async function readDueDates(app: BillingApp): Promise<DueDates> {
  const found = await sql<DueDates>`
    select
      (select min(cancel_at) from billing.subscription where status = 'canceling') as cancellations,
      (select min(next_billing_at) from billing.subscription where status in ('active', 'trialing')) as renewals,
      (select min(due_at) from billing.invoice where due_at is not null) as dunning,
      (select min(check_at) from billing.payment
       where status in ('sending', 'unknown') and check_at is not null) as payments,
      (select min(check_at) from billing.refund
       where status = 'pending' and check_at is not null) as refunds`.execute(app.db)
  return found.rows[0]!
}

/** Charges and refunds whose outcome nobody knows yet. */
export async function countUnsettled(app: BillingApp): Promise<number> {
  const found = await sql<{ count: number }>`
    select (select count(*) from billing.payment where status in ('sending', 'unknown'))::int
         + (select count(*) from billing.refund where status = 'pending')::int as count`.execute(app.db)
  return found.rows[0]!.count
}

import { type RawBuilder, sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'
import { isOpenPayment } from '../unsettled-rows.ts'

/** The regular looks for due rows that work on many rows, each of which may be broken in its own way. */
export type Sweep = (typeof retriedByFailure)[number] | (typeof retriedByRow)[number]

/** Their rows are left out of the sweep after a failure, and tried again when its record here says so. */
export const retriedByFailure = ['cancellations', 'trials_ended', 'renewals', 'retries', 'given_up'] as const

/** Their rows carry the time of their next lookup themselves. */
const retriedByRow = ['payments', 'payment_methods', 'refunds', 'disputes'] as const

/** The rows of a batch, or one of them on its own. */
export type Which = { readonly limit: number } | { readonly id: string }

/** Which of the due rows a statement is about: one named, or those that no failure keeps back. */
export function wanted(sweep: Sweep, id: RawBuilder<unknown>, which: Which): RawBuilder<unknown> {
  return 'id' in which ? sql`${id} = ${which.id}` : notFailed(sweep, id)
}

export function limitOf(which: Which): number {
  return 'id' in which ? 1 : which.limit
}

/** Leaves out rows that failed: those are tried on their own, at growing intervals. */
export function notFailed(sweep: Sweep, id: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`not exists (select from billing.sweep_failure f where f.sweep = ${sweep} and f.subject = ${id})`
}

const firstWaitSeconds = 10
const longestWaitSeconds = 3_600

/** Counts a failure of a row and says when it is tried again: ever later, by real time. */
export async function countFailure(
  tx: BillingTx,
  { sweep, subject, reason }: { sweep: Sweep; subject: string; reason: string },
  now: Date,
): Promise<Date> {
  const counted = await sql<{ next_try_at: Date }>`
    insert into billing.sweep_failure as f (sweep, subject, reason, failures, first_at, last_at, next_try_at)
    values (${sweep}, ${subject}, ${reason}, 1, ${now}, ${now},
      clock_timestamp() + make_interval(secs => ${firstWaitSeconds}))
    on conflict (sweep, subject) do update
      set reason = excluded.reason, failures = f.failures + 1, last_at = excluded.last_at,
        next_try_at = clock_timestamp()
          + make_interval(secs => least(${longestWaitSeconds}, ${firstWaitSeconds} * 2 ^ least(f.failures, 20)))
    returning next_try_at`.execute(tx)
  return counted.rows[0]!.next_try_at
}

/** Rows that carry the time of their next lookup wait until then. */
export async function putOff(tx: BillingTx, sweep: Sweep, id: string, until: Date): Promise<void> {
  if (sweep === 'payments')
    await sql`
      update billing.payment set next_lookup_at = ${until}, sending_until = null
      where id = ${id} and ${isOpenPayment()}`.execute(tx)
  if (sweep === 'refunds')
    await sql`
      update billing.refund set next_lookup_at = ${until}, sending_until = null
      where id = ${id} and status = 'pending'`.execute(tx)
  if (sweep === 'payment_methods')
    await sql`
      update billing.payment_method set next_lookup_at = ${until}
      where id = ${id} and state = 'pending'`.execute(tx)
}

/** Those whose wait is over. */
export async function listFailed(db: BillingDb, sweep: Sweep): Promise<string[]> {
  const found = await sql<{ subject: string }>`
    select subject from billing.sweep_failure
    where sweep = ${sweep} and next_try_at <= statement_timestamp()
    order by next_try_at limit 100`.execute(db)
  return found.rows.map(({ subject }) => subject)
}

export async function deleteFailure(db: BillingDb, sweep: Sweep, subject: string): Promise<void> {
  await sql`delete from billing.sweep_failure where sweep = ${sweep} and subject = ${subject}`.execute(db)
}

/** Failures of rows that were looked up successfully since or have ended, and those of a sweep that only another release knows. */
export async function listOverFailures(db: BillingDb): Promise<{ sweep: Sweep; subject: string }[]> {
  const found = await sql<{ sweep: Sweep; subject: string }>`
    select f.sweep, f.subject from billing.sweep_failure f
    -- Single values, each found by its key: what is asked whether it exists may be read whole to be remembered.
    where (case f.sweep
        when 'payments' then (
          select true from billing.payment p where p.id = f.subject and ${isOpenPayment('p')})
        when 'refunds' then (select true from billing.refund where id = f.subject and status = 'pending')
        when 'payment_methods' then coalesce(
          (select true from billing.payment_method where id = f.subject and state = 'pending'),
          (select true from billing.payment_method_to_delete where payment_method_id = f.subject))
        when 'disputes' then (
          select true from billing.payment
          where id = f.subject and dispute_status = 'open'
            -- Whoever fails comes back within the hour, whoever does not in a day.
            and dispute_lookup_at <= f.last_at + interval '2 hours')
        else f.sweep = any (${[...retriedByFailure]})
      end) is not true
    limit 1000`.execute(db)
  return found.rows
}

export type SweepFailure = {
  readonly sweep: Sweep
  readonly subject: string
  readonly reason: string
  readonly failures: number
  readonly firstAt: Date
  readonly nextTryAt: Date
}

/** The longest standing first. */
export async function listSweepFailures(db: BillingDb, limit: number): Promise<SweepFailure[]> {
  const found = await sql<SweepFailure>`
    select sweep, subject, reason, failures, first_at as "firstAt", next_try_at as "nextTryAt"
    from billing.sweep_failure order by first_at, sweep, subject limit ${limit}`.execute(db)
  return found.rows
}

export async function countSweepFailures(db: BillingDb): Promise<Record<string, number>> {
  const found = await sql<{ sweep: string; n: number }>`
    select sweep, count(*)::int as n from billing.sweep_failure group by sweep`.execute(db)
  return Object.fromEntries(found.rows.map(({ sweep, n }) => [sweep, n]))
}

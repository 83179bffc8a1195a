import { type RawBuilder, sql } from 'kysely'
import { clearAlarm, raiseAlarm } from '../platform/alarm.ts'
import { troubleOf } from '../platform/database/database-errors.ts'
import type { BillingApp, BillingDb, BillingTx } from './app.ts'

/** The regular looks for due rows that work on many rows, each of which may be broken in its own way. */
export type Sweep = (typeof retriedByFailure)[number] | (typeof retriedByRow)[number]

/** Their rows are left out of the sweep after a failure, and tried again when its record here says so. */
export const retriedByFailure = ['cancellations', 'trials_ended', 'renewals', 'retries', 'given_up'] as const

/** Their rows carry the time of their next lookup themselves. */
const retriedByRow = ['payments', 'payment_methods', 'refunds', 'disputes'] as const

/** The rows of a batch, or one of them on its own. */
export type Which = { readonly limit: number } | { readonly id: string }

/** A sweep over due rows that are locked and worked on in transactions. */
export type Batched<Row extends { readonly id: string }, Result> = {
  readonly sweep: Sweep
  readonly lock: (tx: BillingTx, now: Date, which: Which) => Promise<readonly Row[]>
  readonly act: (tx: BillingTx, now: Date, rows: readonly Row[]) => Promise<Result>
}

/**
 * Works on the next batch in one transaction. Should that fail, each of its members is tried alone, and the one that
 * fails alone is noted and left out until its next try: a broken row costs its neighbours nothing but time. Says how
 * many rows it was, and what came of each transaction.
 */
export async function workBatch<Row extends { readonly id: string }, Result>(
  app: BillingApp,
  batched: Batched<Row, Result>,
  limit: number,
): Promise<{ rows: number; results: Result[] }> {
  let ids: string[] = []
  try {
    const result = await workOn(app, batched, { limit }, (rows) => {
      ids = rows.map(({ id }) => id)
    })
    return { rows: ids.length, results: result === undefined ? [] : [result] }
  } catch (error) {
    if (ids.length === 0 || concernsAll(error)) throw error
    const results: Result[] = []
    for (const id of new Set(ids)) results.push(...(await workAlone(app, batched, id)))
    // When none of many can be worked on, it is hardly their fault: better to stop here than to note every row there is.
    if (results.length === 0 && ids.length > mostBroken) throw error
    return { rows: ids.length, results }
  }
}

const mostBroken = 8

/** Tries again those that failed before and whose wait is over. */
export async function workFailed<Row extends { readonly id: string }, Result>(
  app: BillingApp,
  batched: Batched<Row, Result>,
): Promise<Result[]> {
  const results: Result[] = []
  for (const id of await listFailed(app.db, batched.sweep)) {
    if (app.stopping?.aborted) break
    const done = await workAlone(app, batched, id, true)
    results.push(...done)
  }
  return results
}

async function workAlone<Row extends { readonly id: string }, Result>(
  app: BillingApp,
  batched: Batched<Row, Result>,
  id: string,
  failedBefore = false,
): Promise<Result[]> {
  try {
    const result = await workOn(app, batched, { id })
    if (failedBefore) await forgetFailure(app.db, batched.sweep, id)
    return result === undefined ? [] : [result]
  } catch (error) {
    await noteFailure(app, batched.sweep, id, error)
    return []
  }
}

/** Undefined: nothing was there to work on. */
async function workOn<Row extends { readonly id: string }, Result>(
  app: BillingApp,
  { lock, act }: Batched<Row, Result>,
  which: Which,
  onLocked: (rows: readonly Row[]) => void = () => {},
): Promise<Result | undefined> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    const rows = await lock(tx, now, which)
    onLocked(rows)
    return rows.length === 0 ? undefined : act(tx, now, rows)
  })
}

/** Works on one row that a sweep has taken. Its failure is its own. */
export async function workIsolated(
  app: BillingApp,
  sweep: Sweep,
  id: string,
  work: () => Promise<unknown>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    await noteFailure(app, sweep, id, error)
  }
}

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

/** The database's own trouble says nothing about a row. A lock that is not to be had does: somebody holds that one. */
export function concernsAll(error: unknown): boolean {
  const trouble = troubleOf(error)
  if (trouble === 'conflict' || trouble === 'too_slow') return false
  if (trouble !== undefined) return true
  const code = (error as { code?: unknown } | null)?.code
  // No such table or right, resources, system: the classes of SQLSTATE that no row causes.
  return typeof code === 'string' && /^(?:42|53|57|58|XX)...$/.test(code)
}

const firstWaitSeconds = 10
const longestWaitSeconds = 3_600

/** Counts a failure, sets the next try and tells the operator. What concerns all rows is thrown on. */
export async function noteFailure(
  app: BillingApp,
  sweep: Sweep,
  subject: string,
  error: unknown,
): Promise<void> {
  if (concernsAll(error)) throw error
  const now = app.clock()
  const reason = reasonOf(error)
  await app.db.transaction().execute(async (tx) => {
    const noted = await sql<{ next_try_at: Date }>`
      insert into billing.sweep_failure as f (sweep, subject, reason, failures, first_at, last_at, next_try_at)
      values (${sweep}, ${subject}, ${reason}, 1, ${now}, ${now},
        clock_timestamp() + make_interval(secs => ${firstWaitSeconds}))
      on conflict (sweep, subject) do update
        set reason = excluded.reason, failures = f.failures + 1, last_at = excluded.last_at,
          next_try_at = clock_timestamp()
            + make_interval(secs => least(${longestWaitSeconds}, ${firstWaitSeconds} * 2 ^ least(f.failures, 20)))
      returning next_try_at`.execute(tx)
    await putOff(tx, sweep, subject, noted.rows[0]!.next_try_at)
    const note = `The sweep "${sweep}" fails on it (${reason}). Put the row right; it is tried again by itself, ever more rarely.`
    await raiseAlarm(tx, { kind: 'sweep_failed', subject, note }, now)
  })
}

/** Rows that carry the time of their next lookup wait until then. */
async function putOff(tx: BillingTx, sweep: Sweep, id: string, until: Date): Promise<void> {
  if (sweep === 'payments')
    await sql`
      update billing.payment set next_lookup_at = ${until}, sending_until = null
      where id = ${id} and status in ('sending', 'unknown')`.execute(tx)
  if (sweep === 'refunds')
    await sql`
      update billing.refund set next_lookup_at = ${until}, sending_until = null
      where id = ${id} and status = 'pending'`.execute(tx)
  if (sweep === 'payment_methods')
    await sql`
      update billing.payment_method set next_lookup_at = ${until}
      where id = ${id} and state = 'pending'`.execute(tx)
}

/** Type and code; a message may quote what nobody should read. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const code = (error as { code?: unknown }).code
  return typeof code === 'string' ? `${error.constructor.name} ${code}` : error.constructor.name
}

async function listFailed(db: BillingDb, sweep: Sweep): Promise<string[]> {
  const found = await sql<{ subject: string }>`
    select subject from billing.sweep_failure
    where sweep = ${sweep} and next_try_at <= statement_timestamp()
    order by next_try_at limit 100`.execute(db)
  return found.rows.map(({ subject }) => subject)
}

async function forgetFailure(db: BillingDb, sweep: Sweep, subject: string): Promise<void> {
  await sql`delete from billing.sweep_failure where sweep = ${sweep} and subject = ${subject}`.execute(db)
  await clearAlarm(db, 'sweep_failed', subject)
}

/**
 * Forgets failures of payments, refunds, payment methods and disputes that were looked up successfully since, and those of
 * a sweep that only another release knows. Says how many.
 */
export async function forgetOverFailures(app: BillingApp): Promise<number> {
  const over = await sql<{ sweep: Sweep; subject: string }>`
    select f.sweep, f.subject from billing.sweep_failure f
    where f.sweep = 'payments' and not exists (
        select from billing.payment p where p.id = f.subject and p.status in ('sending', 'unknown'))
      or f.sweep = 'refunds' and not exists (
        select from billing.refund r where r.id = f.subject and r.status = 'pending')
      or f.sweep = 'payment_methods' and not exists (
        select from billing.payment_method m where m.id = f.subject and m.state = 'pending')
        and not exists (select from billing.payment_method_to_delete d where d.payment_method_id = f.subject)
      or f.sweep = 'disputes' and not exists (
        select from billing.payment p
        where p.id = f.subject and p.dispute_status = 'open'
          -- Whoever fails comes back within the hour, whoever does not in a day.
          and p.dispute_lookup_at <= f.last_at + interval '2 hours')
      or f.sweep <> all (${[...retriedByFailure, ...retriedByRow]})
    limit 1000`.execute(app.db)
  for (const { sweep, subject } of over.rows) await forgetFailure(app.db, sweep, subject)
  return over.rows.length
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

import { clearAlarm, raiseAlarm } from '../../platform/alarm.ts'
import { troubleOf } from '../../platform/database/database-errors.ts'
import { storedReason } from '../../platform/log/describe-error.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import {
  countFailure,
  deleteFailure,
  listFailed,
  listOverFailures,
  putOff,
  type Sweep,
  type Which,
} from './sweep-failure-rows.ts'

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
    if (failedBefore) await forgetFailure(app, batched.sweep, id)
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

/** The database's own trouble says nothing about a row. A lock that is not to be had does: somebody holds that one. */
export function concernsAll(error: unknown): boolean {
  const trouble = troubleOf(error)
  if (trouble === 'conflict' || trouble === 'too_slow') return false
  if (trouble !== undefined) return true
  const code = (error as { code?: unknown } | null)?.code
  // No such table or right, resources, system: the classes of SQLSTATE that no row causes.
  return typeof code === 'string' && /^(?:42|53|57|58|XX)...$/.test(code)
}

/** Counts a failure, sets the next try and tells the operator. What concerns all rows is thrown on. */
export async function noteFailure(
  app: BillingApp,
  sweep: Sweep,
  subject: string,
  error: unknown,
): Promise<void> {
  if (concernsAll(error)) throw error
  const now = app.clock()
  const reason = storedReason(error)
  await app.db.transaction().execute(async (tx) => {
    const nextTryAt = await countFailure(tx, { sweep, subject, reason }, now)
    await putOff(tx, sweep, subject, nextTryAt)
    const note = `The sweep "${sweep}" fails on it (${reason}). Put the row right; it is tried again by itself, ever more rarely.`
    await raiseAlarm(tx, { kind: 'sweep_failed', subject, note }, now)
  })
}

/** Together: nobody would look for the alarm of a failure that is forgotten. */
async function forgetFailure(app: BillingApp, sweep: Sweep, subject: string): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    await deleteFailure(tx, sweep, subject)
    await clearAlarm(tx, 'sweep_failed', subject)
  })
}

/**
 * Forgets failures of payments, refunds, payment methods and disputes that were looked up successfully since, and those of
 * a sweep that only another release knows. Says how many.
 */
export async function forgetOverFailures(app: BillingApp): Promise<number> {
  const over = await listOverFailures(app.db)
  for (const { sweep, subject } of over) await forgetFailure(app, sweep, subject)
  return over.length
}

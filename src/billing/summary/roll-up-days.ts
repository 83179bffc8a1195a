import { addDays, dayOf } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { findFirstDay, findRolledUntil, insertDayTotals, lockDayTotals } from '../ledger/day-total-rows.ts'

const mostDays = 31
// A transaction that read the clock before midnight has ended by then.
const settledAfterMs = 3_600_000

/** Adds up the days that are over, some at a time, so that a chart of a year reads a few hundred rows and not a million. */
export async function rollUpDays(app: BillingApp): Promise<void> {
  const zone = app.terms.timeZone
  const end = dayOf(new Date(app.clock().getTime() - settledAfterMs), zone)
  await app.db.transaction().execute(async (tx) => {
    await lockDayTotals(tx)
    const from = (await findRolledUntil(tx, zone)) ?? (await findFirstDay(tx, zone))
    if (from === undefined || from >= end) return
    const until = [addDays(from, mostDays), end].sort()[0]!
    await insertDayTotals(tx, zone, from, until)
  })
}

import { sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BillingDb, BillingTx } from '../app.ts'

export type DayTotal = { day: Day; currency: string; paid: bigint; refunded: bigint }

/** Whoever adds days up keeps others from adding up the same ones until their transaction ends. */
export async function lockDayTotals(tx: BillingTx): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtext('billing.day_total'))`.execute(tx)
}

/** Adds up some days from the ledger, and remembers until when. */
export async function insertDayTotals(tx: BillingTx, zone: string, from: Day, until: Day): Promise<void> {
  await sql`
    insert into billing.day_total (zone, day, currency, paid, refunded)
    select ${zone}, day, currency, paid, refunded from ${totalsBetween(zone, from, until)} t`.execute(tx)
  await sql`
    insert into billing.day_total_until (zone, until) values (${zone}, ${until})
    on conflict (zone) do update set until = excluded.until`.execute(tx)
}

/** What is booked as of an earlier day belongs to that day's total: it is added up anew, with those after it. */
export async function reopenDays(tx: BillingTx, at: Date): Promise<void> {
  await lockDayTotals(tx)
  await sql`
    with reopened as (
      update billing.day_total_until set until = (${at}::timestamptz at time zone zone)::date
      where until > (${at}::timestamptz at time zone zone)::date
      returning zone, until)
    delete from billing.day_total d using reopened r where d.zone = r.zone and d.day >= r.until`.execute(tx)
}

/** What each day took and gave back: finished days as they were added up, the rest from the ledger itself. */
export async function readDayTotals(db: BillingDb, zone: string, from: Day, until: Day): Promise<DayTotal[]> {
  const rolled = (await findRolledUntil(db, zone)) ?? from
  const live = rolled > from ? rolled : from
  const found = await sql<DayTotal>`
    select day::text, currency, paid, refunded from billing.day_total
    where zone = ${zone} and day >= ${from} and day < ${until}
    union all
    select day::text, currency, paid, refunded from ${totalsBetween(zone, live, until)} t
    order by 1, 2`.execute(db)
  return found.rows
}

function totalsBetween(zone: string, from: Day, until: Day) {
  return sql`(
    select (t.occurred_at at time zone ${zone})::date as day, t.currency,
      coalesce(-sum(e.amount) filter (where e.book = 'revenue'), 0)::bigint as paid,
      coalesce(sum(e.amount) filter (where e.book = 'refunds'), 0)::bigint as refunded
    from billing.ledger_transfer t join billing.ledger_entry e on e.transfer_id = t.id
    where t.occurred_at >= (${from}::date)::timestamp at time zone ${zone}
      and t.occurred_at < (${until}::date)::timestamp at time zone ${zone}
      and e.book in ('revenue', 'refunds')
    group by 1, 2)`
}

/** The first day that is not added up yet. */
export async function findRolledUntil(db: BillingDb, zone: string): Promise<Day | undefined> {
  const found = await sql<{ until: Day }>`
    select until::text from billing.day_total_until where zone = ${zone}`.execute(db)
  return found.rows[0]?.until
}

/** The day of the first transfer there is. */
export async function findFirstDay(db: BillingDb, zone: string): Promise<Day | undefined> {
  const found = await sql<{ day: Day | null }>`
    select (min(occurred_at) at time zone ${zone})::date::text as day from billing.ledger_transfer`.execute(
    db,
  )
  return found.rows[0]?.day ?? undefined
}

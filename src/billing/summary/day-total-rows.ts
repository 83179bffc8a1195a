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

/** The same for one account, from its invoices. */
export async function readAccountDayTotals(
  db: BillingDb,
  accountId: string,
  zone: string,
  from: Day,
  until: Day,
): Promise<DayTotal[]> {
  const found = await sql<DayTotal>`
    with own as (select id, currency, amount_paid, paid_at from billing.invoice where account_id = ${accountId}),
    moved as (
      select (paid_at at time zone ${zone})::date as day, currency, amount_paid as paid, 0::bigint as refunded
      from own where paid_at is not null
      union all
      select (r.settled_at at time zone ${zone})::date, r.currency, 0, r.amount
      from own join billing.refund r on r.invoice_id = own.id where r.status = 'succeeded'
    )
    select day::text, currency, sum(paid)::bigint as paid, sum(refunded)::bigint as refunded from moved
    where day >= ${from}::date and day < ${until}::date group by day, currency order by 1, 2`.execute(db)
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

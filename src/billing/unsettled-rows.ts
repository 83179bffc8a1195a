import { sql } from 'kysely'
import type { BillingDb } from './app.ts'

/**
 * Makes charges and refunds that wait due at once: those that nobody answered, those whose send nobody answered though
 * lookups are, or those that nothing has been sent for; at one provider, or at all of them. Whoever is at one of them
 * right now is left alone. They are locked in the order of their ids, because several processes may wake at once.
 */
export async function wakeUnsettled(
  db: BillingDb,
  which: 'unanswered' | 'sent' | 'unsent',
  provider?: string,
): Promise<number> {
  const wanted = {
    // While charging is stopped, what is unsent stays so.
    unanswered: sql`unanswered and (sent_at is not null or not exists (
      select from billing.charging_stop where provider in ('*', ${provider ?? '*'})))`,
    sent: sql`not unanswered and sent_at is not null`,
    unsent: sql`sent_at is null`,
  }[which]
  const idle = sql`next_lookup_at > clock_timestamp() and (sending_until is null or sending_until <= clock_timestamp())`
  const there = provider === undefined ? sql`` : sql`and provider = ${provider}`
  const woken = await sql<{ count: number }>`
    with payments as (
      update billing.payment set next_lookup_at = clock_timestamp()
      where id in (
        select id from billing.payment
        where status in ('sending', 'unknown') and ${wanted} and ${idle} ${there}
        order by id for update)
      returning 1
    ), refunds as (
      update billing.refund set next_lookup_at = clock_timestamp()
      where id in (
        select id from billing.refund
        where status = 'pending' and ${wanted} and ${idle}
          and exists (select from billing.payment where id = payment_id ${there})
        order by id for update)
      returning 1
    )
    select ((select count(*) from payments) + (select count(*) from refunds))::int as count`.execute(db)
  return woken.rows[0]!.count
}

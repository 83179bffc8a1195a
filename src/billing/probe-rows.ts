import { type RawBuilder, sql } from 'kysely'
import type { BillingDb } from './app.ts'
import { isOpenPayment } from './unsettled-rows.ts'

// What waits for a silent provider is settled within a minute of its answering again.
const everySeconds = 20

/** Selects a row if something would wait longer than that for a provider that does not answer, and it is time to try. */
export function probeDue(): RawBuilder<unknown> {
  const long = sql`statement_timestamp() + make_interval(secs => ${everySeconds})`
  return sql`
    select from (
      select provider from billing.payment
      where ${isOpenPayment()} and unanswered and next_lookup_at > ${long}
      union all
      select p.provider from billing.refund r join billing.payment p on p.id = r.payment_id
      where r.status = 'pending' and r.unanswered and r.next_lookup_at > ${long}
    ) waiting
    where not exists (
      select from billing.provider_probe o where o.provider = waiting.provider and o.next_at > statement_timestamp())`
}

/** Takes the next question to a provider for the caller. False: somebody asked it a moment ago. */
export async function claimProbe(db: BillingDb, provider: string): Promise<boolean> {
  const next = sql`clock_timestamp() + make_interval(secs => ${everySeconds})`
  const claimed = await sql`
    insert into billing.provider_probe as p (provider, next_at) values (${provider}, ${next})
    on conflict (provider) do update set next_at = excluded.next_at where p.next_at <= clock_timestamp()
    returning provider`.execute(db)
  return claimed.rows.length > 0
}

/** One of the charges and refunds that wait for a provider that does not answer. */
export async function findWaiting(
  db: BillingDb,
  provider: string,
): Promise<{ reference: string; providerId: string | null } | undefined> {
  const found = await sql<{ reference: string; providerId: string | null }>`
    (select provider_reference as reference, provider_id as "providerId" from billing.payment
     where provider = ${provider} and ${isOpenPayment()} and unanswered order by next_lookup_at limit 1)
    union all
    (select p.provider_reference, p.provider_id from billing.refund r join billing.payment p on p.id = r.payment_id
     where p.provider = ${provider} and r.status = 'pending' and r.unanswered order by r.next_lookup_at limit 1)
    limit 1`.execute(db)
  return found.rows[0]
}

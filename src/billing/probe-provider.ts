import { type RawBuilder, sql } from 'kysely'
import type { BillingApp, BillingDb } from './app.ts'
import type { Provider } from './providers/port.ts'
import { wakeUnsettled } from './wake-unsettled.ts'

// What waits for a silent provider is settled within a minute of its answering again.
const everySeconds = 20

/** Selects a row if something would wait longer than that for a provider that does not answer, and it is time to try. */
export function probeDue(): RawBuilder<unknown> {
  const long = sql`statement_timestamp() + make_interval(secs => ${everySeconds})`
  return sql`
    select from (
      select provider from billing.payment
      where status in ('sending', 'unknown') and unanswered and next_lookup_at > ${long}
      union all
      select p.provider from billing.refund r join billing.payment p on p.id = r.payment_id
      where r.status = 'pending' and r.unanswered and r.next_lookup_at > ${long}
    ) waiting
    where not exists (
      select from billing.provider_probe o where o.provider = waiting.provider and o.next_at > statement_timestamp())`
}

/** Asks every silent provider; none waits for another. Says how many payments and refunds were woken. */
export async function probeProviders(app: BillingApp): Promise<number> {
  const woken = await Promise.all(app.providers.all.map((provider) => probe(app, provider)))
  return woken.reduce((sum, one) => sum + one, 0)
}

/**
 * Asks a silent provider about one of the payments that wait for it. Should it answer, all of them are due at once,
 * however long their own waits have grown. One process asks for all.
 */
async function probe(app: BillingApp, provider: Provider): Promise<number> {
  const { name } = provider
  if (!(await claimProbe(app.db, name))) return 0
  const waiting = await findWaiting(app.db, name)
  if (waiting === undefined) return 0
  const { kind } = await provider.findPayment(waiting.reference, waiting.providerId)
  return kind === 'unknown' || kind === 'credentials_refused' ? 0 : wakeUnsettled(app.db, 'unanswered', name)
}

async function claimProbe(db: BillingDb, provider: string): Promise<boolean> {
  const next = sql`clock_timestamp() + make_interval(secs => ${everySeconds})`
  const claimed = await sql`
    insert into billing.provider_probe as p (provider, next_at) values (${provider}, ${next})
    on conflict (provider) do update set next_at = excluded.next_at where p.next_at <= clock_timestamp()
    returning provider`.execute(db)
  return claimed.rows.length > 0
}

async function findWaiting(
  db: BillingDb,
  provider: string,
): Promise<{ reference: string; providerId: string | null } | undefined> {
  const found = await sql<{ reference: string; providerId: string | null }>`
    (select provider_reference as reference, provider_id as "providerId" from billing.payment
     where provider = ${provider} and status in ('sending', 'unknown') and unanswered order by next_lookup_at limit 1)
    union all
    (select p.provider_reference, p.provider_id from billing.refund r join billing.payment p on p.id = r.payment_id
     where p.provider = ${provider} and r.status = 'pending' and r.unanswered order by r.next_lookup_at limit 1)
    limit 1`.execute(db)
  return found.rows[0]
}

import { type RawBuilder, sql } from 'kysely'
import type { BillingDb, BillingTx } from './app.ts'

export type ChargingStop = {
  readonly provider: string
  readonly stoppedAt: Date
  readonly cause: string
}

/** In the place of a provider: all of them. */
export const everyProvider = '*'

/**
 * Stops charging in every process. The first cause is kept. Who stops the calendar too may have restored a backup, which
 * has forgotten what was sent until now.
 */
export async function insertStop(
  db: BillingDb,
  provider: string,
  cause: string,
  now: Date,
  stopsCalendar: boolean,
): Promise<void> {
  await sql`
    with forgotten as (
      update billing.installation set lookup_first_before = ${now} where ${stopsCalendar}::boolean)
    insert into billing.charging_stop as s (provider, stopped_at, cause, holds_due)
    values (${provider}, ${now}, ${cause}, ${stopsCalendar})
    on conflict (provider) do update set holds_due = s.holds_due or excluded.holds_due`.execute(db)
}

/** The stop that holds for a provider, or any stop; one of all providers first. */
export async function findChargingStop(db: BillingDb, provider?: string): Promise<ChargingStop | undefined> {
  const row = await db
    .selectFrom('billing.charging_stop')
    .select(['provider', 'stopped_at', 'cause'])
    .$if(provider !== undefined, (query) => query.where('provider', 'in', [everyProvider, provider!]))
    .orderBy('provider')
    .limit(1)
    .executeTakeFirst()
  return (
    row && {
      provider: row.provider,
      stoppedAt: row.stopped_at,
      cause: row.cause,
    }
  )
}

/**
 * Whether nothing falls due by the clock: no renewal, retry, end of a trial or cancellation. An operator who stopped charging has
 * stopped the calendar with it.
 */
export const calendarStopped = sql<boolean>`exists (select from billing.charging_stop where holds_due)`

/** Whether a restored database was told what it had forgotten since its calendar stands still: an earlier restore explains nothing. */
export const restoredInThisStop = sql<boolean>`exists (
  select from billing.history_applied h, billing.charging_stop s where s.holds_due and h.applied_at >= s.stopped_at)`

export async function isCalendarStopped(db: BillingDb): Promise<boolean> {
  const found = await sql<{ stopped: boolean }>`select ${calendarStopped} as stopped`.execute(db)
  return found.rows[0]!.stopped
}

/** Lifts the stop of a provider, or all there are, and tells whose they were. */
export async function deleteStops(tx: BillingTx, provider?: string): Promise<string[]> {
  const lifted = await tx
    .deleteFrom('billing.charging_stop')
    .$if(provider !== undefined, (query) => query.where('provider', '=', provider!))
    .returning('provider')
    .execute()
  return lifted.map((stop) => stop.provider)
}

/** What fell due before this may have been sent already, so it is looked up before its first send. */
export async function setLookupFirst(tx: BillingTx, before: Date): Promise<void> {
  await tx.updateTable('billing.installation').set({ lookup_first_before: before }).execute()
}

/** Why a charge waits to be sent: all charging or that through its provider is stopped, there are no keys, or nobody answers. */
export type Blocker = 'charging_stopped' | 'provider_missing' | 'provider_unavailable'

/** The same of a row that names its provider in this column. */
export function blockedBy(providerColumn: string): RawBuilder<Blocker> {
  const name = sql.ref(providerColumn)
  return sql<Blocker>`case
    when exists (select from billing.charging_stop h where h.provider in (${everyProvider}, ${name})) then 'charging_stopped'
    else ${unreachableBecause(providerColumn)} end`
}

/** Why nothing can be asked of a provider, whatever is stopped. */
export function unreachableBecause(providerColumn: string): RawBuilder<Exclude<Blocker, 'charging_stopped'>> {
  return sql`case
    when exists (select from platform.alarm h where h.kind = 'provider_missing' and h.subject = ${sql.ref(providerColumn)}) then 'provider_missing'
    else 'provider_unavailable' end`
}

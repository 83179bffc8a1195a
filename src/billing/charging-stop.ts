import { sql } from 'kysely'
import { raiseAlarm } from '../platform/alarm.ts'
import type { BillingDb } from './app.ts'
import { wakeUnsettled } from './wake-unsettled.ts'

export type ChargingStop = { readonly provider: string; readonly stoppedAt: Date; readonly cause: string }

/** Every provider. */
const everyProvider = '*'

/** Stops all charging, in every process, until an operator lifts it. The first cause is kept. */
export async function stopCharging(db: BillingDb, cause: string, now: Date): Promise<void> {
  await insertStop(db, everyProvider, cause, now)
}

/**
 * Our own credentials are refused: nothing more is charged through that provider until an operator has put them right.
 * No customer has anything to do with it.
 */
export async function stopForCredentials(db: BillingDb, provider: string, now: Date): Promise<void> {
  await insertStop(db, provider, 'credentials_refused', now)
  const note = `${provider} refuses our credentials, so nothing is charged through it. Put the secret key right, then run \`rankledger db resume-charging\`.`
  await raiseAlarm(db, { kind: 'credentials_refused', subject: provider, note }, now)
}

async function insertStop(db: BillingDb, provider: string, cause: string, now: Date): Promise<void> {
  await db
    .insertInto('billing.charging_stop')
    .values({ provider, stopped_at: now, cause })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
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
  return row && { provider: row.provider, stoppedAt: row.stopped_at, cause: row.cause }
}

/** Lets charges pass again, of all providers. False: nothing had stopped them. */
export async function liftChargingStop(db: BillingDb): Promise<boolean> {
  const lifted = await db.deleteFrom('billing.charging_stop').returning('cause').execute()
  await sql`delete from platform.alarm where kind = 'credentials_refused'`.execute(db)
  if (lifted.length > 0) await wakeUnsettled(db, 'unsent')
  return lifted.length > 0
}

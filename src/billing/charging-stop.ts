import { sql } from 'kysely'
import { clearAlarm, raiseAlarm } from '../platform/alarm.ts'
import type { BillingApp, BillingDb, BillingTx } from './app.ts'
import { wakeUnsettled } from './wake-unsettled.ts'

export type ChargingStop = {
  readonly provider: string
  readonly stoppedAt: Date
  readonly cause: string
  /** Nothing falls due by the clock meanwhile: no renewal, retry, end of a trial or cancellation. */
  readonly holdsDue: boolean
}

/** Every provider. */
const everyProvider = '*'

/** Stops all charging, in every process, until an operator lifts it. The first cause is kept. */
export async function stopCharging(
  db: BillingDb,
  cause: string,
  now: Date,
  { holdsDue = false }: { holdsDue?: boolean } = {},
): Promise<void> {
  await insertStop(db, everyProvider, cause, now, holdsDue)
}

/**
 * Our own credentials are refused: nothing more is charged through that provider until an operator has put them right.
 * No customer has anything to do with it.
 */
export async function stopForCredentials(db: BillingDb, provider: string, now: Date): Promise<void> {
  await insertStop(db, provider, 'credentials_refused', now, false)
  const note = `${provider} refuses our credentials, so nothing is charged through it. Put the secret key right, then run \`rankledger provider check\` or \`rankledger db resume-charging\`.`
  await raiseAlarm(db, { kind: 'credentials_refused', subject: provider, note }, now)
}

async function insertStop(
  db: BillingDb,
  provider: string,
  cause: string,
  now: Date,
  holdsDue: boolean,
): Promise<void> {
  await sql`
    insert into billing.charging_stop as s (provider, stopped_at, cause, holds_due)
    values (${provider}, ${now}, ${cause}, ${holdsDue})
    on conflict (provider) do update set holds_due = s.holds_due or excluded.holds_due`.execute(db)
}

/** The stop that holds for a provider, or any stop; one of all providers first. */
export async function findChargingStop(db: BillingDb, provider?: string): Promise<ChargingStop | undefined> {
  const row = await db
    .selectFrom('billing.charging_stop')
    .select(['provider', 'stopped_at', 'cause', 'holds_due'])
    .$if(provider !== undefined, (query) => query.where('provider', 'in', [everyProvider, provider!]))
    .orderBy('provider')
    .limit(1)
    .executeTakeFirst()
  return (
    row && {
      provider: row.provider,
      stoppedAt: row.stopped_at,
      cause: row.cause,
      holdsDue: row.holds_due,
    }
  )
}

type Lifting = Pick<BillingApp, 'db' | 'clock'>

/**
 * Lets charges pass again, of all providers. What fell due before now may have been sent by a database that is no more, so
 * it is looked up before its first send. False: nothing had stopped them.
 */
export async function liftChargingStop(app: Lifting): Promise<boolean> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    const lifted = await tx.deleteFrom('billing.charging_stop').returning('cause').execute()
    await sql`delete from platform.alarm where kind = 'credentials_refused'`.execute(tx)
    if (lifted.length === 0) return false
    await goOn(tx, now)
    return true
  })
}

/**
 * The provider takes our credentials again, so what was stopped for their sake goes on. A stop of all providers stays.
 * False: nothing had been stopped for it.
 */
export async function liftCredentialStop(app: Lifting, provider: string): Promise<boolean> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    await clearAlarm(tx, 'credentials_refused', provider)
    const lifted = await tx
      .deleteFrom('billing.charging_stop')
      .where('provider', '=', provider)
      .returning('cause')
      .execute()
    if (lifted.length === 0) return false
    await goOn(tx, now, provider)
    return true
  })
}

async function goOn(tx: BillingTx, now: Date, provider?: string): Promise<void> {
  await tx.updateTable('billing.installation').set({ lookup_first_before: now }).execute()
  await wakeUnsettled(tx, 'unsent', provider)
}

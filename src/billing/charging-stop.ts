import { clearAlarm, clearAlarms, raiseAlarm } from '../platform/alarm.ts'
import type { BillingApp, BillingDb } from './app.ts'
import { deleteStops, everyProvider, insertStop, setLookupFirst } from './charging-stop-rows.ts'
import { wakeUnsettled } from './unsettled-rows.ts'

/** Stops all charging, in every process, until an operator lifts it. The first cause is kept. */
export async function stopCharging(
  db: BillingDb,
  cause: string,
  now: Date,
  { stopsCalendar = false }: { stopsCalendar?: boolean } = {},
): Promise<void> {
  await insertStop(db, everyProvider, cause, now, stopsCalendar)
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

type Lifting = Pick<BillingApp, 'db' | 'clock'>

/**
 * Lets charges pass again, of all providers. Whoever stopped all of them may have restored a backup: what fell due before
 * now may have been sent by a database that is no more, so it is looked up before its first send. False: nothing had
 * stopped them.
 */
export async function liftChargingStop(app: Lifting): Promise<boolean> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    const lifted = await deleteStops(tx)
    await clearAlarms(tx, ['credentials_refused'])
    if (lifted.length === 0) return false
    if (lifted.includes(everyProvider)) await setLookupFirst(tx, now)
    await wakeUnsettled(tx, 'unsent')
    return true
  })
}

/**
 * The provider takes our credentials again, so what was stopped for their sake goes on. A stop of all providers stays.
 * False: nothing had been stopped for it.
 */
export async function liftCredentialStop(app: Lifting, provider: string): Promise<boolean> {
  return app.db.transaction().execute(async (tx) => {
    await clearAlarm(tx, 'credentials_refused', provider)
    if ((await deleteStops(tx, provider)).length === 0) return false
    await wakeUnsettled(tx, 'unsent', provider)
    return true
  })
}

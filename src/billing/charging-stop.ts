import type { BillingDb } from './app.ts'

export type ChargingStop = { readonly stoppedAt: Date; readonly cause: string }

/** Stops all charging, in every process, until an operator lifts it. The first cause is kept. */
export async function stopCharging(db: BillingDb, cause: string, now: Date): Promise<void> {
  await db
    .insertInto('billing.charging_stop')
    .values({ stopped_at: now, cause })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

export async function findChargingStop(db: BillingDb): Promise<ChargingStop | undefined> {
  const row = await db
    .selectFrom('billing.charging_stop')
    .select(['stopped_at', 'cause'])
    .limit(1)
    .executeTakeFirst()
  return row && { stoppedAt: row.stopped_at, cause: row.cause }
}

/** Lets charges pass again. False: nothing had stopped them. */
export async function liftChargingStop(db: BillingDb): Promise<boolean> {
  const lifted = await db.deleteFrom('billing.charging_stop').returning('cause').executeTakeFirst()
  return lifted !== undefined
}

import { raiseAlarm } from '../../platform/alarm.ts'
import type { BillingTx } from '../app.ts'

export const chargeRefusedAlarm = 'charge_refused'

/**
 * A provider refuses what we ask, and no card is to blame: a setting of ours is wrong, and everybody's renewal would fail by
 * it. It goes when a charge begun since then is paid.
 */
export async function raiseChargeRefused(
  tx: BillingTx,
  provider: string,
  raw: string | null | undefined,
  now: Date,
): Promise<void> {
  const code = /^[\w.-]{1,64}$/.test(raw ?? '') ? ` (${raw})` : ''
  const note = `${provider} rejects our charge requests${code}: a setting is wrong, not a card. Failed renewals are in dunning meanwhile. Fix the settings (docs/providers.md) and restart; the next retries collect.`
  await raiseAlarm(tx, { kind: chargeRefusedAlarm, subject: provider, note }, now)
}

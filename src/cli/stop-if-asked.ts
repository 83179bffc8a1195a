import type { App } from '../app.ts'
import { stopCharging } from '../billing/charging-stop.ts'

/** Stops charging before the first sweep, for a database that has just been restored. */
export async function stopIfAsked({ billing, config }: App, byFlag: boolean): Promise<void> {
  if (!byFlag && config.charging !== 'stopped') return
  await stopCharging(billing.db, 'started_stopped', billing.clock(), { holdsDue: true })
}

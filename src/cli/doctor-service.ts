import { openProvidersToLook } from '../app.ts'
import { findChargingStop } from '../billing/charging-stop-rows.ts'
import type { Foundation } from '../foundation.ts'
import { lookAtKeys } from '../keys.ts'
import { countAlarms } from '../platform/alarm.ts'
import { queueVitals } from '../platform/queue/queue.ts'
import { statusOfDistribution } from './db-distribute.ts'
import { sentenceOf, type Tell } from './doctor-database.ts'

/** What a service on this database would find: keys, providers, and what waits for somebody. */
export async function lookAtService(foundation: Foundation, tell: Tell): Promise<void> {
  if (!(await tellKeys(foundation, tell))) return
  await askProviders(foundation, tell)
  await tellDistribution(foundation, tell)
  await tellTroubles(foundation, tell)
}

/** True: a service would start with them. */
async function tellKeys(foundation: Foundation, tell: Tell): Promise<boolean> {
  try {
    const { hasVaultKey, hasInstallationKey, webhookSecrets } = await lookAtKeys(foundation)
    const later = 'the service makes one when it starts'
    if (!hasVaultKey) tell('keys', 'note', `no vault key yet; ${later}`)
    else if (!hasInstallationKey) tell('keys', 'note', `no installation key yet; ${later}`)
    else tell('keys', 'ok', `VAULT_KEYS open what this database holds; ${webhookSecrets} webhook secrets`)
    return true
  } catch (error) {
    const isKey = (error as Error).name === 'VaultKeysRefused'
    tell(isKey ? 'keys' : 'service', 'fault', sentenceOf(error))
    return false
  }
}

/** The harmless calls, whose answers are nobody's business but ours: a key of this shell alone stops no charging. */
async function askProviders(foundation: Foundation, tell: Tell): Promise<void> {
  const providers = await openProvidersToLook(foundation)
  try {
    for (const { name, check } of providers.all) {
      const startedAt = performance.now()
      const fault = (await check(foundation.clock())).find(({ ok }) => !ok)
      const ms = Math.round(performance.now() - startedAt)
      if (fault) tell('provider', 'fault', `${name}: ${fault.message}`)
      else tell('provider', 'ok', `${name} answers in ${ms} ms`)
    }
  } finally {
    await providers.close()
  }
}

async function tellDistribution(foundation: Foundation, tell: Tell): Promise<void> {
  const distribution = await statusOfDistribution(foundation)
  if (!distribution) return
  const isWhole = distribution.whole || distribution.tables.length === 0
  tell('distribution', isWhole ? 'ok' : 'fault', distribution.text)
}

async function tellTroubles({ billing: { db } }: Foundation, tell: Tell): Promise<void> {
  const stop = await findChargingStop(db)
  if (stop)
    tell('charging', 'fault', `is stopped (${stop.cause}); look why, then \`rankledger db resume-charging\``)
  const { workers, dead } = await queueVitals(db)
  if (workers > 0) tell('workers', 'ok', `${workers} alive`)
  else tell('workers', 'note', 'none is alive; start `rankledger serve` or `work`')
  if (dead > 0) tell('jobs', 'note', `${dead} ran out of attempts; \`rankledger db jobs\` lists them`)
  for (const [kind, count] of Object.entries(await countAlarms(db)))
    tell('alarms', 'fault', `${count} of kind ${kind}; \`rankledger db alarms\` says what to do`)
}

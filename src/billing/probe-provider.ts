import type { BillingApp } from './app.ts'
import { claimProbe, findWaiting } from './probe-rows.ts'
import type { Provider } from './providers/port.ts'
import { wakeUnsettled } from './unsettled-rows.ts'

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

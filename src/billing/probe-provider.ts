import type { BillingApp } from './app.ts'
import { claimProbe, findWaiting } from './probe-rows.ts'
import type { Provider } from './providers/port.ts'
import { keepBusy } from './sweeps/keep-busy.ts'
import { wakeUnsettled } from './unsettled-rows.ts'

/**
 * Asks every silent provider. While one of them hangs the others are asked again when it is time. Says how many payments
 * and refunds were woken.
 */
export async function probeProviders(app: BillingApp): Promise<number> {
  const { all } = app.providers
  const asked = new Set<Provider>()
  let woken = 0
  await keepBusy({
    // Each is in hand once. Only where all of them are is there nobody to ask, until one of them has answered.
    most: 2 * all.length - 1,
    stopping: app.stopping,
    claim: async () => {
      const due: Provider[] = []
      for (const provider of all)
        if (!asked.has(provider) && (await claimProbe(app.db, provider.name))) due.push(provider)
      for (const provider of due) asked.add(provider)
      return due
    },
    work: async (provider) => {
      woken += await probe(app, provider).finally(() => asked.delete(provider))
    },
  })
  return woken
}

/**
 * Asks a silent provider about one of the payments that wait for it. Should it answer, all of them are due at once,
 * however long their own waits have grown. One process asks for all.
 */
async function probe(app: BillingApp, provider: Provider): Promise<number> {
  const { name } = provider
  const waiting = await findWaiting(app.db, name)
  if (waiting === undefined) return 0
  const { kind } = await provider.findPayment(waiting.reference, waiting.providerId)
  return kind === 'unknown' || kind === 'credentials_refused' ? 0 : wakeUnsettled(app.db, 'unanswered', name)
}

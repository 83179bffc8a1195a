import type { Provider } from './port.ts'

// Every process learns of a stop within this time; the one that made it knows at once.
const believedForMs = 1_000

/** Whether charging is stopped: what a row that all processes share says, or said a moment ago. */
export type StopSwitch = {
  isStopped(): Promise<boolean>
  /** The provider has refused our own credentials. */
  refuseCredentials(): Promise<void>
}

export function openStopSwitch(rows: {
  isStopped(): Promise<boolean>
  onCredentialsRefused(): Promise<void>
}): StopSwitch {
  let stopped = false
  let readAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined

  const read = async () => {
    stopped = await rows.isStopped()
    readAt = performance.now()
  }
  return {
    async isStopped() {
      if (performance.now() - readAt > believedForMs) {
        reading ??= read().finally(() => {
          reading = undefined
        })
        await reading
      }
      return stopped
    },
    async refuseCredentials() {
      await rows.onCredentialsRefused()
      stopped = true
      readAt = performance.now()
    },
  }
}

/**
 * A provider that is asked for no money while charging is stopped. What is held back counts as not sent, so it is
 * neither lost nor in doubt: it goes out once the stop is lifted. Lookups and refunds pass. Refused credentials, met by
 * whatever call, stop charging before anybody hears of them.
 */
export function stoppableProvider(provider: Provider, stop: StopSwitch): Provider {
  const watched = async <T extends { kind: string }>(answer: Promise<T>): Promise<T> => {
    const outcome = await answer
    if (outcome.kind === 'credentials_refused') await stop.refuseCredentials()
    return outcome
  }
  const { listChanges } = provider
  return {
    ...provider,
    charge: async (request) =>
      (await stop.isStopped()) ? { kind: 'not_sent' } : watched(provider.charge(request)),
    refund: (request) => watched(provider.refund(request)),
    findPayment: (reference, providerId) => watched(provider.findPayment(reference, providerId)),
    cancelPayment: (reference, providerId) => watched(provider.cancelPayment(reference, providerId)),
    forget: (billingKey) => watched(provider.forget(billingKey)),
    setUp: (request) => watched(provider.setUp(request)),
    // A key for one use is not spent on a charge that would not go out.
    exchange: async (authKey, customerKey) =>
      (await stop.isStopped()) ? { kind: 'not_sent' } : watched(provider.exchange(authKey, customerKey)),
    describe: (billingKey) => watched(provider.describe(billingKey)),
    listPayments: (from, to, cursor) => watched(provider.listPayments(from, to, cursor)),
    listChanges: listChanges && ((from, to, cursor) => watched(listChanges(from, to, cursor))),
  }
}

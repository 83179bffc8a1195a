import type { Provider } from './port.ts'

// Every process learns of a stop within this time; the one that made it knows at once.
const believedForMs = 1_000

/**
 * A provider that is asked for no money while charging is stopped. What is held back counts as not sent, so it is
 * neither lost nor in doubt: it goes out once the stop is lifted. Lookups and refunds pass.
 */
export function stoppableProvider(provider: Provider, isStopped: () => Promise<boolean>): Provider {
  let stopped = false
  let readAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined

  const read = async () => {
    stopped = await isStopped()
    readAt = performance.now()
  }
  const mustStop = async (): Promise<boolean> => {
    if (performance.now() - readAt > believedForMs) {
      reading ??= read().finally(() => {
        reading = undefined
      })
      await reading
    }
    return stopped
  }

  return {
    ...provider,
    charge: async (request) => ((await mustStop()) ? { kind: 'not_sent' } : provider.charge(request)),
  }
}

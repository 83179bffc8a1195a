import type { Provider } from './port.ts'

const notSent = { kind: 'not_sent' } as const
const unknown = { kind: 'unknown' } as const

/**
 * Stands in for a provider whose keys are not set. Nothing is sent to it and nothing is known of it, so that what is due
 * there waits and is nobody's fault but the configuration's.
 */
export function absentProvider(name: string, onAsked: () => Promise<void>): Provider {
  const answering =
    <T>(answer: T) =>
    async (): Promise<T> => {
      await onAsked()
      return answer
    }
  return {
    name,
    // Nothing is ever re-sent or given up by them: both need an answer first.
    guards: {
      keyWindowMs: 86_400_000,
      namesRefunds: false,
      currencies: new Set(),
      takesAmount: () => false,
    },
    charge: answering(notSent),
    findPayment: answering(unknown),
    cancelPayment: answering(notSent),
    refund: answering(notSent),
    exchange: answering(notSent),
    customerOf: () => null,
    describe: answering(notSent),
    forget: answering(notSent),
    setUp: answering(notSent),
    check: async () => [
      { subject: 'credentials', ok: false, message: `No key of ${name} is set; it cannot be asked.` },
    ],
    listPayments: answering(unknown),
    listChanges: null,
    verifyWebhook: () => undefined,
    readWebhook: () => ({ type: 'unknown', reference: null, live: null }),
  }
}

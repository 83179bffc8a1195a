import type { BillingApp } from '../app.ts'
import { chargePayment } from '../payments/charge-payment.ts'
import type { Attempt } from '../payments/payment.ts'
import { keepBusy } from '../sweeps/keep-busy.ts'
import { concernsAll, noteFailure, workIsolated } from '../sweeps/sweep-failures.ts'
import { type Settling, settlePayments } from './settle-payments.ts'

// Enough to hide the provider's latency, few enough not to trouble it.
const mostInFlight = 32
const mostSettledTogether = 64

/**
 * Charges attempts as fast as they can be claimed: while some are on their way to the provider, outcomes that came back
 * are recorded together and the next batch is claimed. Says how many were charged. Should this process die, each
 * attempt's lease runs out and the sweep finds it.
 */
export async function chargeAttempts(
  app: BillingApp,
  claim: (limit: number) => Promise<readonly Attempt[]>,
): Promise<number> {
  const settler = openSettler(app)
  const charged = await keepBusy({
    most: mostInFlight,
    stopping: app.stopping,
    claim: async (limit) => {
      await settler.room()
      return claim(limit)
    },
    work: (attempt) =>
      workIsolated(app, 'payments', attempt.paymentId, async () =>
        settler.add({ attempt, outcome: await chargePayment(app, attempt), fresh: true }),
      ),
  }).finally(() => settler.rest())
  await settler.end()
  return charged
}

/** Records outcomes in the order they come; those that come while a transaction runs share the next one. */
function openSettler(app: BillingApp) {
  const waiting: Settling[] = []
  const failures: unknown[] = []
  let running: Promise<void> | undefined
  let round: Promise<void> = Promise.resolve()

  async function run(): Promise<void> {
    while (waiting.length > 0) {
      round = settleTogether(app, waiting.splice(0, mostSettledTogether)).catch(
        (error: unknown) => void failures.push(error),
      )
      await round
    }
    running = undefined
  }

  return {
    add(settling: Settling): void {
      waiting.push(settling)
      running ??= run()
    },
    /**
     * Waits until recording has caught up. A provider that is away refuses faster than that can be written down, and an
     * attempt whose lease runs out meanwhile would be taken for one in doubt.
     */
    async room(): Promise<void> {
      while (waiting.length > mostSettledTogether) await round
    },
    /** Waits until all that came is recorded, or could not be. */
    async rest(): Promise<void> {
      await running
    },
    /** What could not be recorded is looked up by the sweep; its cause is told here. */
    async end(): Promise<void> {
      await running
      if (failures.length > 0) throw failures[0]
    },
  }
}

/** Records many at once. If that fails, each is recorded alone, and the one that fails alone keeps nobody else waiting. */
async function settleTogether(app: BillingApp, together: readonly Settling[]): Promise<void> {
  try {
    await settlePayments(app, together)
  } catch (error) {
    if (concernsAll(error)) throw error
    const [first, ...others] = together
    if (first && others.length === 0) return noteFailure(app, 'payments', first.attempt.paymentId, error)
    for (const one of together)
      await workIsolated(app, 'payments', one.attempt.paymentId, () => settlePayments(app, [one]))
  }
}

import type { BillingApp } from '../app.ts'
import { chargePayment } from '../payments/charge-payment.ts'
import type { Attempt } from '../payments/payment.ts'
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
  const inFlight = new Set<Promise<void>>()
  let charged = 0
  for (;;) {
    while (inFlight.size > mostInFlight / 2) await Promise.race(inFlight)
    const attempts = await claim(mostInFlight - inFlight.size)
    if (attempts.length === 0) break
    charged += attempts.length
    for (const attempt of attempts) {
      const sending = chargePayment(app, attempt).then(
        (news) => settler.add({ attempt, news, fresh: true }),
        (error: unknown) => settler.fail(error),
      )
      const tracked = sending.finally(() => inFlight.delete(tracked))
      inFlight.add(tracked)
    }
  }
  await Promise.all(inFlight)
  await settler.end()
  return charged
}

/** Records outcomes in the order they come; those that come while a transaction runs share the next one. */
function openSettler(app: BillingApp) {
  const waiting: Settling[] = []
  const failures: unknown[] = []
  let running: Promise<void> | undefined

  async function run(): Promise<void> {
    while (waiting.length > 0) {
      try {
        await settlePayments(app, waiting.splice(0, mostSettledTogether))
      } catch (error) {
        failures.push(error)
      }
    }
    running = undefined
  }

  return {
    add(settling: Settling): void {
      waiting.push(settling)
      running ??= run()
    },
    fail(error: unknown): void {
      failures.push(error)
    },
    /** Waits for the rest. What could not be recorded is looked up by the sweep; its cause is told here. */
    async end(): Promise<void> {
      await running
      if (failures.length > 0) throw failures[0]
    },
  }
}

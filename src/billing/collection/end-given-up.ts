import type { BillingApp } from '../app.ts'
import { type Attempt, outcomeOfLookup } from '../payments/payment.ts'
import { settleDecided } from './settle-decided.ts'

/**
 * Ends a payment that reached the provider after we had given it up and waits for its customer there: nobody here would
 * show it to them, and what they confirmed would only have to go back. Confirmed at this very moment it is paid, and goes back.
 */
export async function endGivenUp(
  app: BillingApp,
  {
    paymentId,
    provider,
    reference,
    amount,
  }: Pick<Attempt, 'paymentId' | 'provider' | 'reference' | 'amount'>,
  providerId: string,
): Promise<void> {
  const { cancelPayment, findPayment } = app.providers.named(provider)
  const { kind } = await cancelPayment(reference, providerId)
  if (kind !== 'paid') return
  const outcome = outcomeOfLookup(await findPayment(reference, providerId), { reference, amount })
  if (outcome.kind !== 'paid') return
  await app.db.transaction().execute(async (tx) => {
    await settleDecided(tx, app.clock(), [{ paymentId, outcome }], app.terms.dunningDays)
  })
}

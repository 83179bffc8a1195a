import type { BillingApp, BillingTx } from '../app.ts'
import type { Attempt } from '../payments/payment.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { type Batched, workBatch, workFailed } from '../sweeps/sweep-failures.ts'
import { type DueRetry, lockDueRetries, openAttempt } from './attempt-rows.ts'
import { chargeAttempts } from './charge-attempts.ts'

/** Tries again to collect invoices whose retry is due. Each try is a new attempt with a new key. */
export async function retryDueInvoices(app: BillingApp): Promise<number> {
  const retries: Batched<DueRetry, readonly Attempt[]> = {
    sweep: 'retries',
    lock: lockDueRetries,
    act: (tx, now, due) => openRetries(tx, now, due, sendingLeaseMs(app.terms)),
  }
  let failedBefore = await workFailed(app, retries)
  return chargeAttempts(app, async (limit) => {
    for (;;) {
      const { rows, results } = await workBatch(app, retries, limit)
      const attempts = [...failedBefore, ...results].flat()
      failedBefore = []
      if (attempts.length > 0 || rows === 0 || app.stopping?.aborted) return attempts
    }
  })
}

async function openRetries(
  tx: BillingTx,
  now: Date,
  due: readonly DueRetry[],
  leaseMs: number,
): Promise<Attempt[]> {
  const attempts: Attempt[] = []
  for (const { invoiceId, method } of due) {
    const attempt = await openAttempt(tx, now, invoiceId, method, leaseMs, now)
    if (attempt) attempts.push(attempt)
  }
  return attempts
}

import { sql } from 'kysely'
import type { BillingApp, BillingTx } from '../app.ts'
import type { Attempt, MethodInUse } from '../payments/payment.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { limitOf, type Which, wanted } from '../sweep-failure-rows.ts'
import { type Batched, workBatch, workFailed } from '../sweep-failures.ts'
import { chargeAttempts } from './charge-attempts.ts'
import { openAttempt } from './open-attempt.ts'

/** Tries again to collect invoices whose retry is due. Each try is a new attempt with a new key. */
export async function retryDueInvoices(app: BillingApp): Promise<number> {
  const retries: Batched<DueRetry, readonly Attempt[]> = {
    sweep: 'retries',
    lock: lockDueRetries,
    act: (tx, now, due) => openRetries(app, tx, now, due),
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
  app: BillingApp,
  tx: BillingTx,
  now: Date,
  due: readonly DueRetry[],
): Promise<Attempt[]> {
  const attempts: Attempt[] = []
  for (const { invoiceId, method } of due) {
    const attempt = await openAttempt(tx, now, invoiceId, method, sendingLeaseMs(app.terms), now)
    if (attempt) attempts.push(attempt)
  }
  return attempts
}

/** `id` is the subscription's, which is what is locked. */
type DueRetry = { readonly id: string; readonly invoiceId: string; readonly method: MethodInUse }

async function lockDueRetries(tx: BillingTx, now: Date, which: Which): Promise<DueRetry[]> {
  const found = await sql<{
    id: string
    invoice_id: string
    method_id: string
    provider: string
    sealed: Buffer | null
    exchanged: boolean
  }>`
    select s.id, i.id as invoice_id, m.id as method_id, m.provider, m.sealed, m.exchanged
    from billing.invoice i
    join billing.subscription s on s.id = i.subscription_id
    join billing.payment_method m on m.id = s.payment_method_id
    where i.due_at <= ${now} and i.dunning = 'retry' and ${wanted('retries', sql.ref('s.id'), which)}
    order by i.due_at
    limit ${limitOf(which)}
    for update of s skip locked`.execute(tx)
  return found.rows.map(
    ({ id, invoice_id: invoiceId, method_id: methodId, provider, sealed, exchanged }) => ({
      id,
      invoiceId,
      method: { methodId, provider, sealed, exchanged },
    }),
  )
}

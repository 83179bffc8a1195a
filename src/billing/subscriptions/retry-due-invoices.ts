import { sql } from 'kysely'
import type { BillingApp, BillingTx } from '../app.ts'
import type { Attempt, MethodInUse } from '../payments/payment.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { chargeAttempts } from './charge-attempts.ts'
import { openAttempt } from './open-attempt.ts'

/** Tries again to collect invoices whose retry is due. Each try is a new attempt with a new key. */
export async function retryDueInvoices(app: BillingApp): Promise<number> {
  return chargeAttempts(app, (limit) => claimRetries(app, limit))
}

async function claimRetries(app: BillingApp, limit: number): Promise<Attempt[]> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    await app.fence(tx)
    const attempts: Attempt[] = []
    for (const { invoiceId, method } of await lockDueRetries(tx, now, limit)) {
      const attempt = await openAttempt(tx, now, invoiceId, method, sendingLeaseMs(app.terms), now)
      if (attempt) attempts.push(attempt)
    }
    return attempts
  })
}

async function lockDueRetries(
  tx: BillingTx,
  now: Date,
  limit: number,
): Promise<{ invoiceId: string; method: MethodInUse }[]> {
  const found = await sql<{
    id: string
    method_id: string
    sealed: Buffer | null
    exchanged: boolean
  }>`
    select i.id, m.id as method_id, m.sealed, m.exchanged
    from billing.invoice i
    join billing.subscription s on s.id = i.subscription_id
    join billing.payment_method m on m.id = s.payment_method_id
    where i.due_at <= ${now} and i.dunning = 'retry'
    order by i.due_at
    limit ${limit}
    for update of s skip locked`.execute(tx)
  return found.rows.map(({ id, method_id: methodId, sealed, exchanged }) => ({
    invoiceId: id,
    method: { methodId, sealed, exchanged },
  }))
}

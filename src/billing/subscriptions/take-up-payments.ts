import { allDone } from '../all-done.ts'
import type { BillingApp } from '../app.ts'
import { chargePayment, sendCharge } from '../payments/charge-payment.ts'
import { lookAgainAfterMs, nextCheck, verdictOfNone } from '../payments/doubt.ts'
import { type Attempt, newsOfLookup, type PaymentNews } from '../payments/payment.ts'
import { leaseAttempts, markSent, markUnknown, sendingLeaseMs } from '../payments/payment-rows.ts'
import { settlePayments } from './settle-payments.ts'

const batch = 32

/** Takes up attempts that are nobody's: their answer never came, or their sender died. Says how many it was. */
export async function takeUpPayments(app: BillingApp): Promise<number> {
  let taken = 0
  for (;;) {
    const due = { dueBy: app.clock(), limit: batch }
    const attempts = await leaseAttempts(app.db, due, sendingLeaseMs(app.terms))
    await allDone(attempts.map((attempt) => takeUp(app, attempt)))
    taken += attempts.length
    if (attempts.length < batch) return taken
  }
}

/** The same for one attempt, if it is open and nobody is at it. */
export async function takeUpPayment(app: BillingApp, paymentId: string): Promise<void> {
  const [attempt] = await leaseAttempts(app.db, { paymentId }, sendingLeaseMs(app.terms))
  if (attempt) await takeUp(app, attempt)
}

/**
 * Finds out what became of an attempt before anything else may touch its invoice. It is sent again only under the same
 * key, only while the provider still knows that key, and never for an invoice that was withdrawn.
 */
async function takeUp(app: BillingApp, attempt: Attempt): Promise<void> {
  const now = app.clock()
  if (attempt.sentAt === null) return sendUnsent(app, attempt, now)

  const lookup = await app.provider.findPayment(attempt.reference)
  if (lookup.kind !== 'none') return settle(app, attempt, newsOfLookup(lookup))

  const doubt = { sentAt: attempt.sentAt, noneCount: attempt.noneCount, noneSince: attempt.noneSince }
  const verdict = verdictOfNone(doubt, now, app.provider.guards.keyWindowMs)
  switch (verdict.kind) {
    case 'never_arrived':
      return settle(app, attempt, { kind: 'failed', code: 'never_arrived' })
    case 'wait':
      return wait(app, attempt, verdict.checkAt, { count: verdict.noneCount, since: verdict.noneSince })
    case 'resend':
      if (attempt.invoiceOpen) return resend(app, attempt)
      return wait(app, attempt, nextCheck(attempt.sentAt, now, app.provider.guards.keyWindowMs))
  }
}

/** Nothing has left us so far: say that it may from now on, then send. */
async function sendUnsent(app: BillingApp, attempt: Attempt, now: Date): Promise<void> {
  if (!attempt.invoiceOpen) return settle(app, attempt, { kind: 'failed', code: 'withdrawn' })
  if (!(await markSent(app.db, attempt.paymentId, now))) return
  const news = await chargePayment(app, attempt)
  await settlePayments(app, [{ attempt: { ...attempt, sentAt: now }, news, fresh: true }])
}

async function resend(app: BillingApp, attempt: Attempt): Promise<void> {
  await settlePayments(app, [{ attempt, news: await sendCharge(app, attempt), fresh: false }])
}

async function settle(app: BillingApp, attempt: Attempt, outcome: PaymentNews['outcome']): Promise<void> {
  const news = { paymentId: attempt.paymentId, outcome }
  await settlePayments(app, [{ attempt, news, fresh: false }])
}

async function wait(
  app: BillingApp,
  attempt: Attempt,
  checkAt: Date | null,
  none?: { count: number; since: Date },
): Promise<void> {
  const lookAfterMs = lookAgainAfterMs(attempt.looks + 1)
  await app.db
    .transaction()
    .execute((tx) => markUnknown(tx, attempt.paymentId, { lookAfterMs, checkAt, ...(none && { none }) }))
}

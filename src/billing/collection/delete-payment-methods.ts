import { clearAlarm, raiseAlarm } from '../../platform/alarm.ts'
import type { BillingApp } from '../app.ts'
import { lookupAgainAfterMs } from '../payments/doubt.ts'
import { openMethod } from '../payments/payment-method-rows.ts'
import {
  endDeletion,
  leaseMethodsToDelete,
  type MethodToDelete,
  postponeDeletion,
} from '../payments/payment-method-to-delete-rows.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { keepBusy } from '../sweeps/keep-busy.ts'
import { workIsolated } from '../sweeps/sweep-failures.ts'

/** Has providers delete the payment methods that nobody uses any more. Says how many were looked at. */
export async function deletePaymentMethods(app: BillingApp): Promise<number> {
  return keepBusy({
    most: 8,
    stopping: app.stopping,
    claim: (limit) => leaseMethodsToDelete(app.db, sendingLeaseMs(app.terms), limit),
    work: (method) =>
      workIsolated(app, 'payment_methods', method.methodId, () => deletePaymentMethod(app, method)),
  })
}

// A charge in doubt may have to be sent again with the same one.
const awaitedMs = 60_000

async function deletePaymentMethod(app: BillingApp, method: MethodToDelete): Promise<void> {
  if (method.awaited)
    return postponeDeletion(app.db, method.methodId, { afterMs: awaitedMs, tries: method.tries })
  // The same one, offered twice, is stored once at the provider.
  if (method.inUse) return endDeletion(app.db, method.methodId)

  const given = openMethod(app.vault, { ...method, exchanged: true })
  const billingKey = 'billingKey' in given ? given.billingKey : ''
  const { kind } = await app.providers.named(method.provider).forget(billingKey)
  if (kind === 'done') {
    await endDeletion(app.db, method.methodId)
    await clearAlarm(app.db, alarmKind, method.methodId)
    return
  }
  const tries = method.tries + 1
  await postponeDeletion(app.db, method.methodId, { afterMs: lookupAgainAfterMs(tries + 5), tries })
  if (tries >= triesBeforeAlarm) await raise(app, method)
}

const alarmKind = 'payment_method_not_deleted'
// Several hours, so that an outage of the provider calls nobody.
const triesBeforeAlarm = 12

async function raise(app: BillingApp, { methodId, provider }: MethodToDelete): Promise<void> {
  const note = `${provider} does not delete a payment method that is no longer used. Delete it in its console; the next try then finds it gone.`
  await raiseAlarm(app.db, { kind: alarmKind, subject: methodId, note }, app.clock())
}

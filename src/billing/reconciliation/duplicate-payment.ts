import { clearAlarm, raiseAlarm } from '../../platform/alarm.ts'
import type { BillingApp } from '../app.ts'
import type { ProviderPayment } from '../providers/port.ts'
import { type Difference, holdsMoney, isAnother, type OurPayment, tellDifference } from './compare.ts'
import { type DuplicatePayment, deleteDuplicate, insertDuplicate } from './duplicate-payment-rows.ts'

const alarmKind = 'duplicate_payment'

/** Keeps a second payment in mind until its money is gone. It is never refunded by itself: nobody here knows whose it is. */
export async function noteDuplicate(
  app: BillingApp,
  provider: string,
  { paymentId, reference }: OurPayment,
  { providerId }: ProviderPayment,
): Promise<void> {
  const now = app.clock()
  const note = `The provider "${provider}" has another payment under this reference, ${providerId}, and its money is still there. Refund that one there if nobody owes it; the next \`rankledger reconcile\` then clears this.`
  await app.db.transaction().execute(async (tx) => {
    await insertDuplicate(tx, now, { provider, providerId, paymentId, reference })
    await raiseAlarm(tx, { kind: alarmKind, subject: reference, note }, now)
  })
}

/** Looks one up that was found earlier. Undefined: its money is gone, and it is forgotten. */
export async function followDuplicate(
  app: BillingApp,
  known: DuplicatePayment,
  ours: OurPayment | undefined,
): Promise<Difference | undefined> {
  const { provider, providerId, reference } = known
  const lookup = await app.providers.named(provider).findPayment(reference, providerId)
  const theirs =
    lookup.kind === 'found' && lookup.payment.providerId === providerId ? lookup.payment : undefined
  const isGone = theirs ? !isAnother(ours, theirs) || !holdsMoney(theirs) : lookup.kind === 'none'
  if (!isGone && ours && theirs) await noteDuplicate(app, provider, ours, theirs)
  if (!isGone) return duplicateOf(ours, providerId, theirs)
  await app.db.transaction().execute(async (tx) => {
    if ((await deleteDuplicate(tx, known)) === 0) await clearAlarm(tx, alarmKind, reference)
  })
  return undefined
}

export function duplicateOf(
  ours: OurPayment | undefined,
  providerId: string,
  theirs: ProviderPayment | undefined,
): Difference {
  return { ...tellDifference('duplicate', ours, theirs), providerId }
}

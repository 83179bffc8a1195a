import { clearAlarms, raiseAlarm } from '../../platform/alarm.ts'
import type { BillingDb } from '../app.ts'
import type { Contradicted } from './payment.ts'

const notes: Readonly<Record<Contradicted, string>> = {
  amount_differs:
    'The provider names another amount, currency or payment under our reference. Compare both books; nothing is booked until they agree.',
  key_used_otherwise:
    'The provider knows our key with another request. Look the reference up there; nothing is booked until its answer agrees.',
}

/** Says that the provider's word on a payment or refund cannot be about ours. It stays in doubt meanwhile. */
export function raiseContradiction(
  db: BillingDb,
  kind: Contradicted,
  subject: string,
  now: Date,
): Promise<void> {
  return raiseAlarm(db, { kind, subject, note: notes[kind] }, now)
}

/** What was contradicted agrees by now, or has ended. */
export async function clearContradictions(db: BillingDb, subjects: readonly string[]): Promise<void> {
  if (subjects.length === 0) return
  await clearAlarms(db, Object.keys(notes), subjects)
}

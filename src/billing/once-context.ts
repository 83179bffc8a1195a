import type { OnceContext } from '../platform/http/answer-once.ts'
import { keyLeaseMs } from './answer-within.ts'
import type { BillingApp } from './app.ts'
import type { BillingTables } from './tables.ts'

/** What the six money routes share about their Idempotency-Key. */
export function onceContext(app: BillingApp): OnceContext<BillingTables> {
  return {
    db: app.db,
    now: app.clock(),
    leaseMs: keyLeaseMs(app.terms),
    vault: app.quietVault,
    fingerprintKey: app.fingerprintKey,
  }
}

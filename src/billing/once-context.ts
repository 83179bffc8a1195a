import type { OnceContext } from '../platform/http/answer-once.ts'
import type { BillingApp } from './app.ts'
import type { BillingTables } from './tables.ts'

// What a request may need beside the provider's time.
const marginMs = 10_000

/** What the six money routes share about their Idempotency-Key. */
export function onceContext(app: BillingApp): OnceContext<BillingTables> {
  return {
    db: app.db,
    now: app.clock(),
    leaseMs: app.terms.providerTimeoutMs + marginMs,
    vault: app.quietVault,
    fingerprintKey: app.fingerprintKey,
  }
}

import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { BillingApp, BillingTerms } from '../../src/billing/app.ts'
import type { Provider } from '../../src/billing/providers/port.ts'
import type { BillingTables } from '../../src/billing/tables.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { openDb } from '../../src/platform/database/db.ts'
import { openVault } from '../../src/platform/vault/vault.ts'

/** Billing on a database, with a clock and a provider that a test holds in its hands. */
export function billingOn(
  pool: pg.Pool,
  clock: Clock,
  provider: Provider,
  terms: Partial<BillingTerms> = {},
  vaultKey: Buffer = randomBytes(32),
): BillingApp {
  const key = { version: 1, key: vaultKey }
  return {
    db: openDb<BillingTables>(pool),
    pool,
    clock,
    provider,
    vault: openVault([key]),
    quietVault: openVault([key]),
    fingerprintKey: randomBytes(32),
    fence: async () => {},
    terms: {
      sandbox: true,
      timeZone: 'Asia/Seoul',
      seller: { name: 'Seller', address: null, registration: null, tax_id: null, logo: null },
      language: 'en',
      cancelLeadSeconds: 60,
      dunningDays: [1, 3, 5, 7],
      catchUpPeriods: 1,
      answerWithinMs: 15_000,
      providerTimeoutMs: 3_000,
      webhookSecrets: [],
      hintSecret: undefined,
      ...terms,
    },
  }
}

import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { BillingApp, BillingTerms } from '../../src/billing/app.ts'
import type { Provider } from '../../src/billing/providers/port.ts'
import { type Providers, providersOf } from '../../src/billing/providers/providers.ts'
import type { BillingTables } from '../../src/billing/tables.ts'
import { raiseAlarm } from '../../src/platform/alarm.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { openDb } from '../../src/platform/database/db.ts'
import { openVault } from '../../src/platform/vault/vault.ts'

/** Billing on a database, with a clock and providers that a test holds in its hands; new cards go to the first. */
export function billingOn(
  pool: pg.Pool,
  clock: Clock,
  provider: Provider | readonly [Provider, ...Provider[]],
  terms: Partial<BillingTerms> = {},
  vaultKey: Buffer = randomBytes(32),
): BillingApp {
  const key = { version: 1, key: vaultKey }
  const db = openDb<BillingTables>(pool)
  return {
    db,
    pool,
    clock,
    providers: providersOf('name' in provider ? [provider] : provider, async (name) =>
      raiseAlarm(db, { kind: 'provider_missing', subject: name, note: 'Set its keys.' }, clock()),
    ),
    vault: openVault([key]),
    quietVault: openVault([key]),
    fingerprintKey: randomBytes(32),
    terms: {
      sandbox: true,
      timeZone: 'Asia/Seoul',
      seller: { name: 'Seller', address: null, registration: null, tax_id: null, logo: null },
      language: 'en',
      cancelLeadSeconds: 60,
      dunningDays: [1, 3, 5, 7],
      catchUpPeriods: 1,
      disputePolicy: 'keep',
      answerWithinMs: 60_000,
      providerTimeoutMs: 60_000,
      webhookSecrets: {},
      hintSecret: undefined,
      ...terms,
    },
  }
}

/** One provider and no other. */
export function onlyProvider(provider: Provider): Providers {
  return providersOf([provider], async () => {})
}

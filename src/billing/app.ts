import type pg from 'pg'
import type { Clock } from '../platform/clock.ts'
import type { Db, Tx } from '../platform/database/db.ts'
import type { Vault } from '../platform/vault/vault.ts'
import type { Providers } from './providers/providers.ts'
import type { Language, Seller } from './seller.ts'
import type { BillingTables } from './tables.ts'

export type BillingDb = Db<BillingTables>
export type BillingTx = Tx<BillingTables>

/** What billing's use-cases may reach. */
export type BillingApp = {
  readonly db: BillingDb
  /** The same pool, for the one statement that stores notifications. */
  readonly pool: pg.Pool
  /** The same of a replica that may lag, for `reading`; absent: there is none. */
  readonly replica?: { readonly db: BillingDb; readonly pool: pg.Pool }
  readonly clock: Clock
  /** Whoever stored a payment method or took a payment is asked about it, whichever provider new ones go to. */
  readonly providers: Providers
  readonly vault: Vault
  /** The same keys, for texts that are no secret of this process and may be large: the log is not told of them. */
  readonly quietVault: Vault
  /** For the hashes of idempotent requests; it outlives every vault key. */
  readonly fingerprintKey: Buffer
  readonly terms: BillingTerms
  /** Told what went wrong while books were compared or taken over: with one payment or subscription, or with null for the whole of it. */
  readonly onReconcileFault?: (error: unknown, reference: string | null) => void
  /** Aborted once nothing new may be begun on this app's behalf; what is in hand comes to its end. */
  readonly stopping?: AbortSignal
}

/** What a use-case may reach that only reads and writes: it opens nothing sealed and asks no provider. */
export type BillingStore = Pick<BillingApp, 'db' | 'pool' | 'replica' | 'clock'>

export type BillingTerms = {
  readonly sandbox: boolean
  readonly timeZone: string
  /** Who sells; copied onto each invoice when it is issued. */
  readonly seller: Seller
  /** Of the invoices of accounts that have no language of their own. */
  readonly language: Language
  readonly cancelLeadSeconds: number
  readonly dunningDays: readonly number[]
  readonly catchUpPeriods: number
  /** What becomes of a subscription whose payment is disputed. */
  readonly disputePolicy: 'keep' | 'cancel'
  readonly answerWithinMs: number
  readonly providerTimeoutMs: number
  /** By provider, newest first. */
  readonly webhookSecrets: Readonly<Record<string, readonly string[]>>
  readonly hintSecret: string | undefined
}

import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'

const fixture = (name: string) => new URL(`../fixtures/upgrade/${name}`, import.meta.url)
export const databaseFile = fixture('database.sql.gz')
export const recordedFile = fixture('recorded.json.gz')

/** A request under an Idempotency-Key, and how it was answered. */
export type Kept = { path: string; key: string; body: object; status: number; text: string }

/** What a former release said before its database was kept. */
export type Recorded = {
  version: string
  /** The service's time at the end. */
  now: string
  /** The keys that the database opens with. */
  environment: Record<'VAULT_KEYS' | 'WEBHOOK_SECRETS' | 'BOOTSTRAP_TOKEN', string>
  /** One that had its answer, and one that still waits for the provider's. */
  kept: { answered: Kept; unanswered: Kept }
  /** `data` of each GET. */
  answers: Record<string, unknown>
}

export const readDatabase = (): string => gunzipSync(readFileSync(databaseFile)).toString()

export const readRecorded = (): Recorded =>
  JSON.parse(gunzipSync(readFileSync(recordedFile)).toString()) as Recorded

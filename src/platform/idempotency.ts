import { createHmac } from 'node:crypto'
import { sql } from 'kysely'
import type { Db, Tx } from './db.ts'
import { refuse } from './refusal.ts'
import type { VaultKey } from './vault.ts'

/** A key as one caller used it on one route, with the fingerprint of what was asked. */
export type OnceKey = {
  readonly scope: string
  readonly key: string
  /** One per vault key, newest first: the first is stored, any of them matches, so that a rotation breaks no retry. */
  readonly fingerprints: readonly [Buffer, ...Buffer[]]
}

export type Answer = { readonly status: number; readonly body: Buffer }

export type Claim =
  | { kind: 'first'; intent: string }
  /** The process of the first request died, or it answered 202: go on with the recorded work. */
  | { kind: 'continue'; intent: string }
  | { kind: 'replay'; answer: Answer }

export type IdempotencyTables = {
  'platform.idempotency_key': {
    scope: string
    key: string
    fingerprint: Buffer
    intent: string
    leased_until: Date | null
    status: number | null
    body: Buffer | null
    created_at: Date
  }
}

/** Reads the header: quoted or bare, 1 to 255 visible ASCII characters. Absent is no key. */
export function readKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined
  const text = typeof header === 'string' ? header.trim() : ''
  const key = /^".*"$/.test(text) ? text.slice(1, -1) : text
  if (!/^[\x21-\x7e]{1,255}$/.test(key) || key.includes('"')) throw refuse('invalid_idempotency_key')
  return key
}

/** Keyed hashes of the parsed body with sorted keys: equal requests match, and the stored hash tells nothing. */
export function fingerprintsOf(
  keys: readonly [VaultKey, ...VaultKey[]],
  body: unknown,
): [Buffer, ...Buffer[]] {
  const text = `idempotency\n${JSON.stringify(sorted(body))}`
  const [newest, ...older] = keys
  return [hmac(newest, text), ...older.map((key) => hmac(key, text))]
}

function hmac({ key }: VaultKey, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, inner]) => [name, sorted(inner)]),
  )
}

/**
 * Claims a key and records its intent in the caller's transaction: both are there, or neither. The unique key makes a
 * parallel twin wait here until the first commits, and then sees its lease.
 */
export async function once<T extends IdempotencyTables>(
  tx: Tx<T>,
  use: OnceKey,
  now: Date,
  leaseMs: number,
  recordIntent: () => Promise<string>,
): Promise<Claim> {
  // A key that is old enough to be forgotten is as good as new.
  const claimed = await sql`
    insert into platform.idempotency_key as k (scope, key, fingerprint, intent, leased_until, created_at)
    values (${use.scope}, ${use.key}, ${use.fingerprints[0]}, '', ${leaseEnd(leaseMs)}, ${now})
    on conflict (scope, key) do update
    set fingerprint = excluded.fingerprint, intent = '', leased_until = excluded.leased_until,
      status = null, body = null, created_at = excluded.created_at
    where k.created_at < ${oldest(now)}
    returning 1`.execute(tx)
  if (claimed.rows.length === 1) {
    const intent = await recordIntent()
    await sql`
      update platform.idempotency_key set intent = ${intent}
      where scope = ${use.scope} and key = ${use.key}`.execute(tx)
    return { kind: 'first', intent }
  }
  return repeat(tx, use, leaseMs)
}

async function repeat<T extends IdempotencyTables>(tx: Tx<T>, use: OnceKey, leaseMs: number): Promise<Claim> {
  const found = await sql<{
    fingerprint: Buffer
    intent: string
    running: boolean
    status: number | null
    body: Buffer | null
  }>`
    select fingerprint, intent, coalesce(leased_until > clock_timestamp(), false) as running, status, body
    from platform.idempotency_key
    where scope = ${use.scope} and key = ${use.key}
    for update`.execute(tx)
  const row = found.rows[0]
  // The first request gave its key back between our insert and this read: nothing was done, the caller asks again.
  if (!row) throw inProgress()
  if (!use.fingerprints.some((one) => one.equals(row.fingerprint))) throw refuse('idempotency_key_reused')
  if (row.status !== null && row.body !== null) {
    return { kind: 'replay', answer: { status: row.status, body: row.body } }
  }
  if (row.running) throw inProgress()
  await sql`
    update platform.idempotency_key set leased_until = ${leaseEnd(leaseMs)}
    where scope = ${use.scope} and key = ${use.key}`.execute(tx)
  return { kind: 'continue', intent: row.intent }
}

function inProgress() {
  return refuse('request_in_progress', { headers: { 'retry-after': '1' } })
}

function leaseEnd(leaseMs: number) {
  return sql`clock_timestamp() + make_interval(secs => ${leaseMs / 1000})`
}

/** Keeps a final answer (200, 201, 402) for good; opens a 202 for the next repeat; frees the key after anything else. */
export async function keepAnswer<T extends IdempotencyTables>(
  db: Db<T>,
  use: OnceKey,
  answer: Answer,
): Promise<void> {
  const mine = sql`scope = ${use.scope} and key = ${use.key}`
  if (answer.status === 200 || answer.status === 201 || answer.status === 402) {
    await sql`
      update platform.idempotency_key set status = ${answer.status}, body = ${answer.body}, leased_until = null
      where ${mine} and status is null`.execute(db)
  } else if (answer.status === 202) {
    await sql`update platform.idempotency_key set leased_until = null where ${mine}`.execute(db)
  } else {
    await sql`delete from platform.idempotency_key where ${mine} and status is null`.execute(db)
  }
}

/** After a failure that is no answer (a lost connection, a bug): the next repeat goes on with the recorded work. */
export async function endLease<T extends IdempotencyTables>(db: Db<T>, use: OnceKey): Promise<void> {
  await sql`
    update platform.idempotency_key set leased_until = null
    where scope = ${use.scope} and key = ${use.key}`.execute(db)
}

/** Keys are kept 30 days of service time. */
export async function forgetOldKeys<T extends IdempotencyTables>(db: Db<T>, now: Date): Promise<void> {
  await sql`delete from platform.idempotency_key where created_at < ${oldest(now)}`.execute(db)
}

function oldest(now: Date): Date {
  return new Date(now.getTime() - 30 * 86_400_000)
}

import { createHmac } from 'node:crypto'
import { sql } from 'kysely'
import type { Db, Tx } from './database/db.ts'
import { type Refusal, refuseRequest } from './refusal.ts'
import type { Vault } from './vault/vault.ts'

/** A key as one caller used it on one route, with the fingerprint of what was asked. Neither tells what was said. */
export type OnceKey = {
  readonly scope: string
  readonly key: Buffer
  readonly fingerprint: Buffer
}

/** What a request recorded: the kind of work it began, the row that stands for it, and the thing with which its answer is erased. */
export type Intent = { readonly kind: string; readonly id: string; readonly subject: string }

/** What work came to: `pending` is decided later, by somebody who does not wait. A "no" is a refusal that is thrown. */
export type Finished<R> = { readonly state: 'done' | 'pending'; readonly result: R }

/**
 * A request whose retries are safe, in two steps. `begin` records the intent in the transaction that claims the key.
 * `finish` does or continues what is recorded, and may run any number of times. What `begin` returns beyond an intent is
 * the memory of the process that began: whoever continues has the intent alone, so all of it is optional.
 */
export type OnceRequest<T, I extends Intent, R> = {
  begin(tx: Tx<T>): Promise<I>
  finish(intent: I): Promise<Finished<R>>
}

export type Answer = { readonly status: number; readonly body: Buffer }

export type KeyClaim<I extends Intent> =
  | { kind: 'first'; intent: I }
  /** The process of the first request died, or it answered 202: go on with the recorded work. */
  | { kind: 'continue'; intent: Intent }
  | { kind: 'replay'; answer: Answer }

export type IdempotencyTables = {
  'platform.idempotency_key': {
    scope: string
    key: Buffer
    fingerprint: Buffer
    intent: string
    subject: string | null
    leased_until: Date | null
    promised: boolean
    erased: boolean
    status: number | null
    sealed: Buffer | null
    created_at: Date
  }
}

/** Reads the header: quoted or bare, 1 to 255 visible ASCII characters. Absent is no key. */
export function readKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined
  const text = typeof header === 'string' ? header.trim() : ''
  const key = /^".*"$/.test(text) ? text.slice(1, -1) : text
  if (!/^[\x21-\x7e]{1,255}$/.test(key) || key.includes('"')) throw refuseRequest('invalid_idempotency_key')
  return key
}

/**
 * Keyed hashes of the caller's key and of the parsed body with sorted fields: equal requests match, and what is stored
 * tells nothing. `secret` is the installation's own and outlives every vault key, so that a rotation breaks no retry.
 */
export function onceKeyOf(secret: Buffer, scope: string, key: string, body: unknown): OnceKey {
  return {
    scope,
    key: hmac(secret, `key\n${key}`),
    fingerprint: hmac(secret, `body\n${JSON.stringify(sorted(body))}`),
  }
}

function hmac(secret: Buffer, text: string): Buffer {
  return createHmac('sha256', secret).update(text).digest()
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
export async function once<T extends IdempotencyTables, I extends Intent>(
  tx: Tx<T>,
  vault: Vault,
  use: OnceKey,
  now: Date,
  leaseMs: number,
  recordIntent: () => Promise<I>,
): Promise<KeyClaim<I>> {
  // A key that is old enough to be forgotten is as good as new.
  const claimed = await sql`
    insert into platform.idempotency_key as k (scope, key, fingerprint, intent, leased_until, created_at)
    values (${use.scope}, ${use.key}, ${use.fingerprint}, '', ${leasedUntil(leaseMs)}, ${now})
    on conflict (scope, key) do update
    set fingerprint = excluded.fingerprint, intent = '', subject = null, leased_until = excluded.leased_until,
      promised = false, erased = false, status = null, sealed = null, created_at = excluded.created_at
    where ${isForgotten(now)}
    returning 1`.execute(tx)
  if (claimed.rows.length === 1) {
    const intent = await recordIntent()
    await sql`
      update platform.idempotency_key set intent = ${textOf(intent)}, subject = ${intent.subject}
      where scope = ${use.scope} and key = ${use.key}`.execute(tx)
    return { kind: 'first', intent }
  }
  return repeat(tx, vault, use, leaseMs)
}

async function repeat<T extends IdempotencyTables>(
  tx: Tx<T>,
  vault: Vault,
  use: OnceKey,
  leaseMs: number,
): Promise<KeyClaim<never>> {
  const found = await sql<{
    fingerprint: Buffer
    intent: string
    subject: string
    running: boolean
    status: number | null
    sealed: Buffer | null
  }>`
    select fingerprint, intent, subject, coalesce(leased_until > clock_timestamp(), false) as running, status, sealed
    from platform.idempotency_key
    where scope = ${use.scope} and key = ${use.key}
    for update`.execute(tx)
  const row = found.rows[0]
  // The first request gave its key back between our insert and this read: nothing was done, the caller asks again.
  if (!row) throw inProgress()
  if (!use.fingerprint.equals(row.fingerprint)) throw refuseRequest('idempotency_key_reused')
  if (row.status !== null) return { kind: 'replay', answer: openAnswer(vault, use, row.status, row) }
  if (row.running) throw inProgress()
  await sql`
    update platform.idempotency_key set leased_until = ${leasedUntil(leaseMs)}
    where scope = ${use.scope} and key = ${use.key}`.execute(tx)
  return { kind: 'continue', intent: intentOf(row.intent, row.subject) }
}

/** How a key remembers its intent. */
function textOf({ kind, id }: Intent): string {
  return `${kind} ${id}`
}

function intentOf(text: string, subject: string): Intent {
  const [kind, id] = text.split(' ')
  return { kind: kind!, id: id!, subject }
}

function openAnswer(
  vault: Vault,
  use: OnceKey,
  status: number,
  { sealed, subject }: { sealed: Buffer | null; subject: string },
): Answer {
  if (sealed === null) throw answerErased(status, subject)
  return { status, body: Buffer.from(vault.open(sealed, placeOf(use))) }
}

/** What was answered is gone. That it was answered is not, or the caller would ask for it anew. */
export function answerErased(status: number, subject: string): Refusal {
  const message =
    status < 300
      ? `It was done and answered with ${status}; it must not be asked for again.`
      : `It was refused with ${status}, which was the end of it.`
  return refuseRequest('answer_erased', {
    details: [{ path: 'Idempotency-Key', code: String(status), message, id: subject }],
  })
}

function inProgress() {
  return refuseRequest('request_in_progress', { headers: { 'retry-after': '1' } })
}

function leasedUntil(leaseMs: number) {
  return sql`clock_timestamp() + make_interval(secs => ${leaseMs / 1000})`
}

/** What became of an answer on its way out. */
export type Kept =
  /** It stands, or it is no final one. */
  | { kind: 'own' }
  /** Somebody else finished the same work before: what they were told is the answer. */
  | { kind: 'other'; answer: Answer }
  /** It is final and not kept, because its subject was erased meanwhile. */
  | { kind: 'erased'; subject: string }

/**
 * Keeps a final answer (200, 201, 402, and whatever follows a 202) for good; opens a 202 for the next repeat; frees the
 * key after anything else. The intent tells whose key it is: another request may have begun anew with it meanwhile.
 */
export async function keepAnswer<T extends IdempotencyTables>(
  db: Db<T>,
  vault: Vault,
  use: OnceKey,
  intent: Intent,
  answer: Answer,
  now: Date,
): Promise<Kept> {
  const mine = sql`k.scope = ${use.scope} and k.key = ${use.key} and k.intent = ${textOf(intent)} and k.status is null`
  const final = () => sql`
    status = ${answer.status}, leased_until = null,
    created_at = case when k.promised then ${now}::timestamptz else k.created_at end,
    sealed = case when k.erased then null else ${vault.seal(answer.body.toString('utf8'), placeOf(use))}::bytea end`
  const { status } = answer
  const told =
    status === 200 || status === 201 || status === 402
      ? sql`update platform.idempotency_key k set ${final()} where ${mine} returning erased, subject`
      : status === 202
        ? sql`
            update platform.idempotency_key k set leased_until = null, promised = true where ${mine}
            returning false as erased, subject`
        : sql`
            with open as (select promised from platform.idempotency_key k where ${mine} for update),
            kept as (
              update platform.idempotency_key k set ${final()} from open where open.promised and ${mine}
              returning k.erased, k.subject),
            freed as (
              delete from platform.idempotency_key k using open where not open.promised and ${mine}
              returning false, k.subject)
            select * from kept union all select * from freed`
  const [row] = (await sql<{ erased: boolean; subject: string }>`${told}`.execute(db)).rows
  if (row) return row.erased ? { kind: 'erased', subject: row.subject } : { kind: 'own' }
  return overtaken(db, vault, use, intent)
}

/** Our work was finished by somebody else, or the key is no longer ours. */
async function overtaken<T extends IdempotencyTables>(
  db: Db<T>,
  vault: Vault,
  use: OnceKey,
  intent: Intent,
): Promise<Kept> {
  const found = await sql<{ status: number | null; sealed: Buffer | null; subject: string }>`
    select status, sealed, subject from platform.idempotency_key
    where scope = ${use.scope} and key = ${use.key} and intent = ${textOf(intent)}`.execute(db)
  const row = found.rows[0]
  if (!row || row.status === null) return { kind: 'own' }
  if (row.sealed === null) return { kind: 'erased', subject: row.subject }
  return { kind: 'other', answer: openAnswer(vault, use, row.status, row) }
}

/** After a failure that is no answer (a lost connection, a bug): the next repeat goes on with the recorded work. */
export async function endLease<T extends IdempotencyTables>(
  db: Db<T>,
  use: OnceKey,
  intent: Intent,
): Promise<void> {
  await sql`
    update platform.idempotency_key set leased_until = null
    where scope = ${use.scope} and key = ${use.key} and intent = ${textOf(intent)}`.execute(db)
}

/**
 * Forgets what was answered about these subjects. That there was an answer stays, and an answer that is still to come is
 * not kept either. Keys that are old enough to be forgotten go; one that is being taken for something new is left to that.
 */
export async function eraseAnswers<T extends IdempotencyTables>(
  tx: Tx<T>,
  subjects: readonly string[],
  now: Date,
): Promise<void> {
  await sql`
    with old as (
      select scope, key from platform.idempotency_key k
      where subject = any (${[...subjects]}) and ${isForgotten(now)}
      for update skip locked)
    delete from platform.idempotency_key k using old where k.scope = old.scope and k.key = old.key`.execute(
    tx,
  )
  await sql`
    update platform.idempotency_key k set erased = true, sealed = null
    where subject = any (${[...subjects]}) and not (${isForgotten(now)}) and not erased`.execute(tx)
}

function placeOf({ scope, key }: OnceKey): string {
  return `answer:${scope} ${key.toString('hex')}`
}

export async function forgetOldKeys<T extends IdempotencyTables>(db: Db<T>, now: Date): Promise<void> {
  await sql`delete from platform.idempotency_key k where ${isForgotten(now)}`.execute(db)
}

/**
 * Keys are kept 30 days of service time. One that answered 202 stands for work that may be anywhere by now: it is kept until its
 * final answer was asked for, and 30 days from then.
 */
function isForgotten(now: Date) {
  return sql`k.created_at < ${oldest(now)} and not (k.promised and k.status is null)`
}

function oldest(now: Date): Date {
  return new Date(now.getTime() - 30 * 86_400_000)
}

import { type Generated, type Kysely, type RawBuilder, sql } from 'kysely'
import type { Db, Tx } from '../database/db.ts'
import { limitOf, type Page, type PageRequest, pageOf, readCursor } from '../page.ts'

/** Who asked: a token's id, the operator at the machine, or the service itself. */
export type Actor = string

export type NewAudit = {
  readonly at: Date
  readonly actor: Actor
  readonly action: string
  readonly accountId: string | null
  readonly target: string
}

export type AuditEntry = NewAudit & { readonly id: bigint }

export type AuditTables = {
  'platform.audit': {
    id: Generated<bigint>
    at: Date
    actor: string
    action: string
    account_id: string | null
    target: string
  }
}

export type AuditFilter = {
  actor?: string
  action?: string
  accountId?: string
  target?: string
  from?: Date
  to?: Date
}

/** Notes who asked for what, in the transaction that does it. */
export async function insertAudit<T extends AuditTables>(tx: Tx<T>, entry: NewAudit): Promise<void> {
  await auditStatement(entry).execute(tx)
}

/** The same as part of a larger statement. */
export function auditStatement({ at, actor, action, accountId, target }: NewAudit): RawBuilder<unknown> {
  return sql`
    insert into platform.audit (at, actor, action, account_id, target)
    values (${at}, ${actor}, ${action}, ${accountId}, ${target})`
}

/** Notes that somebody read personal data. The same reader of the same thing is noted once a minute in each process. */
export async function noteRead<T extends AuditTables>(db: Db<T>, entry: NewAudit): Promise<void> {
  const name = `${entry.actor} ${entry.action} ${entry.target}`
  const now = performance.now()
  if (now - (noted.get(name) ?? Number.NEGATIVE_INFINITY) < notedForMs) return
  if (noted.size >= mostNoted) noted.clear()
  await auditStatement(entry).execute(db)
  noted.set(name, now)
}

const noted = new Map<string, number>()
const notedForMs = 60_000
const mostNoted = 10_000

/** Newest first. */
export async function listAudit(
  db: Kysely<AuditTables>,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Page<AuditEntry>> {
  const limit = limitOf(page)
  const before = readCursor(page, 1)
  let query = db
    .selectFrom('platform.audit')
    .select(['id', 'at', 'actor', 'action', 'account_id', 'target'])
    .orderBy('id', 'desc')
    .limit(limit + 1)
  if (filter.actor !== undefined) query = query.where('actor', '=', filter.actor)
  if (filter.action !== undefined) query = query.where('action', '=', filter.action)
  if (filter.accountId !== undefined) query = query.where('account_id', '=', filter.accountId)
  if (filter.target !== undefined) query = query.where('target', '=', filter.target)
  if (filter.from !== undefined) query = query.where('at', '>=', filter.from)
  if (filter.to !== undefined) query = query.where('at', '<', filter.to)
  if (before) query = query.where('id', '<', readNumber(before[0]!))
  const rows = await query.execute()
  return pageOf(
    rows.map(({ account_id, ...row }) => ({ ...row, accountId: account_id })),
    limit,
    ({ id }) => [String(id)],
  )
}

/** A number that no row has finds nothing, whoever wrote the cursor. */
function readNumber(text: string): bigint {
  return /^\d{1,18}$/.test(text) ? BigInt(text) : 0n
}

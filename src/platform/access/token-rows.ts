import type pg from 'pg'
import type { Scope } from './access.ts'
import type { Actor } from './audit-rows.ts'
import { hashToken, tokenIdOf } from './token.ts'

export type TokenGrant = {
  readonly name: string
  readonly scopes: readonly Scope[]
  /** `*` is all, null is none. */
  readonly workspace: string | null
  readonly account: string | null
}

export type NewToken = TokenGrant & {
  readonly createdAt: Date
  readonly createdBy?: Actor
  readonly expiresAt: Date | null
}

export type StoredToken = TokenGrant & {
  readonly id: string
  readonly createdAt: Date
  readonly createdBy: Actor
  readonly expiresAt: Date | null
  readonly revokedAt: Date | null
  readonly replacedBy: string | null
  /** Give or take some minutes. */
  readonly lastUsedAt: Date | null
}

/**
 * Stores a token's hash and grant, and that it was made. A token that is there already, revoked or not, stays as it is:
 * then the answer is false.
 */
export async function insertToken(pool: pg.Pool, token: string, grant: NewToken): Promise<boolean> {
  const { rows } = await pool.query(
    `with made as (
       insert into platform.token (id, hash, name, scopes, workspace, account, created_at, created_by, expires_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict do nothing
       returning id
     )
     insert into platform.audit (at, actor, action, account_id, target)
     select $7, $8, 'token.create', nullif($6, '*'), id from made
     returning target`,
    [
      tokenIdOf(token),
      hashToken(token),
      grant.name,
      grant.scopes,
      grant.workspace,
      grant.account,
      grant.createdAt,
      grant.createdBy ?? 'operator',
      grant.expiresAt,
    ],
  )
  return rows.length === 1
}

const columns =
  'id, name, scopes, workspace, account, created_at, created_by, expires_at, revoked_at, replaced_by, last_used_at'

/** Newest first, up to `limit` of them behind `before`. */
export async function listTokens(
  pool: pg.Pool,
  { before = null, limit = 10_000 }: { before?: readonly [string, string] | null; limit?: number } = {},
): Promise<StoredToken[]> {
  const { rows } = await pool.query(
    `select ${columns} from platform.token
     where $1::timestamptz is null or (created_at, id) < ($1, $2)
     order by created_at desc, id desc limit $3`,
    [before?.[0] ?? null, before?.[1] ?? null, limit],
  )
  return rows.map(toToken)
}

export async function findToken(pool: pg.Pool, id: string): Promise<StoredToken | undefined> {
  const { rows } = await pool.query(`select ${columns} from platform.token where id = $1`, [id])
  return rows[0] && toToken(rows[0])
}

// biome-ignore lint/suspicious/noExplicitAny: a row as the driver gives it
function toToken(row: any): StoredToken {
  return {
    id: row.id,
    name: row.name,
    scopes: row.scopes,
    workspace: row.workspace,
    account: row.account,
    createdAt: row.created_at,
    createdBy: row.created_by,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    replacedBy: row.replaced_by,
    lastUsedAt: row.last_used_at,
  }
}

/** Ends a token. False: no valid token has this id. */
export async function revokeToken(
  pool: pg.Pool,
  id: string,
  now: Date,
  actor: Actor = 'operator',
): Promise<boolean> {
  const { rows } = await pool.query(
    `with revoked as (
       update platform.token set revoked_at = $2 where id = $1 and revoked_at is null returning id, account
     )
     insert into platform.audit (at, actor, action, account_id, target)
     select $2, $3, 'token.revoke', nullif(account, '*'), id from revoked
     returning target`,
    [id, now, actor],
  )
  return rows.length === 1
}

/** Puts a new token in a valid one's place, with the same grant. The old one goes on until `until` and no longer. */
export async function rotateToken(
  pool: pg.Pool,
  old: string,
  made: string,
  change: { now: Date; actor: Actor; until: Date; expiresAt: Date | null },
): Promise<boolean> {
  const { rows } = await pool.query(
    `with replaced as (
       update platform.token
       set replaced_by = $2, expires_at = least(expires_at, $6)
       where id = $1 and revoked_at is null and (expires_at is null or expires_at > $4)
       returning name, scopes, workspace, account
     ),
     made as (
       insert into platform.token (id, hash, name, scopes, workspace, account, created_at, created_by, expires_at)
       select $2, $3, name, scopes, workspace, account, $4, $5, $7 from replaced
       returning account
     )
     insert into platform.audit (at, actor, action, account_id, target)
     select $4, $5, 'token.rotate', nullif(account, '*'), $1 from made
     returning target`,
    [old, tokenIdOf(made), hashToken(made), change.now, change.actor, change.until, change.expiresAt],
  )
  return rows.length === 1
}

/** A token for BOOTSTRAP_TOKEN takes the place of those that were given before it. */
export async function revokeOtherBootstraps(pool: pg.Pool, token: string, now: Date): Promise<number> {
  const { rows } = await pool.query(
    `with revoked as (
       update platform.token set revoked_at = $2, replaced_by = $1
       where created_by = 'bootstrap' and id <> $1 and revoked_at is null
       returning id
     )
     insert into platform.audit (at, actor, action, account_id, target)
     select $2, 'service', 'token.revoke', null, id from revoked
     returning target`,
    [tokenIdOf(token), now],
  )
  return rows.length
}

import type pg from 'pg'
import type { Scope } from './access.ts'
import { hashToken, tokenIdOf } from './token.ts'

export type NewToken = {
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly workspace: string | null
  readonly account: string | null
  readonly createdAt: Date
  readonly expiresAt: Date | null
}

export type StoredToken = NewToken & { readonly id: string; readonly revokedAt: Date | null }

/** Stores a token's hash and grant. A token that is there already, revoked or not, stays as it is. */
export async function insertToken(pool: pg.Pool, token: string, grant: NewToken): Promise<void> {
  await pool.query(
    `insert into platform.token (id, hash, name, scopes, workspace, account, created_at, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing`,
    [
      tokenIdOf(token),
      hashToken(token),
      grant.name,
      grant.scopes,
      grant.workspace,
      grant.account,
      grant.createdAt,
      grant.expiresAt,
    ],
  )
}

export async function listTokens(pool: pg.Pool): Promise<StoredToken[]> {
  const { rows } = await pool.query(
    `select id, name, scopes, workspace, account, created_at, expires_at, revoked_at
     from platform.token order by created_at, id limit 10000`,
  )
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    scopes: row.scopes,
    workspace: row.workspace,
    account: row.account,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
  }))
}

export async function revokeToken(pool: pg.Pool, id: string, now: Date): Promise<boolean> {
  const revoked = await pool.query(
    'update platform.token set revoked_at = $2 where id = $1 and revoked_at is null returning id',
    [id, now],
  )
  return revoked.rows.length === 1
}

import type pg from 'pg'
import type { Clock } from '../clock.ts'
import { refuseRequest } from '../refusal.ts'
import { hashSession, isSession } from './session.ts'
import { hashToken, isToken } from './token.ts'

export const scopes = [
  'billing:read',
  'billing:write',
  'billing:refund',
  'batch:read',
  'batch:write',
  'admin',
] as const
export type Scope = (typeof scopes)[number]

/** Who asks: a token, what it may do and whose data it may touch. `*` is all, null is none. */
export type Principal = {
  readonly tokenId: string
  readonly scopes: ReadonlySet<Scope>
  readonly workspace: string | null
  readonly account: string | null
}

/** Every route says who may call it. `signed` routes verify a signature of their own; `any` takes every valid token. */
export type AccessPolicy = 'open' | 'signed' | 'any' | Scope

export function mayUse(principal: Principal, scope: Scope): boolean {
  if (principal.scopes.has(scope) || principal.scopes.has('admin')) return true
  return scope.endsWith(':read') && principal.scopes.has(scope.replace(':read', ':write') as Scope)
}

/** What concerns the whole installation is for tokens that are bound to nothing less. */
export function isBoundToAll({
  workspace,
  account,
}: {
  workspace: string | null
  account: string | null
}): boolean {
  return workspace === '*' && account === '*'
}

export function mayTouch(bound: string | null, wanted: string): boolean {
  return bound === '*' || bound === wanted
}

/** Throws unless the token reaches this account. For ids that callers make; our own ids answer 404 instead. */
export function requireAccount(principal: Principal, accountId: string): void {
  if (!mayTouch(principal.account, accountId)) throw refuseRequest('forbidden')
}

export function requireWorkspace(principal: Principal, workspaceId: string): void {
  if (!mayTouch(principal.workspace, workspaceId)) throw refuseRequest('forbidden')
}

type StoredToken = {
  id: string
  scopes: Scope[]
  workspace: string | null
  account: string | null
  expires_at: Date | null
  revoked_at: Date | null
  /** Real time; a Bearer header has none. */
  session_until: Date | null
}

export type Access = {
  /** Finds who a Bearer header speaks for. Every kind of failure is the same refusal. */
  identify(authorization: string | undefined): Promise<Principal>
  /** Finds whose session a cookie names: it may what the token may that signed in, as long as both last. */
  identifySession(cookie: string): Promise<Principal>
  /** Believes a session no longer, here; other processes notice within 5 s. */
  forget(cookie: string | undefined): void
}

// A revocation must hold within 5 s everywhere, so nothing is believed longer than this.
const believedForMs = 3_000
const mostRemembered = 20_000
const noteEveryMs = 600_000

/** Checks tokens against the database, remembering each good answer for a few seconds. */
export function openAccess(pool: pg.Pool, clock: Clock): Access {
  const remembered = new Map<string, { stored: StoredToken; principal: Principal; until: number }>()
  const asked = new Map<string, Promise<Principal>>()

  // When a token was used last is for people who tidy up, so some minutes are near enough and nobody waits for it.
  const notedAt = new Map<string, number>()
  function noteUse(id: string): void {
    const now = performance.now()
    if (now - (notedAt.get(id) ?? Number.NEGATIVE_INFINITY) < noteEveryMs) return
    if (notedAt.size >= mostRemembered) notedAt.clear()
    notedAt.set(id, now)
    pool
      .query({
        name: 'token-used',
        text: `update platform.token set last_used_at = $2
               where id = $1 and (last_used_at is null or last_used_at < $2::timestamptz - interval '5 minutes')`,
        values: [id, clock()],
      })
      .catch(() => {})
  }

  async function look(credential: string, query: Lookup): Promise<Principal> {
    // Its answer is as old as the question.
    const askedAt = performance.now()
    const { rows } = await pool.query<StoredToken>(query)
    const stored = rows[0]
    if (!stored || stored.revoked_at || isExpired(stored, clock())) throw refuseRequest('unauthorized')
    const principal = {
      tokenId: stored.id,
      scopes: new Set(stored.scopes),
      workspace: stored.workspace,
      account: stored.account,
    }
    noteUse(stored.id)
    if (remembered.size >= mostRemembered) remembered.clear()
    remembered.set(credential, { stored, principal, until: askedAt + believedForMs })
    return principal
  }

  async function know(credential: string, query: () => Lookup): Promise<Principal> {
    const known = remembered.get(credential)
    if (known && known.until > performance.now() && !isExpired(known.stored, clock())) return known.principal
    remembered.delete(credential)
    const underWay = asked.get(credential)
    if (underWay) return underWay
    const answer = look(credential, query()).finally(() => asked.delete(credential))
    asked.set(credential, answer)
    return answer
  }

  return {
    async identify(authorization) {
      const token = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
      if (!token || !isToken(token)) throw refuseRequest('unauthorized')
      return know(token, () => ({
        name: 'token-by-hash',
        text: `select id, scopes, workspace, account, expires_at, revoked_at, null as session_until
               from platform.token where hash = $1`,
        values: [hashToken(token)],
      }))
    },
    async identifySession(cookie) {
      if (!isSession(cookie)) throw refuseRequest('unauthorized')
      return know(cookie, () => ({
        name: 'token-by-session',
        text: `select t.id, t.scopes, t.workspace, t.account, t.expires_at, t.revoked_at, s.expires_at as session_until
               from platform.session s join platform.token t on t.id = s.token_id where s.hash = $1`,
        values: [hashSession(cookie)],
      }))
    },
    forget(cookie) {
      if (cookie !== undefined) remembered.delete(cookie)
    },
  }
}

type Lookup = { name: string; text: string; values: [Buffer] }

function isExpired(stored: StoredToken, now: Date): boolean {
  if (stored.session_until !== null && stored.session_until.getTime() <= Date.now()) return true
  return stored.expires_at !== null && stored.expires_at <= now
}

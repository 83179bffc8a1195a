import { addDuration, parseDuration } from '../time.ts'
import { isBoundToAll, type Scope } from './access.ts'
import type { StoredToken, TokenGrant } from './token-rows.ts'

export type Rights = Omit<TokenGrant, 'name'>

/**
 * The rights that were asked for. `admin` concerns the whole installation, so it is for all and need not say so; undefined
 * when it is asked for less.
 */
export function rightsOf(
  scopes: readonly Scope[],
  { workspace, account }: { workspace: string | null; account: string | null },
): Rights | undefined {
  const isAdmin = scopes.includes('admin')
  const unbound = isAdmin ? '*' : null
  const rights = { scopes, workspace: workspace ?? unbound, account: account ?? unbound }
  return isAdmin && !isBoundToAll(rights) ? undefined : rights
}

/**
 * What a token lacks to reach anybody's data with its scopes: they are of an area, and it is bound to nobody there. It still
 * reads what belongs to the installation, such as plans or models.
 */
export function lackingOf({ scopes, workspace, account }: Rights): ('account' | 'workspace')[] {
  const has = (area: string) => scopes.some((scope) => scope.startsWith(area))
  return [
    ...(account === null && has('billing:') ? (['account'] as const) : []),
    ...(workspace === null && has('batch:') ? (['workspace'] as const) : []),
  ]
}

/**
 * When a token ends: null is never, undefined is a text that says no time to come. In live mode it ends after a year by
 * itself. The sandbox's clock jumps over years, so there it does not.
 */
export function expiryOf(
  text: string | undefined,
  now: Date,
  { mode, timeZone }: { mode: string; timeZone: string },
): Date | null | undefined {
  if (text === 'never' || (text === undefined && mode !== 'live')) return null
  const duration = parseDuration(text ?? 'P1Y')
  const at = duration && addDuration(now, duration, timeZone)
  return at && at > now ? at : undefined
}

export type TokenStatus = 'valid' | 'replaced' | 'expired' | 'revoked'

export function tokenStatus(
  token: Pick<StoredToken, 'revokedAt' | 'expiresAt' | 'replacedBy'>,
  now: Date,
): TokenStatus {
  if (token.revokedAt) return 'revoked'
  if (token.expiresAt && token.expiresAt <= now) return 'expired'
  return token.replacedBy ? 'replaced' : 'valid'
}

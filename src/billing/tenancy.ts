import { mayTouch, type Principal } from '../platform/access/access.ts'
import type { Refusal } from '../platform/refusal.ts'
import { refuseRequest } from '../platform/refusal.ts'

/** Whose rows a list may show: one account, or undefined for all. A token that reaches no account sees none. */
export function tenantOf(principal: Principal, asked: string | undefined): string | undefined {
  if (asked !== undefined) return asked // the platform has already compared it with the token
  if (principal.account === null) throw refuseRequest('forbidden')
  return principal.account === '*' ? undefined : principal.account
}

/** Whose payments are told by the provider's own words: an operator's, never to a customer's token. */
export function isOperator({ account }: Principal): boolean {
  return account === '*'
}

/** Hands a row on to its owner only. To anyone else one of our ids does not exist. */
export function ownedBy<T extends { readonly accountId: string }>(
  principal: Principal,
  row: T | undefined,
  missing: () => Refusal,
): T {
  if (!row || !mayTouch(principal.account, row.accountId)) throw missing()
  return row
}

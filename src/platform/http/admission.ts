import type { FastifyReply, FastifyRequest } from 'fastify'
import {
  type Access,
  isBoundToAll,
  mayUse,
  type Principal,
  requireAccount,
  requireWorkspace,
  type Scope,
} from '../access/access.ts'
import { quota, type RateLimiter, type Verdict, windowSeconds } from '../access/rate-limit.ts'
import { isCrossSite, sessionOf } from '../access/session.ts'
import { callerIdPattern } from '../id.ts'
import { type Refusal, refuseRequest } from '../refusal.ts'

/** Who a request speaks for. Where no session is known, a cookie says nothing. */
export type Identifies = Pick<Access, 'identify'> & Partial<Pick<Access, 'identifySession'>>

/**
 * Who may come in, in the order the contract gives: 401, then parsing, then 403, then 429, then validation. Whoever
 * waited for long on this way is asked for once more at its end.
 */
export function openAccessHooks(access: Identifies, limiter: RateLimiter) {
  return {
    /** Whether a token is asked for at all. What is open or signed has its own way, in a hurry. */
    asksForToken: (request: FastifyRequest): boolean => policyOf(request) !== undefined,

    async identify(request: FastifyRequest, reply: FastifyReply): Promise<void> {
      try {
        request.principal = await identifyBy(access, request)
      } catch (error) {
        if ((error as Refusal).code === 'unauthorized') reply.header('www-authenticate', 'Bearer')
        throw error
      }
    },

    /** Whether so much time went by since it was identified that its token may have been revoked meanwhile. */
    isToBeIdentifiedAgain: (request: FastifyRequest): boolean =>
      policyOf(request) !== undefined && performance.now() - request.startedAt > identifiedForMs,

    async admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
      const scope = policyOf(request)
      if (scope === undefined) return
      if (scope !== 'any' && !mayUse(request.principal, scope)) throw refuseRequest('forbidden')
      if (scope === 'admin' && !isBoundToAll(request.principal)) throw refuseRequest('forbidden')
      requireTenant(request)
      if (!request.routeOptions.config.limited) return
      const verdict = await limiter.admit(bucketOf(request))
      request.counted = true
      tellLimit(reply, verdict)
      if (!verdict.admitted) throw limited(verdict)
    },
  }
}

// Who a request is may be known from a memory of three seconds. Both together stay below the five in which a revocation
// has to count.
const identifiedForMs = 1_000

/** A body that cannot be read names no workspace, so it counts against the token itself. Throws if it is one too many. */
export async function countUnparsable(
  limiter: RateLimiter,
  request: FastifyRequest,
  reply: FastifyReply,
  refusal: Refusal | undefined,
): Promise<void> {
  const unparsable = refusal && unparsableCodes.has(refusal.code) && request.routeOptions.config.limited
  if (!unparsable || !request.principal || request.counted) return
  const verdict = await limiter.admit(tokenBucket(request))
  tellLimit(reply, verdict)
  if (!verdict.admitted) throw limited(verdict)
}

const unparsableCodes = new Set([
  'invalid_json',
  'body_too_large',
  'unsupported_media_type',
  // Only when its shape alone was refused, before anything in it was read.
  'validation_failed',
])

/** By a Bearer header, or else by the cookie of a session, unless another site may stand behind it. */
async function identifyBy(access: Identifies, request: FastifyRequest): Promise<Principal> {
  const { authorization, cookie } = request.headers
  const session = authorization === undefined ? sessionOf(cookie) : undefined
  if (session === undefined || !access.identifySession) return access.identify(authorization)
  const principal = await access.identifySession(session)
  if (isCrossSite(request)) throw refuseRequest('cross_site')
  return principal
}

function policyOf(request: FastifyRequest): Scope | 'any' | undefined {
  const policy = request.routeOptions.config?.access
  return policy === undefined || policy === 'open' || policy === 'signed' ? undefined : policy
}

/** An account or workspace that the caller names anywhere in the request must be the token's. */
function requireTenant(request: FastifyRequest): void {
  for (const part of [request.params, request.query, request.body]) {
    const account = namedId(part, 'account_id')
    if (account !== undefined) requireAccount(request.principal, account)
    const workspace = namedId(part, 'workspace_id')
    if (workspace !== undefined) requireWorkspace(request.principal, workspace)
  }
}

function namedId(part: unknown, name: string): string | undefined {
  const value = (part as Record<string, unknown> | null | undefined)?.[name]
  return typeof value === 'string' && callerIdPattern.test(value) ? value : undefined
}

function bucketOf(request: FastifyRequest): string {
  const workspace =
    namedId(request.body, 'workspace_id') ??
    namedId(request.query, 'workspace_id') ??
    // `*` is no workspace, and no caller's id either.
    namedId(request.principal, 'workspace') ??
    // A token that is not for all workspaces could spend another's requests with it.
    (request.principal.workspace === '*' ? namedId(request.headers, 'x-workspace-id') : undefined)
  return workspace === undefined ? tokenBucket(request) : `workspace:${workspace}`
}

function tokenBucket(request: FastifyRequest): string {
  return `token:${request.principal.tokenId}`
}

function tellLimit(reply: FastifyReply, verdict: Verdict): void {
  reply.header('ratelimit-policy', policyField)
  reply.header('ratelimit', `"workspace";r=${verdict.remaining};t=${verdict.retryAfterSeconds}`)
}

const policyField = `"workspace";q=${quota};w=${windowSeconds}`

function limited(verdict: Verdict): Refusal {
  return refuseRequest('rate_limited', { headers: { 'retry-after': String(verdict.retryAfterSeconds) } })
}

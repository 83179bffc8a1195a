import Type, { type Static } from 'typebox'
import type { App } from './app.ts'
import { isBoundToAll, scopes } from './platform/access/access.ts'
import { type AuditEntry, type AuditTables, insertAudit, listAudit } from './platform/access/audit-rows.ts'
import { newToken, tokenIdOf } from './platform/access/token.ts'
import {
  findToken,
  insertToken,
  listTokens,
  revokeToken,
  type StoredToken,
} from './platform/access/token-rows.ts'
import { openDb } from './platform/database/db.ts'
import { envelope, nullable, page, success } from './platform/http/answers.ts'
import { AccountId, lineOf } from './platform/http/fields.ts'
import type { Http } from './platform/http/http.ts'
import { callerIdPattern } from './platform/id.ts'
import { sanitize } from './platform/log/sanitize.ts'
import { limitOf, pageOf, pageQuery, readCursor } from './platform/page.ts'
import { jobStatuses, type ListedJob, listJobs } from './platform/queue/queue.ts'
import { discardDeadJob, reviveDeadJob } from './platform/queue/queue-schema.ts'
import { type Refusal, refusalsOf, refuse as refusePlainly } from './platform/refusal.ts'
import { addDuration, parseDuration, parseInstant, renderInstant } from './platform/time.ts'

const refuse = refusalsOf({
  token_not_found: ['not_found', 'There is no such token.'],
  already_revoked: ['conflict', 'This token is revoked already.'],
  job_not_found: ['not_found', 'There is no such job.'],
  job_not_dead: [
    'conflict',
    'This job has attempts left, or is being worked; only a dead one can be decided on.',
  ],
})

/** What concerns the whole installation: who may come in, who did what, and what the queue gave up. */
export function installationRoutes(http: Http, app: App): void {
  tokenRoutes(http, app)
  auditRoutes(http, app)
  jobRoutes(http, app)
}

const common = { config: { access: 'admin' as const } }
const strict = { additionalProperties: false }
const tags = ['operations']

const Binding = Type.String({
  pattern: `^(?:\\*|${callerIdPattern.source.slice(1, -1)})$`,
  description: '`*` is all',
})

const TokenView = Type.Object(
  {
    token_id: Type.String(),
    name: Type.String(),
    scopes: Type.Array(Type.String()),
    workspace: nullable(Type.String()),
    account: nullable(Type.String()),
    status: Type.Enum(['valid', 'replaced', 'expired', 'revoked']),
    created_at: Type.String(),
    created_by: Type.String({ description: "A token's id, operator, bootstrap or data dir" }),
    last_used_at: nullable(Type.String({ description: 'Give or take some minutes' })),
    expires_at: nullable(Type.String()),
    revoked_at: nullable(Type.String()),
    replaced_by: nullable(Type.String()),
  },
  { title: 'Token' },
)

function tokenRoutes(http: Http, app: App): void {
  const { pool, clock } = app
  const time = (at: Date | null) => at && renderInstant(at, app.config.timeZone)
  const view = (token: StoredToken): Static<typeof TokenView> => ({
    token_id: token.id,
    name: token.name,
    scopes: [...token.scopes],
    workspace: token.workspace,
    account: token.account,
    status: statusOf(token, clock()),
    created_at: time(token.createdAt)!,
    created_by: token.createdBy,
    last_used_at: time(token.lastUsedAt),
    expires_at: time(token.expiresAt),
    revoked_at: time(token.revokedAt),
    replaced_by: token.replacedBy,
  })

  http.get(
    '/api/tokens',
    {
      ...common,
      schema: {
        operationId: 'listTokens',
        summary: 'Access tokens, newest first; never the tokens themselves',
        tags,
        querystring: Type.Object(pageQuery, strict),
        response: { 200: page('tokens', TokenView) },
      },
    },
    async (request) => {
      const limit = limitOf(request.query)
      const cursor = readCursor(request.query, 2)
      const at = cursor && parseInstant(cursor[0]!)
      if (cursor && !at) throw badField('cursor', 'This cursor was not made by this list; start without one.')
      const before = cursor && at ? ([at.toISOString(), cursor[1]!] as const) : null
      const rows = await listTokens(pool, { before, limit: limit + 1 })
      const { items, nextCursor } = pageOf(rows, limit, ({ createdAt, id }) => [createdAt.toISOString(), id])
      return envelope({ tokens: items.map(view), next_cursor: nextCursor })
    },
  )

  http.post(
    '/api/tokens',
    {
      ...common,
      schema: {
        operationId: 'createToken',
        summary: 'Make an access token; it is shown in this answer and never again',
        description:
          'Without `expires_in` a token lasts a year in live mode, and has no end in sandbox mode.',
        tags,
        body: Type.Object(
          {
            name: Type.Optional(lineOf(200)),
            scopes: Type.Array(Type.Enum([...scopes]), { minItems: 1, maxItems: scopes.length }),
            workspace: Type.Optional(Binding),
            account: Type.Optional(Binding),
            expires_in: Type.Optional(
              Type.String({ maxLength: 64, description: 'An ISO 8601 duration such as P90D, or never' }),
            ),
          },
          strict,
        ),
        response: { 201: success(Type.Object({ ...TokenView.properties, token: Type.String() })) },
      },
    },
    async (request, reply) => {
      const { name = '', expires_in, ...wanted } = request.body
      const granted = [...new Set(wanted.scopes)]
      const unbound = granted.includes('admin') ? '*' : null
      const grant = {
        name,
        scopes: granted,
        workspace: wanted.workspace ?? unbound,
        account: wanted.account ?? unbound,
      }
      if (granted.includes('admin') && !isBoundToAll(grant))
        throw badField('scopes', 'admin concerns the whole installation: bind it to nothing less than all.')
      const made = newToken(app.config.mode === 'live' ? 'live' : 'test')
      app.secrets.addPassing(made)
      const now = clock()
      const createdBy = request.principal.tokenId
      const expiresAt = expiryOf(app, expires_in, now)
      await insertToken(pool, made, { ...grant, createdAt: now, createdBy, expiresAt })
      const stored = (await findToken(pool, tokenIdOf(made)))!
      return reply.code(201).send(envelope({ ...view(stored), token: made }))
    },
  )

  const TokenId = Type.String({ maxLength: 64 })
  const response = { 200: success(TokenView) }
  const summary = 'Revoke an access token; every process refuses it within 5 seconds'
  const revoke = async (id: string, actor: string) => {
    const isRevoked = await revokeToken(pool, id, clock(), actor)
    const token = await findToken(pool, id)
    if (!token) throw refuse('token_not_found')
    if (!isRevoked) throw refuse('already_revoked')
    return envelope(view(token))
  }
  http.delete(
    '/api/tokens',
    {
      ...common,
      schema: {
        operationId: 'revokeToken',
        summary,
        tags,
        body: Type.Object({ token_id: TokenId }, strict),
        errors: refuse.may('token_not_found', 'already_revoked'),
        response,
      },
    },
    async ({ body, principal }) => revoke(body.token_id, principal.tokenId),
  )
  http.delete(
    '/api/tokens/:token_id',
    {
      ...common,
      schema: {
        operationId: 'revokeTokenById',
        summary,
        tags,
        params: Type.Object({ token_id: Type.String() }),
        errors: refuse.may('token_not_found', 'already_revoked'),
        response,
      },
    },
    async ({ params, principal }) => revoke(params.token_id, principal.tokenId),
  )
}

function statusOf(token: StoredToken, now: Date): Static<typeof TokenView>['status'] {
  if (token.revokedAt) return 'revoked'
  if (token.expiresAt && token.expiresAt <= now) return 'expired'
  return token.replacedBy ? 'replaced' : 'valid'
}

function expiryOf(app: App, expiresIn: string | undefined, now: Date): Date | null {
  if (expiresIn === 'never' || (expiresIn === undefined && app.config.mode !== 'live')) return null
  const duration = parseDuration(expiresIn ?? 'P1Y')
  const at = duration && addDuration(now, duration, app.config.timeZone)
  if (!at || at <= now)
    throw badField('expires_in', 'This takes an ISO 8601 duration such as P90D, or never.')
  return at
}

function badField(path: string, message: string): Refusal {
  return refusePlainly('validation_failed', { details: [{ path, code: 'invalid', message }] })
}

const AuditView = Type.Object(
  {
    audit_id: Type.String(),
    at: Type.String(),
    actor: Type.String({ description: "A token's id, operator, or service" }),
    action: Type.String(),
    account_id: nullable(Type.String()),
    target: Type.String(),
  },
  { title: 'AuditEntry' },
)

function auditRoutes(http: Http, app: App): void {
  const db = openDb<AuditTables>(app.pool)
  const Word = Type.String({ maxLength: 128, pattern: '^[\\x21-\\x7e]+$' })
  const view = (entry: AuditEntry): Static<typeof AuditView> => ({
    audit_id: String(entry.id),
    at: renderInstant(entry.at, app.config.timeZone),
    actor: entry.actor,
    action: entry.action,
    account_id: entry.accountId,
    target: entry.target,
  })
  const instant = (path: string, text: string): Date => {
    const at = parseInstant(text)
    if (!at) throw badField(path, 'This takes an instant with an offset such as 2026-11-15T09:00:00+09:00.')
    return at
  }

  http.get(
    '/api/audit',
    {
      ...common,
      schema: {
        operationId: 'listAudit',
        summary: 'Who asked for what, and who read whose personal data, newest first',
        tags,
        querystring: Type.Object(
          {
            actor: Type.Optional(Word),
            action: Type.Optional(Word),
            account_id: Type.Optional(AccountId),
            target: Type.Optional(Word),
            from: Type.Optional(Type.String({ maxLength: 64 })),
            to: Type.Optional(Type.String({ maxLength: 64 })),
            ...pageQuery,
          },
          strict,
        ),
        response: { 200: page('entries', AuditView) },
      },
    },
    async (request) => {
      const { actor, action, account_id, target, from, to, ...paging } = request.query
      const found = await listAudit(
        db,
        {
          ...(actor !== undefined && { actor }),
          ...(action !== undefined && { action }),
          ...(account_id !== undefined && { accountId: account_id }),
          ...(target !== undefined && { target }),
          ...(from !== undefined && { from: instant('from', from) }),
          ...(to !== undefined && { to: instant('to', to) }),
        },
        paging,
      )
      return envelope({ entries: found.items.map(view), next_cursor: found.nextCursor })
    },
  )
}

const JobView = Type.Object(
  {
    job_id: Type.String(),
    name: Type.String(),
    status: Type.Enum([...jobStatuses, 'discarded']),
    attempts: Type.Integer(),
    max_attempts: Type.Integer(),
    last_error: nullable(Type.String()),
    run_at: Type.String(),
    updated_at: Type.String(),
  },
  { title: 'Job' },
)

function jobRoutes(http: Http, app: App): void {
  const db = openDb<AuditTables>(app.pool)
  const time = (at: Date) => renderInstant(at, app.config.timeZone)
  const view = (
    { id, last_error, run_at, updated_at, ...job }: ListedJob,
    status: Static<typeof JobView>['status'],
  ) => ({
    job_id: id,
    name: job.name,
    status,
    attempts: job.attempts,
    max_attempts: job.max_attempts,
    last_error: last_error && sanitize(last_error).slice(0, 300),
    run_at: time(run_at),
    updated_at: time(updated_at),
  })

  http.get(
    '/api/jobs',
    {
      ...common,
      schema: {
        operationId: 'listJobs',
        summary: 'What is in the queue, oldest first',
        tags,
        querystring: Type.Object(
          { status: Type.Optional(Type.Enum([...jobStatuses])), ...pageQuery },
          strict,
        ),
        response: { 200: page('jobs', JobView) },
      },
    },
    async (request) => {
      const { status } = request.query
      const limit = limitOf(request.query)
      const after = readCursor(request.query, 1)?.[0] ?? '0'
      if (!isJobId(after))
        throw badField('cursor', 'This cursor was not made by this list; start without one.')
      const rows = await listJobs(db, { ...(status && { status }), after, limit: limit + 1 })
      const { items, nextCursor } = pageOf(rows, limit, ({ id }) => [id])
      return envelope({ jobs: items.map((job) => view(job, job.status)), next_cursor: nextCursor })
    },
  )

  const decisions = [
    {
      verb: 'retry',
      operationId: 'retryJob',
      summary: 'Give a dead job its attempts back',
      decide: reviveDeadJob,
      becomes: 'waiting',
    },
    {
      verb: 'discard',
      operationId: 'discardJob',
      summary: 'Give a dead job up for good',
      decide: discardDeadJob,
      becomes: 'discarded',
    },
  ] as const
  for (const { verb, operationId, summary, decide, becomes } of decisions) {
    http.post(
      `/api/jobs/:job_id/${verb}`,
      {
        ...common,
        schema: {
          operationId,
          summary,
          tags,
          params: Type.Object({ job_id: Type.String() }),
          errors: refuse.may('job_not_found', 'job_not_dead'),
          response: { 200: success(JobView) },
        },
      },
      async (request) => {
        const { job_id: id } = request.params
        const [job] = isJobId(id) ? await listJobs(db, { id, limit: 1 }) : []
        if (!job) throw refuse('job_not_found')
        await db.transaction().execute(async (tx) => {
          if (!(await decide<AuditTables>(tx, id))) throw refuse('job_not_dead')
          const { tokenId: actor } = request.principal
          await insertAudit(tx, {
            at: app.clock(),
            actor,
            action: `job.${verb}`,
            accountId: null,
            target: `job:${id}`,
          })
        })
        return envelope(view(job, becomes))
      },
    )
  }
}

function isJobId(text: string): boolean {
  return /^\d{1,18}$/.test(text)
}

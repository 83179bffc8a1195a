import Type, { type Static } from 'typebox'
import type { App } from '../app.ts'
import { scopes } from '../platform/access/access.ts'
import { newToken, tokenIdOf } from '../platform/access/token.ts'
import { expiryOf, rightsOf, tokenStatus } from '../platform/access/token-rights.ts'
import {
  findToken,
  insertToken,
  listTokens,
  revokeToken,
  type StoredToken,
} from '../platform/access/token-rows.ts'
import { envelope, nullable, page, success } from '../platform/http/answers.ts'
import { lineOf } from '../platform/http/fields.ts'
import type { Http } from '../platform/http/http.ts'
import { invalidField } from '../platform/http/validation.ts'
import { callerIdPattern } from '../platform/id.ts'
import { limitOf, pageOf, pageQuery, readCursor } from '../platform/page.ts'
import { refusalsOf } from '../platform/refusal.ts'
import { parseInstant, renderInstant } from '../platform/time.ts'

const refuse = refusalsOf({
  token_not_found: ['not_found', 'There is no such token.'],
  already_revoked: ['conflict', 'This token is revoked already.'],
})

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

/** Who may come in: making, listing and revoking access tokens. */
export function tokenRoutes(http: Http, app: App): void {
  const { pool, clock } = app
  const time = (at: Date | null) => at && renderInstant(at, app.config.timeZone)
  const view = (token: StoredToken): Static<typeof TokenView> => ({
    token_id: token.id,
    name: token.name,
    scopes: [...token.scopes],
    workspace: token.workspace,
    account: token.account,
    status: tokenStatus(token, clock()),
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
      if (cursor && !at)
        throw invalidField('cursor', 'This cursor was not made by this list; start without one.')
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
      const { workspace = null, account = null } = wanted
      const rights = rightsOf([...new Set(wanted.scopes)], { workspace, account })
      if (!rights)
        throw invalidField(
          'scopes',
          'admin concerns the whole installation: bind it to nothing less than all.',
        )
      const made = newToken(app.config.mode === 'live' ? 'live' : 'test')
      app.secrets.addPassing(made)
      const now = clock()
      const createdBy = request.principal.tokenId
      const expiresAt = expiryOf(expires_in, now, app.config)
      if (expiresAt === undefined)
        throw invalidField('expires_in', 'This takes an ISO 8601 duration such as P90D, or never.')
      await insertToken(pool, made, { name, ...rights, createdAt: now, createdBy, expiresAt })
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

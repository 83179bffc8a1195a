import Type from 'typebox'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { type Page, pageQuery } from '../../platform/page.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { refuse } from '../refusals.ts'
import { workspaceOf } from '../workspace.ts'
import { addRecentRanks } from './add-recent-ranks.ts'
import type { RecentRank, RegisteredKeyword } from './keyword-rows.ts'
import { registerKeywords } from './register-keywords.ts'
import { removeKeywords } from './remove-keywords.ts'
import { searchKeywords } from './search-keywords.ts'

// Items may be anything here: the keyword rule itself says what is wrong with each of them.
const Keywords = Type.Array(Type.Unknown({ description: 'A keyword' }), {
  minItems: 1,
  maxItems: 100,
  'x-codes': { maxItems: 'too_many_keywords' },
})

const Keyword = Type.Object(
  {
    keyword: Type.String(),
    created_at: Type.String(),
    ranks: Type.Optional(
      Type.Array(
        Type.Object({
          day: Type.String(),
          engine: Type.String(),
          device: Type.String(),
          location: Type.String(),
          status: Type.String({ description: 'ranked, not_in_depth or failed' }),
          position: nullable(Type.Integer()),
        }),
        { description: 'With `days`: its newest 40,000 ranks, oldest first' },
      ),
    ),
  },
  { title: 'Keyword' },
)

export function keywordRoutes(http: Http, app: BatchApp): void {
  http.post(
    '/api/batch/keywords',
    {
      config: { access: 'batch:write', limited: true },
      schema: {
        operationId: 'registerKeywords',
        summary: 'Register keywords in bulk',
        description:
          'Skipped are keywords that the workspace has already and repeats within the request. One bad entry refuses all.',
        tags: ['batch'],
        querystring: Type.Object(
          { each: Type.Optional(Type.Boolean({ description: 'Also tell the verdict on each entry' })) },
          { additionalProperties: false },
        ),
        body: Type.Object({ workspace_id: WorkspaceId, keywords: Keywords }, { additionalProperties: false }),
        errors: refuse.may('invalid_keyword'),
        response: {
          200: success(
            Type.Object({
              registered: Type.Integer(),
              skipped: Type.Integer(),
              verdicts: Type.Optional(
                Type.Array(Type.Enum(['registered', 'skipped']), {
                  description: 'In the order of the request',
                }),
              ),
            }),
          ),
        },
      },
    },
    async (request) => {
      const { workspace_id, keywords } = request.body
      const { verdicts, ...counts } = await registerKeywords(app, workspace_id, keywords)
      return envelope(request.query.each ? { ...counts, verdicts } : counts)
    },
  )

  http.get(
    '/api/batch/keywords',
    {
      config: { access: 'batch:read', limited: true, longWith: 'days', mayLag: true },
      schema: {
        operationId: 'listKeywords',
        summary: 'List or search the keywords of a workspace',
        description:
          '`q` finds keywords that contain it, without regard to case and width. A page may hold fewer than `limit` keywords and still have a `next_cursor`.',
        tags: ['batch'],
        querystring: Type.Object(
          {
            workspace_id: Type.Optional(WorkspaceId),
            q: Type.Optional(Type.String({ maxLength: 640 })),
            days: Type.Optional(
              Type.Integer({
                minimum: 1,
                maximum: 92,
                description: 'Include ranks of so many days up to today',
              }),
            ),
            ...pageQuery,
          },
          { additionalProperties: false },
        ),
        errors: refuse.may('invalid_keyword'),
        response: { 200: page('keywords', Keyword) },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.query.workspace_id)
      const reader = reading(app, request)
      const found = await searchKeywords(reader, workspaceId, request.query)
      const { days } = request.query
      const listed: Page<RegisteredKeyword & { ranks?: RecentRank[] }> =
        days === undefined ? found : await addRecentRanks(reader, workspaceId, found, days)
      return envelope({
        keywords: listed.items.map(({ display, createdAt, ranks }) => ({
          keyword: display,
          created_at: renderInstant(createdAt, app.timeZone),
          ...(ranks && { ranks }),
        })),
        next_cursor: listed.nextCursor,
      })
    },
  )

  http.delete(
    '/api/batch/keywords',
    {
      config: { access: 'batch:write', limited: true },
      schema: {
        operationId: 'removeKeywords',
        summary: 'Remove keywords from a workspace',
        description: 'Their history stays, and comes back when they are registered again.',
        tags: ['batch'],
        body: Type.Object(
          { workspace_id: Type.Optional(WorkspaceId), keywords: Keywords },
          { additionalProperties: false },
        ),
        errors: refuse.may('invalid_keyword'),
        response: { 200: success(Type.Object({ removed: Type.Integer(), not_found: Type.Integer() })) },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.body.workspace_id)
      return envelope(await removeKeywords(app, workspaceId, request.body.keywords))
    },
  )
}

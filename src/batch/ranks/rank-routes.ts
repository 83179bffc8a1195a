import Type from 'typebox'
import { envelope, nullable, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import { bodyLimits, type Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { pageQuery } from '../../platform/page.ts'
import { mapInPieces } from '../../platform/pieces.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { refuse } from '../refusals.ts'
import { workspaceOf } from '../workspace.ts'
import { lookUpRanks } from './look-up-ranks.ts'
import { rankStatuses } from './rank.ts'
import { RankForm } from './rank-form.ts'
import { recordRanks } from './record-ranks.ts'

const Day = Type.String({
  title: 'Day',
  pattern: '^\\d{4}-\\d\\d-\\d\\d$',
  description: 'A day such as 2026-11-14',
})

const Recorded = Type.Object({
  inserted: Type.Integer(),
  updated: Type.Integer(),
  unchanged: Type.Integer(),
  rejected: Type.Integer(),
  rejections: Type.Array(Type.Object({ index: Type.Integer(), code: Type.String() })),
})

const History = Type.Object({
  keyword: Type.String(),
  from: Day,
  to: Day,
  ranks: Type.Array(
    Type.Object({
      day: Day,
      engine: Type.String(),
      device: Type.String(),
      location: Type.String(),
      status: Type.Enum([...rankStatuses]),
      position: nullable(Type.Integer()),
      mean_position: nullable(Type.Number({ description: 'Where the place is a mean over many searches' })),
      searched_depth: Type.Integer(),
      url: nullable(Type.String()),
      reason: nullable(Type.String({ description: 'Why a check failed' })),
      checked_at: Type.String(),
    }),
  ),
  best: Type.Optional(
    Type.Array(
      Type.Object({
        engine: Type.String(),
        device: Type.String(),
        location: Type.String(),
        position: Type.Integer(),
        mean_position: nullable(Type.Number()),
        day: Day,
      }),
      { description: 'First page: the best place ever, and its first day, of the 1,000 series ranked last' },
    ),
  ),
  next_cursor: nullable(Type.String()),
})

export function rankRoutes(http: Http, app: BatchApp): void {
  http.post(
    '/api/batch/ranks',
    {
      config: { access: 'batch:write', limited: true },
      bodyLimit: bodyLimits.bulk,
      schema: {
        operationId: 'recordRanks',
        summary: 'Add observations to the rank history',
        description:
          'One rank is kept per keyword, engine, device, location and day: the one checked last. A failed check never takes the place of a good one. Unknown keywords and impossible values are rejected row by row.',
        tags: ['batch'],
        body: Type.Object(
          {
            workspace_id: Type.Optional(WorkspaceId),
            observations: Type.Array(RankForm, { minItems: 1, maxItems: 1000 }),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Recorded) },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.body.workspace_id)
      return envelope(await recordRanks(app, workspaceId, request.body.observations))
    },
  )

  http.get(
    '/api/batch/ranks/:keyword',
    {
      config: { access: 'batch:read', limited: true, longPages: true, mayLag: true },
      schema: {
        operationId: 'getRankHistory',
        summary: 'Rank history of a keyword',
        description:
          'Every engine, device and location, oldest day first. Without `from` and `to`: the year that ends now.',
        tags: ['batch'],
        params: Type.Object({ keyword: Type.String() }),
        querystring: Type.Object(
          {
            workspace_id: Type.Optional(WorkspaceId),
            from: Type.Optional(Day),
            to: Type.Optional(Day),
            ...pageQuery,
            limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 1000 })),
          },
          { additionalProperties: false },
        ),
        errors: refuse.may('invalid_keyword', 'keyword_not_found'),
        response: { 200: success(History) },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.query.workspace_id)
      const { keyword, from, to, page, best } = await lookUpRanks(
        reading(app, request),
        workspaceId,
        request.params.keyword,
        { limit: 1000, ...request.query },
      )
      return envelope({
        keyword,
        from,
        to,
        ranks: await mapInPieces(page.items, (rank) => ({
          day: rank.day,
          engine: rank.engine,
          device: rank.device,
          location: rank.location,
          status: rank.status,
          position: rank.position,
          mean_position: rank.meanPosition,
          searched_depth: rank.searchedDepth,
          url: rank.url,
          reason: rank.reason,
          checked_at: renderInstant(rank.checkedAt, app.timeZone),
        })),
        ...(best && {
          best: best.map(({ engine, device, location, position, meanPosition, day }) => ({
            engine,
            device,
            location,
            position,
            mean_position: meanPosition,
            day,
          })),
        }),
        next_cursor: page.nextCursor,
      })
    },
  )
}

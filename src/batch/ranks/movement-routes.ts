import Type from 'typebox'
import { envelope, nullable, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { namesWrite, reading } from '../../platform/http/may-lag.ts'
import { limitOf, type PageRequest, pageOf, pageQuery, readCursor } from '../../platform/page.ts'
import { refuseRequest } from '../../platform/refusal.ts'
import { dayOf, parseDay } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { foreignCursor } from '../cursor.ts'
import { workspaceOf } from '../workspace.ts'
import { lookUpMovements } from './look-up-movements.ts'
import type { MovementPlace } from './movement-rows.ts'
import { isSeriesName } from './rank.ts'

const Day = Type.String({
  title: 'Day',
  pattern: '^\\d{4}-\\d\\d-\\d\\d$',
  description: 'A day such as 2026-11-14',
})
const series = { engine: Type.String(), device: Type.String(), location: Type.String() }

export function movementRoutes(http: Http, app: BatchApp): void {
  http.get(
    '/api/batch/movements',
    {
      config: { access: 'batch:read', limited: true, mayLag: true },
      schema: {
        operationId: 'listMovements',
        summary: 'What rose, fell, entered and left on a day',
        description:
          'Compared with the last good check before, at most 31 days back; `day` is today by default. Failed checks tell nothing, and neither does a series of which more than 30 % failed. `shares` counts the keywords that stood in the first 3, 10 and 100, of at most 100 series.',
        tags: ['batch'],
        querystring: Type.Object(
          { workspace_id: Type.Optional(WorkspaceId), day: Type.Optional(Day), ...pageQuery },
          { additionalProperties: false },
        ),
        response: {
          200: success(
            Type.Object({
              day: Day,
              movements: Type.Array(
                Type.Object({
                  keyword: Type.String(),
                  ...series,
                  from: nullable(Type.Integer()),
                  to: nullable(Type.Integer()),
                  change: Type.Enum(['rose', 'fell', 'entered', 'left']),
                  days: Type.Integer({ description: 'Since the check it is compared with' }),
                }),
              ),
              shares: Type.Array(
                Type.Object({
                  ...series,
                  keywords: Type.Integer({ description: 'With a good check' }),
                  failed: Type.Integer(),
                  top_3: Type.Integer(),
                  top_10: Type.Integer(),
                  top_100: Type.Integer(),
                }),
              ),
              next_cursor: nullable(Type.String()),
            }),
          ),
        },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.query.workspace_id)
      const place = placeOf(request.query)
      const day = request.query.day ?? place?.day ?? dayOf(app.clock(), app.timeZone)
      if (parseDay(day) === undefined) {
        const details = [{ path: 'day', code: 'not_real', message: 'There is no such day.' }]
        throw refuseRequest('validation_failed', { details })
      }
      if (place?.day !== undefined && place.day !== day) throw foreignCursor()
      const limit = limitOf(request.query)
      const after = place?.after
      const page = { after, limit: limit + 1, mayRecall: !namesWrite(request) }
      const { movements, shares } = await lookUpMovements(reading(app, request), workspaceId, day, page)
      const { items, nextCursor } = pageOf(movements, limit, (row) => [
        `${day} ${row.keywordId}`,
        row.engine,
        row.device,
        row.location,
      ])
      return envelope({
        day,
        movements: items.map(({ keywordId: _, ...movement }) => movement),
        shares: shares.map(({ top3, top10, top100, broken: _, ...share }) => ({
          ...share,
          top_3: top3,
          top_10: top10,
          top_100: top100,
        })),
        next_cursor: nextCursor,
      })
    },
  )
}

/** Where the page before ended, and of which day it was: today may be over by now. */
function placeOf(query: PageRequest): { day: string | undefined; after: MovementPlace } | undefined {
  const values = readCursor(query, 4)
  if (values === undefined) return undefined
  const [first, engine, device, location] = values as [string, string, string, string]
  // Cursors of a release before name no day.
  const [, day, keywordId] = /^(?:(\d{4}-\d\d-\d\d) )?(\d{1,18})$/.exec(first) ?? []
  if (keywordId === undefined || ![engine, device, location].every(isSeriesName)) throw foreignCursor()
  if (day !== undefined && parseDay(day) === undefined) throw foreignCursor()
  return { day, after: { keywordId, engine, device, location } }
}

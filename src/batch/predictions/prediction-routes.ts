import Type from 'typebox'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { limitOf, type PageRequest, pageOf, pageQuery, readCursor } from '../../platform/page.ts'
import { parseDay } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { foreignCursor } from '../cursor.ts'
import { cleanOne } from '../keywords/clean-keywords.ts'
import { classes } from '../models/manifest.ts'
import { isSeriesName, seriesNamePattern } from '../ranks/rank.ts'
import { refuse } from '../refusals.ts'
import { workspaceOf } from '../workspace.ts'
import { findPrediction, listPredictions, type Prediction, type SeriesFilter } from './prediction-rows.ts'

const SeriesName = Type.String({ pattern: seriesNamePattern.source })

const seriesQuery = {
  workspace_id: Type.Optional(WorkspaceId),
  engine: Type.Optional(SeriesName),
  device: Type.Optional(SeriesName),
  location: Type.Optional(SeriesName),
}

const predictionFields = {
  keyword: Type.String(),
  engine: Type.String(),
  device: Type.String(),
  location: Type.String(),
  day: Type.String(),
  horizon_days: Type.Integer(),
  probabilities: Type.Object(
    { rise: Type.Number(), hold: Type.Number(), fall: Type.Number() },
    { title: 'Probabilities' },
  ),
  predicted: Type.Enum([...classes]),
  moved_by: Type.Array(Type.Object({ feature: Type.String(), contribution: Type.Number() }), {
    title: 'MovedBy',
    description:
      'The features that moved it most, the strongest first; a positive contribution speaks for what was predicted',
  }),
  model_id: Type.String(),
}

export function predictionRoutes(http: Http, app: BatchApp): void {
  http.get(
    '/api/batch/predictions/:keyword',
    {
      config: { access: 'batch:read', limited: true, mayLag: true },
      schema: {
        operationId: 'getPrediction',
        summary: 'Will this keyword rise, hold or fall?',
        description:
          'The newest prediction: how the rank of `day` is expected to move over the next `horizon_days` days. It speaks of the series with the most usable days, or of the one that `engine`, `device` and `location` name.',
        tags: ['batch'],
        params: Type.Object({ keyword: Type.String() }),
        querystring: Type.Object(seriesQuery, { additionalProperties: false }),
        errors: refuse.may('invalid_keyword', 'prediction_not_found'),
        response: { 200: success(Type.Object(predictionFields, { title: 'Prediction' })) },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.query.workspace_id)
      const { key } = cleanOne(request.params.keyword, 'keyword')
      const prediction = await findPrediction(reading(app, request).db, workspaceId, key, request.query)
      if (!prediction) throw refuse('prediction_not_found')
      return envelope(render(prediction))
    },
  )

  http.get(
    '/api/batch/predictions/:keyword/history',
    {
      config: { access: 'batch:read', limited: true, mayLag: true },
      schema: {
        operationId: 'listPredictions',
        summary: 'What was predicted for a keyword, and what came true',
        description:
          'Of one series, chosen as for the newest prediction; newest day first, for 400 days. `outcome` is null until the horizon has passed, and stays null where the rank at its end was never told.',
        tags: ['batch'],
        params: Type.Object({ keyword: Type.String() }),
        querystring: Type.Object({ ...seriesQuery, ...pageQuery }, { additionalProperties: false }),
        errors: refuse.may('invalid_keyword', 'prediction_not_found'),
        response: {
          200: page(
            'predictions',
            Type.Object(
              {
                ...predictionFields,
                outcome: nullable(Type.String({ description: 'rise, hold or fall' })),
              },
              { title: 'PastPrediction' },
            ),
          ),
        },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.query.workspace_id)
      const { key } = cleanOne(request.params.keyword, 'keyword')
      const limit = limitOf(request.query)
      const place = placeOf(request.query)
      const filter = { ...request.query, ...place?.series }
      const newest = await findPrediction(reading(app, request).db, workspaceId, key, filter)
      if (!newest) throw refuse('prediction_not_found')
      const found = await listPredictions(
        reading(app, request).db,
        workspaceId,
        key,
        newest,
        place?.before,
        limit + 1,
      )
      const { items, nextCursor } = pageOf(found, limit, ({ day, engine, device, location }) => [
        `${day} ${engine} ${device} ${location}`,
      ])
      return envelope({
        predictions: items.map((one) => ({ ...render(one), outcome: one.outcome })),
        next_cursor: nextCursor,
      })
    },
  )
}

/** Where the page before ended, and of which series it was: another one may have the most days by now. */
function placeOf(query: PageRequest & SeriesFilter) {
  const text = readCursor(query, 1)?.[0]
  if (text === undefined) return undefined
  const [before = '', ...names] = text.split(' ')
  if (parseDay(before) === undefined || !names.every(isSeriesName)) throw foreignCursor()
  // Cursors of a release before name no series.
  if (names.length === 0) return { before, series: {} }
  const [engine, device, location] = names as [string, string, string]
  const series = { engine, device, location }
  const isOther = Object.entries(series).some(
    ([name, value]) => (query[name as keyof SeriesFilter] ?? value) !== value,
  )
  if (names.length !== 3 || isOther) throw foreignCursor()
  return { before, series }
}

function render(prediction: Prediction) {
  return {
    keyword: prediction.keyword,
    engine: prediction.engine,
    device: prediction.device,
    location: prediction.location,
    day: prediction.day,
    horizon_days: prediction.horizonDays,
    probabilities: prediction.probabilities,
    predicted: prediction.predicted,
    moved_by: prediction.reasons,
    model_id: prediction.modelId,
  }
}

import Type from 'typebox'
import { envelope, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import type { BatchApp } from '../app.ts'
import { cleanOne } from '../keywords/clean-keywords.ts'
import { classes } from '../models/manifest.ts'
import { refuse } from '../refusals.ts'
import { workspaceOf } from '../workspace.ts'
import { findPrediction } from './prediction-rows.ts'

export function predictionRoutes(http: Http, app: BatchApp): void {
  http.get(
    '/api/batch/predictions/:keyword',
    {
      config: { access: 'batch:read', limited: true },
      schema: {
        summary: 'Will this keyword rise, hold or fall?',
        description:
          'The newest prediction: how the rank of `day` is expected to move over the next `horizon_days` days. It speaks of the engine, device and location that the keyword was last checked on.',
        tags: ['batch'],
        params: Type.Object({ keyword: Type.String() }),
        querystring: Type.Object(
          { workspace_id: Type.Optional(WorkspaceId) },
          { additionalProperties: false },
        ),
        response: {
          200: success(
            Type.Object({
              keyword: Type.String(),
              day: Type.String(),
              horizon_days: Type.Integer(),
              probabilities: Type.Object({ rise: Type.Number(), hold: Type.Number(), fall: Type.Number() }),
              predicted: Type.Enum([...classes]),
              model_id: Type.String(),
            }),
          ),
        },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.query.workspace_id)
      const { key } = cleanOne(request.params.keyword, 'keyword')
      const prediction = await findPrediction(app.db, workspaceId, key)
      if (!prediction) throw refuse('prediction_not_found')
      return envelope({
        keyword: prediction.keyword,
        day: prediction.day,
        horizon_days: prediction.horizonDays,
        probabilities: prediction.probabilities,
        predicted: prediction.predicted,
        model_id: prediction.modelId,
      })
    },
  )
}

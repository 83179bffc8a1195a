import Type from 'typebox'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { isId } from '../../platform/id.ts'
import { limitOf, pageOf, pageQuery, readCursor } from '../../platform/page.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { foreignCursor } from '../cursor.ts'
import { refuse } from '../refusals.ts'
import { TaskName } from '../runs/run-routes.ts'
import { WorkspaceQuery } from '../workspace.ts'
import { activateModel, retireModel } from './change-model.ts'
import { modelStatuses, type RegisteredModel, renderManifest } from './manifest.ts'
import { findModel, listModels } from './model-rows.ts'

const Part = (description: string) => Type.Object({}, { additionalProperties: true, description })

const liveFields = {
  examples: Type.Integer(),
  log_loss: Type.Number(),
  baseline_prior_log_loss: Type.Number(),
  baseline_naive_log_loss: Type.Number(),
  skill: Type.Number({ description: 'How much better than the better of the two' }),
  until: Type.String(),
}

export const ModelBody = Type.Object(
  {
    model_id: Type.String(),
    task: TaskName,
    version: Type.Integer(),
    status: Type.Enum([...modelStatuses]),
    status_history: Type.Array(Type.Object({ status: Type.Enum([...modelStatuses]), at: Type.String() })),
    run_id: Type.String(),
    algorithm: Part('Name, parameters and seed'),
    label: Part('What is told apart, and how far ahead'),
    features: Type.Array(Type.String()),
    data: Part('The rows it was made from, with the hash that tells whether they are still the same'),
    metrics: Part(
      'On the hold-out: this model, class shares, the best naive rule, the model that was active; each also on the rows that were ranked at both ends',
    ),
    rivals: Part('What anybody could say without a model: class shares, and the best naive rule’s'),
    gate: Part('Whether it may be used, and every check of that'),
    calibration: Part('How probabilities were corrected'),
    artifact: Part('Size, hash and format of the stored bytes, and whether they are still stored'),
    environment: Part('The release that made it, and what it was made on'),
    created_at: Type.String(),
    activated_at: nullable(Type.String()),
    live_quality: nullable(
      Type.Object(
        { ...liveFields, last_28_days: Type.Object(liveFields) },
        {
          description:
            'Log-loss of past predictions whose horizon has passed, beside what class shares and the best naive rule would have lost on the same rows',
        },
      ),
    ),
  },
  { title: 'Model' },
)

export function modelRoutes(http: Http, app: BatchApp): void {
  http.get(
    '/api/batch/models',
    {
      config: { access: 'batch:read', limited: true },
      schema: {
        operationId: 'listModels',
        summary: 'List model manifests, newest first',
        description:
          'Models belong to the installation: every token that may read batch data sees all of them.',
        tags: ['batch'],
        querystring: Type.Object(
          {
            workspace_id: Type.Optional(WorkspaceId),
            task: Type.Optional(TaskName),
            status: Type.Optional(Type.Enum([...modelStatuses])),
            ...pageQuery,
          },
          { additionalProperties: false },
        ),
        response: { 200: page('models', ModelBody) },
      },
    },
    async (request) => {
      const { task, status } = request.query
      const limit = limitOf(request.query)
      const before = readCursor(request.query, 1)?.[0]
      if (before !== undefined && !isId('mdl_', before)) throw foreignCursor()
      const models = await listModels(app.db, { task, status, before, limit: limit + 1 })
      const { items, nextCursor } = pageOf(models, limit, ({ id }) => [id])
      return envelope({ models: items.map((model) => renderModel(model, app)), next_cursor: nextCursor })
    },
  )

  http.get(
    '/api/batch/models/:model_id',
    {
      config: { access: 'batch:read', limited: true },
      schema: {
        operationId: 'getModel',
        summary: 'One model manifest',
        tags: ['batch'],
        params: Type.Object({ model_id: Type.String() }),
        querystring: WorkspaceQuery,
        errors: refuse.may('model_not_found'),
        response: { 200: success(ModelBody) },
      },
    },
    async (request) => {
      const { model_id } = request.params
      const model = isId('mdl_', model_id) ? await findModel(app.db, model_id) : undefined
      if (!model) throw refuse('model_not_found')
      return envelope(renderModel(model, app))
    },
  )

  const decisions = [
    {
      verb: 'activate',
      errors: refuse.may('model_not_found', 'model_pruned'),
      summary: 'Put a registered model to use in place of the active one',
      decide: (id: string) => activateModel(app, id),
    },
    {
      verb: 'retire',
      errors: refuse.may('model_not_found', 'model_not_active'),
      summary: 'Take the active model out of use, with none in its place',
      decide: async (id: string) => {
        if (!(await retireModel(app, id))) throw refuse('model_not_active')
      },
    },
  ] as const
  for (const { verb, summary, errors, decide } of decisions) {
    http.post(
      `/api/batch/models/:model_id/${verb}`,
      {
        config: { access: 'admin', limited: true },
        schema: {
          operationId: `${verb}Model`,
          errors,
          summary,
          tags: ['batch'],
          params: Type.Object({ model_id: Type.String() }),
          response: { 200: success(ModelBody) },
        },
      },
      async ({ params: { model_id } }) => {
        if (!isId('mdl_', model_id)) throw refuse('model_not_found')
        await decide(model_id)
        return envelope(renderModel((await findModel(app.db, model_id))!, app))
      },
    )
  }
}

export function renderModel(model: RegisteredModel, app: BatchApp) {
  return renderManifest(model, (at) => renderInstant(at, app.timeZone))
}

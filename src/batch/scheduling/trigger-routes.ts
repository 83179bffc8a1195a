import Type from 'typebox'
import { envelope, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import type { BatchApp } from '../app.ts'
import { refuse } from '../refusals.ts'
import { runTasks } from '../runs/run.ts'
import { TaskName } from '../runs/run-routes.ts'
import { PreconditionsView, preconditionsView } from './preconditions-view.ts'
import { triggerRun } from './trigger-run.ts'

export function triggerRoutes(http: Http, app: BatchApp): void {
  http.post(
    '/api/batch/trigger',
    {
      config: { access: 'batch:write', limited: true },
      schema: {
        operationId: 'triggerRun',
        summary: 'Start a run of a batch task',
        description:
          'Every task also starts by itself. `classifier` is another name of `train_classifier`. Training needs 1,000 rows in the rank history, predictions an active model, collecting a source. Tokens bound to a workspace may start one training an hour, all together; unchanged data train nothing.',
        tags: ['batch'],
        body: Type.Object(
          {
            task: Type.String({ description: `One of ${runTasks.join(', ')}` }),
            workspace_id: Type.Optional(WorkspaceId),
          },
          { additionalProperties: false },
        ),
        errors: refuse.may('unknown_task', 'run_in_progress', 'preconditions_unmet'),
        response: {
          202: success(
            Type.Object({
              run_id: Type.String(),
              task: TaskName,
              status: Type.Literal('queued'),
              preconditions: PreconditionsView,
            }),
          ),
        },
      },
    },
    async (request, reply) => {
      const { runId, task, preconditions } = await triggerRun(app, request.body.task, {
        byTenant: request.principal.workspace !== '*',
      })
      return reply.code(202).send(
        envelope({
          run_id: runId,
          task,
          status: 'queued' as const,
          preconditions: preconditionsView(preconditions),
        }),
      )
    },
  )
}

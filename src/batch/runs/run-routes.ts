import Type from 'typebox'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { isId } from '../../platform/id.ts'
import { limitOf, pageOf, pageQuery, readCursor } from '../../platform/page.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { foreignCursor } from '../cursor.ts'
import { refuse } from '../refusals.ts'
import { WorkspaceQuery } from '../workspace.ts'
import { type Run, runErrors, runStatuses, runTasks, runTriggers } from './run.ts'
import { findRun, listRuns } from './run-rows.ts'

export const TaskName = Type.Enum([...runTasks], { title: 'TaskName' })

export const RunBody = Type.Object(
  {
    run_id: Type.String(),
    task: TaskName,
    trigger: Type.Enum([...runTriggers]),
    status: Type.Enum([...runStatuses]),
    queued_at: Type.String(),
    started_at: nullable(Type.String()),
    finished_at: nullable(Type.String()),
    progress: Type.Number({ description: 'The share of the work that is done, from 0 to 1' }),
    error: nullable(Type.Object({ code: Type.String(), message: Type.String() })),
    model_id: nullable(Type.String()),
    metrics: nullable(Type.Object({}, { additionalProperties: true, description: 'What the run came to' })),
  },
  { title: 'Run' },
)

export function runRoutes(http: Http, app: BatchApp): void {
  http.get(
    '/api/batch/runs',
    {
      config: { access: 'batch:read', limited: true, mayLag: true },
      schema: {
        operationId: 'listRuns',
        summary: 'List runs, newest first',
        description:
          'Runs belong to the installation: every token that may read batch data sees all of them.',
        tags: ['batch'],
        querystring: Type.Object(
          {
            workspace_id: Type.Optional(WorkspaceId),
            task: Type.Optional(TaskName),
            ...pageQuery,
          },
          { additionalProperties: false },
        ),
        response: { 200: page('runs', RunBody) },
      },
    },
    async (request) => {
      const limit = limitOf(request.query)
      const before = readCursor(request.query, 1)?.[0]
      if (before !== undefined && !isId('run_', before)) throw foreignCursor()
      const runs = await listRuns(reading(app, request).db, {
        task: request.query.task,
        before,
        limit: limit + 1,
      })
      const { items, nextCursor } = pageOf(runs, limit, ({ id }) => [id])
      return envelope({ runs: items.map((run) => renderRun(run, app.timeZone)), next_cursor: nextCursor })
    },
  )

  http.get(
    '/api/batch/runs/:run_id',
    {
      config: { access: 'batch:read', limited: true },
      schema: {
        operationId: 'getRun',
        summary: 'One run',
        tags: ['batch'],
        params: Type.Object({ run_id: Type.String() }),
        querystring: WorkspaceQuery,
        errors: refuse.may('run_not_found'),
        response: { 200: success(RunBody) },
      },
    },
    async (request) => {
      const { run_id } = request.params
      const run = isId('run_', run_id) ? await findRun(app.db, run_id) : undefined
      if (!run) throw refuse('run_not_found')
      return envelope(renderRun(run, app.timeZone))
    },
  )
}

export function renderRun(run: Run, timeZone: string) {
  const time = (at: Date | null) => (at === null ? null : renderInstant(at, timeZone))
  return {
    run_id: run.id,
    task: run.task,
    trigger: run.trigger,
    status: run.status,
    queued_at: renderInstant(run.queuedAt, timeZone),
    started_at: time(run.startedAt),
    finished_at: time(run.finishedAt),
    progress: run.progress,
    error: run.error === null ? null : { code: run.error, message: runErrors[run.error] },
    model_id: run.modelId,
    metrics: run.metrics,
  }
}

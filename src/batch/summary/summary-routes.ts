import Type from 'typebox'
import { envelope, nullable, success } from '../../platform/http/answers.ts'
import type { Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { openSlowAnswers } from '../../platform/slow-answers.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { ModelBody, renderModel } from '../models/model-routes.ts'
import { findActive } from '../models/model-rows.ts'
import { countRanks, type RankCounts } from '../ranks/rank-count-rows.ts'
import { type RunTask, runTasks } from '../runs/run.ts'
import { RunBody, renderRun } from '../runs/run-routes.ts'
import { listRuns } from '../runs/run-rows.ts'
import { PreconditionsView, preconditionsView } from '../scheduling/preconditions-view.ts'
import { WorkspaceQuery } from '../workspace.ts'
import { countKeywords, listWorkspaces } from './summary-rows.ts'

const mostWorkspaces = 100

const SummaryView = Type.Object({
  as_of: Type.String(),
  workspace_id: nullable(Type.String({ description: 'Null: all of them' })),
  workspaces: Type.Array(Type.String(), {
    description: `The first ${mostWorkspaces} by name, or the token's own`,
  }),
  keywords: Type.Integer({ description: 'Counted up to a million' }),
  preconditions: PreconditionsView,
  last_runs: Type.Array(RunBody, { description: 'The newest run of each task' }),
  active_model: Type.Union([ModelBody, Type.Null()]),
})

type Counts = {
  readonly asOf: Date
  readonly keywords: number
  readonly workspaces: string[]
  readonly ranks: RankCounts
}

export function summaryRoutes(http: Http, app: BatchApp): void {
  const counts = openSlowAnswers<Counts>({ freshWhileQuick: true })
  http.get(
    '/api/batch/summary',
    {
      config: { access: 'batch:read', limited: true, mayLag: true },
      schema: {
        operationId: 'getBatchSummary',
        summary: 'How batch stands: keywords, data for training, the last runs and the active model',
        tags: ['batch'],
        querystring: WorkspaceQuery,
        response: { 200: success(SummaryView) },
      },
    },
    async (request) => {
      const { query, principal } = request
      const { db } = reading(app, request)
      const own = principal.workspace === '*' ? undefined : (principal.workspace ?? undefined)
      const workspaceId = query.workspace_id ?? own
      const newest = (task: RunTask) => listRuns(db, { task, before: undefined, limit: 1 })
      const seen = JSON.stringify([principal.workspace, workspaceId])
      const [{ asOf, keywords, workspaces, ranks }, model, ...runs] = await Promise.all([
        counts(seen, () => count({ db, clock: app.clock }, principal.workspace, workspaceId)),
        findActive(db, 'train_classifier'),
        ...runTasks.map(newest),
      ])
      return envelope({
        as_of: renderInstant(asOf, app.timeZone),
        workspace_id: workspaceId ?? null,
        workspaces,
        keywords,
        preconditions: preconditionsView(ranks),
        last_runs: runs.flat().map((run) => renderRun(run, app.timeZone)),
        active_model: model ? renderModel(model, app) : null,
      })
    },
  )
}

async function count(
  { db, clock }: Pick<BatchApp, 'db' | 'clock'>,
  seen: string | null,
  workspaceId: string | undefined,
): Promise<Counts> {
  const asOf = clock()
  const [keywords, workspaces, ranks] = await Promise.all([
    seen === null ? 0 : countKeywords(db, workspaceId),
    seen === '*' ? listWorkspaces(db, mostWorkspaces) : seen === null ? [] : [seen],
    countRanks(db),
  ])
  return { asOf, keywords, workspaces, ranks }
}

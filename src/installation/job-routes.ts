import Type, { type Static } from 'typebox'
import type { App } from '../app.ts'
import type { AuditTables } from '../platform/access/audit-rows.ts'
import { openDb } from '../platform/database/db.ts'
import { envelope, nullable, page, success } from '../platform/http/answers.ts'
import type { Http } from '../platform/http/http.ts'
import { invalidField } from '../platform/http/validation.ts'
import { sanitize } from '../platform/log/sanitize.ts'
import { limitOf, pageOf, pageQuery, readCursor } from '../platform/page.ts'
import { jobStatuses, type ListedJob, listJobs } from '../platform/queue/queue.ts'
import { refusalsOf } from '../platform/refusal.ts'
import { renderInstant } from '../platform/time.ts'
import { decideJob } from './decide-job.ts'

const refuse = refusalsOf({
  job_not_found: ['not_found', 'There is no such job.'],
  job_not_dead: [
    'conflict',
    'This job has attempts left, or is being worked; only a dead one can be decided on.',
  ],
})

const common = { config: { access: 'admin' as const } }
const strict = { additionalProperties: false }
const tags = ['operations']

const JobView = Type.Object(
  {
    job_id: Type.String(),
    name: Type.String(),
    status: Type.Enum([...jobStatuses, 'discarded']),
    attempts: Type.Integer(),
    max_attempts: Type.Integer(),
    last_error: nullable(Type.String()),
    run_at: Type.String(),
    updated_at: Type.String(),
  },
  { title: 'Job' },
)

/** What is in the queue, and what becomes of the jobs it gave up. */
export function jobRoutes(http: Http, app: App): void {
  const db = openDb<AuditTables>(app.pool)
  const time = (at: Date) => renderInstant(at, app.config.timeZone)
  const view = (
    { id, last_error, run_at, updated_at, ...job }: ListedJob,
    status: Static<typeof JobView>['status'],
  ) => ({
    job_id: id,
    name: job.name,
    status,
    attempts: job.attempts,
    max_attempts: job.max_attempts,
    last_error: last_error && sanitize(last_error).slice(0, 300),
    run_at: time(run_at),
    updated_at: time(updated_at),
  })

  http.get(
    '/api/jobs',
    {
      ...common,
      schema: {
        operationId: 'listJobs',
        summary: 'What is in the queue, oldest first',
        tags,
        querystring: Type.Object(
          { status: Type.Optional(Type.Enum([...jobStatuses])), ...pageQuery },
          strict,
        ),
        response: { 200: page('jobs', JobView) },
      },
    },
    async (request) => {
      const { status } = request.query
      const limit = limitOf(request.query)
      const after = readCursor(request.query, 1)?.[0] ?? '0'
      if (!isJobId(after))
        throw invalidField('cursor', 'This cursor was not made by this list; start without one.')
      const rows = await listJobs(db, { ...(status && { status }), after, limit: limit + 1 })
      const { items, nextCursor } = pageOf(rows, limit, ({ id }) => [id])
      return envelope({ jobs: items.map((job) => view(job, job.status)), next_cursor: nextCursor })
    },
  )

  const verbs = [
    {
      verb: 'retry',
      operationId: 'retryJob',
      summary: 'Give a dead job its attempts back',
      becomes: 'waiting',
    },
    {
      verb: 'discard',
      operationId: 'discardJob',
      summary: 'Give a dead job up for good',
      becomes: 'discarded',
    },
  ] as const
  for (const { verb, operationId, summary, becomes } of verbs) {
    http.post(
      `/api/jobs/:job_id/${verb}`,
      {
        ...common,
        schema: {
          operationId,
          summary,
          tags,
          params: Type.Object({ job_id: Type.String() }),
          errors: refuse.may('job_not_found', 'job_not_dead'),
          response: { 200: success(JobView) },
        },
      },
      async (request) => {
        const { job_id: id } = request.params
        const [job] = isJobId(id) ? await listJobs(db, { id, limit: 1 }) : []
        if (!job) throw refuse('job_not_found')
        if (!(await decideJob(app, id, verb, request.principal.tokenId))) throw refuse('job_not_dead')
        return envelope(view(job, becomes))
      },
    )
  }
}

function isJobId(text: string): boolean {
  return /^\d{1,18}$/.test(text)
}

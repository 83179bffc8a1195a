import Type from 'typebox'
import { troubleOf } from '../../platform/database/database-errors.ts'
import { envelope, nullable, success } from '../../platform/http/answers.ts'
import type { Http } from '../../platform/http/http.ts'
import { storedReason } from '../../platform/log/describe-error.ts'
import { refuseRequest } from '../../platform/refusal.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { InstantField, readInstant } from '../instant-field.ts'
import { refuse } from '../refusals.ts'
import { BookUnreadable } from './read-book.ts'
import { reconcilePayments } from './reconcile-payments.ts'
import {
  beginReconciliation,
  endReconciliation,
  listReconciliations,
  noteCompared,
  type ReconciliationRun,
} from './reconciliation-rows.ts'

const View = Type.Object(
  {
    reconciliation_id: Type.String(),
    from: Type.String(),
    to: Type.String(),
    status: Type.Enum(['running', 'done', 'failed']),
    compared: Type.Integer({ description: 'Payments looked at so far' }),
    repaired: Type.Integer(),
    differences: Type.Integer({ description: 'What still differs and is for a person' }),
    examples: Type.Array(Type.Object({}, { additionalProperties: true }), {
      description: 'The first hundred of them',
    }),
    started_at: Type.String(),
    finished_at: nullable(Type.String()),
    reason: nullable(Type.String({ description: 'Why it failed' })),
  },
  { title: 'Reconciliation' },
)

const mostListed = 20
const noteEveryMs = 500

/** Comparing the provider's book with ours, from afar. The work goes on after the answer; the list shows how far it is. */
export function reconciliationRoutes(http: Http, app: BillingApp): void {
  const common = { config: { access: 'admin' as const } }
  const time = (at: Date) => renderInstant(at, app.terms.timeZone)
  const view = (run: ReconciliationRun) => ({
    reconciliation_id: String(run.id),
    from: time(run.from),
    to: time(run.to),
    status: run.status,
    compared: run.compared,
    repaired: run.repaired,
    differences: run.differences,
    examples: [...run.examples],
    started_at: time(run.startedAt),
    finished_at: run.finishedAt && time(run.finishedAt),
    reason: run.reason,
  })
  const List = success(Type.Object({ reconciliations: Type.Array(View) }))

  http.get(
    '/api/billing/reconciliations',
    {
      ...common,
      schema: {
        operationId: 'listReconciliations',
        summary: `The last ${mostListed} comparisons of the provider's book with ours, newest first`,
        tags: ['billing'],
        response: { 200: List },
      },
    },
    async () => envelope({ reconciliations: (await listReconciliations(app.db, mostListed)).map(view) }),
  )

  http.post(
    '/api/billing/reconciliations',
    {
      ...common,
      schema: {
        operationId: 'startReconciliation',
        errors: refuse.may('reconciliation_running'),
        summary: "Compare the provider's book with ours, and repair what can be",
        tags: ['billing'],
        body: Type.Object({ from: InstantField, to: InstantField }, { additionalProperties: false }),
        response: { 202: success(View) },
      },
    },
    async (request, reply) => {
      const from = readInstant('from', request.body.from)
      const to = readInstant('to', request.body.to)
      if (from >= to)
        throw refuseRequest('validation_failed', {
          details: [{ path: 'from', code: 'out_of_order', message: 'from comes before to.' }],
        })
      const id = await beginReconciliation(app.db, {
        from,
        to,
        actor: request.principal.tokenId,
        now: app.clock(),
      })
      if (id === undefined) throw refuse('reconciliation_running')
      void run(app, id, from, to)
      const [newest] = await listReconciliations(app.db, 1)
      return reply.code(202).send(envelope(view(newest!)))
    },
  )
}

async function run(app: BillingApp, id: bigint, from: Date, to: Date): Promise<void> {
  let notedAt = performance.now()
  const found = await reconcilePayments(app, from, to, {
    onProgress: (compared) => {
      if (performance.now() - notedAt < noteEveryMs) return
      notedAt = performance.now()
      noteCompared(app.db, id, compared).catch(() => {})
    },
  }).catch((error: unknown) => {
    app.onReconcileFault?.(error, null)
    return { reason: whyFailed(error) }
  })
  // Should the database be away now, the lease ends and the next run gives this one up.
  await endReconciliation(app.db, id, app.clock(), found).catch(() => {})
}

/** For an operator's eyes: what to mend before it is asked for again. */
function whyFailed(error: unknown): string {
  if (error instanceof BookUnreadable) return `${error.message} Compare again once it answers.`
  const trouble = troubleOf(error)
  if (trouble !== undefined)
    return `The database could not do its work (${trouble}). Compare again once it can.`
  return `A fault of ours (${storedReason(error)}); the log tells where, as reconcile.failed.`
}

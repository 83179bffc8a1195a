import Type from 'typebox'
import { envelope, nullable, success } from '../../platform/http/answers.ts'
import type { Http } from '../../platform/http/http.ts'
import { dayOf, renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { kindsOf, sourceKinds, sourceNames } from '../sources/port.ts'
import { WorkspaceQuery } from '../workspace.ts'
import { awake } from './breaker.ts'
import { listSourceStates } from './source-rows.ts'
import { listNextChecks } from './source-vital-rows.ts'
import { listSpendingOf } from './spending-rows.ts'
import { installationScope } from './tracker-rows.ts'

const SourceBody = Type.Object({
  source: Type.Enum([...sourceNames]),
  kinds: Type.Array(Type.Enum([...sourceKinds])),
  configured: Type.Boolean({ description: 'Whether its keys are set' }),
  state: Type.Enum(['ready', 'resting', 'refused']),
  until: nullable(Type.String({ description: 'When it is asked again' })),
  rate_per_second: nullable(Type.Number()),
  budget_per_day: nullable(Type.Integer({ description: 'Paid calls of the whole installation' })),
  spent_today: Type.Integer(),
  lost_today: Type.Integer({ description: 'Of those: calls whose answers a crash lost' }),
  next_check_at: nullable(Type.String({ description: 'Of ranks; one that has passed waits' })),
  last_error: nullable(Type.Object({ code: Type.String(), at: Type.String() })),
})

export function sourceRoutes(http: Http, app: BatchApp): void {
  http.get(
    '/api/batch/sources',
    {
      config: { access: 'batch:read', limited: true },
      schema: {
        operationId: 'listSources',
        summary: 'Where ranks, volumes and trends come from',
        description:
          'A source is set up by the operator, with keys from the environment. `resting`: it failed, or its quota is used up; `refused`: it does not take our key.',
        tags: ['batch'],
        querystring: WorkspaceQuery,
        response: { 200: success(Type.Object({ sources: Type.Array(SourceBody) })) },
      },
    },
    async () => {
      const now = app.clock()
      const states = await listSourceStates(app.db)
      const spending = await listSpendingOf(app.db, dayOf(now, app.timeZone), installationScope)
      const nextChecks = await listNextChecks(app.db, [...app.sources.keys()])
      const time = (at: Date) => renderInstant(at, app.timeZone)
      const sources = sourceNames.map((name) => {
        const settings = app.sources.get(name)?.settings
        const stored = states.get(name)
        const state = stored && (awake(stored, now) ?? stored)
        const spent = spending.get(name)
        const next = nextChecks.get(name)
        return {
          source: name,
          kinds: [...kindsOf[name]],
          configured: settings !== undefined,
          state: state?.state ?? 'ready',
          until: state?.until ? time(state.until) : null,
          rate_per_second: settings?.ratePerSecond ?? null,
          budget_per_day: settings?.budgetPerDay ?? null,
          spent_today: spent?.spent ?? 0,
          lost_today: spent?.lost ?? 0,
          next_check_at: next ? time(next) : null,
          last_error:
            state?.lastError && state.lastErrorAt
              ? { code: state.lastError, at: time(state.lastErrorAt) }
              : null,
        }
      })
      return envelope({ sources })
    },
  )
}

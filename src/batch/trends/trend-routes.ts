import Type from 'typebox'
import { envelope, success } from '../../platform/http/answers.ts'
import type { Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import type { BatchApp } from '../app.ts'
import { cleanOne } from '../keywords/clean-keywords.ts'
import { refuse } from '../refusals.ts'
import { WorkspaceQuery } from '../workspace.ts'
import { trendIntervals } from './trend.ts'
import { findTrend } from './trend-rows.ts'

const Trend = Type.Object({
  keyword: Type.String(),
  unit: Type.Literal('ratio_of_highest'),
  every: Type.Enum([...trendIntervals]),
  from: Type.String(),
  to: Type.String(),
  values: Type.Array(Type.Object({ period: Type.String(), ratio: Type.Number() })),
  source: Type.String(),
  asked_on: Type.String(),
})

export function trendRoutes(http: Http, app: BatchApp): void {
  http.get(
    '/api/batch/trends/:keyword',
    {
      config: { access: 'batch:read', limited: true, mayLag: true },
      schema: {
        operationId: 'getTrend',
        summary: 'How searches for a keyword went',
        description:
          'The highest value is 100, whatever it stands for: those of two keywords or two answers cannot be compared. A missing period is not zero.',
        tags: ['batch'],
        params: Type.Object({ keyword: Type.String() }),
        querystring: WorkspaceQuery,
        errors: refuse.may('invalid_keyword', 'trend_not_found'),
        response: { 200: success(Trend) },
      },
    },
    async (request) => {
      const { display, key } = cleanOne(request.params.keyword, 'keyword')
      const found = await findTrend(reading(app, request).db, key)
      if (!found) throw refuse('trend_not_found')
      const { every, from, to, values, source, askedOn } = found
      return envelope({
        keyword: display,
        unit: 'ratio_of_highest' as const,
        every,
        from,
        to,
        values: values.map(({ period, ratio }) => ({ period, ratio })),
        source,
        asked_on: askedOn,
      })
    },
  )
}

import Type from 'typebox'
import { envelope, nullable, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import { bodyLimits, type Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { refuse } from '../refusals.ts'
import { lookUpVolumes } from './look-up-volumes.ts'
import { volumeQualities } from './monthly-volume.ts'
import { recordVolumes } from './record-volumes.ts'
import { Source, VolumeForm } from './volume-form.ts'

const Month = Type.String({
  pattern: '^(?!0000)\\d{4}-(0[1-9]|1[0-2])$',
  description: 'A month such as 2026-10',
})
const Recorded = Type.Object({ inserted: Type.Integer(), updated: Type.Integer(), unchanged: Type.Integer() })

const Volumes = Type.Object({
  keyword: Type.String(),
  unit: Type.Literal('searches_per_month'),
  months: Type.Array(
    Type.Object({
      month: Month,
      volume: nullable(Type.Integer()),
      volume_min: Type.Integer(),
      volume_max: Type.Integer(),
      source: Type.String(),
      quality: Type.Enum([...volumeQualities]),
      days_observed: Type.Integer(),
    }),
  ),
  latest: nullable(Type.Integer({ description: 'Of the newest month with a volume' })),
  average_12m: nullable(Type.Integer()),
  trend: nullable(Type.String({ description: 'rising, flat or falling' })),
  summary_source: Type.String({ description: 'The source that latest, average_12m and trend speak of' }),
  updated_at: Type.String(),
})

export function volumeRoutes(http: Http, app: BatchApp): void {
  http.post(
    '/api/batch/volumes',
    {
      config: { access: 'admin', limited: true },
      bodyLimit: bodyLimits.bulk,
      schema: {
        operationId: 'recordVolumes',
        summary: 'Add observations of search volume',
        description:
          'Volumes are shared by all workspaces. The daily aggregation turns them into monthly volumes. One bad observation refuses all.',
        tags: ['batch'],
        body: Type.Object(
          { observations: Type.Array(VolumeForm, { minItems: 1, maxItems: 1000 }) },
          { additionalProperties: false },
        ),
        errors: refuse.may('invalid_keyword'),
        response: { 200: success(Recorded) },
      },
    },
    async (request) => envelope(await recordVolumes(app, request.body.observations)),
  )

  http.get(
    '/api/batch/volumes/:keyword',
    {
      config: { access: 'batch:read', limited: true, mayLag: true },
      schema: {
        operationId: 'getVolumes',
        summary: 'Monthly search volume of a keyword',
        tags: ['batch'],
        params: Type.Object({ keyword: Type.String() }),
        querystring: Type.Object(
          {
            from: Type.Optional(Month),
            to: Type.Optional(Month),
            source: Type.Optional(Source),
            workspace_id: Type.Optional(WorkspaceId),
          },
          { additionalProperties: false },
        ),
        errors: refuse.may('invalid_keyword', 'volume_not_found'),
        response: { 200: success(Volumes) },
      },
    },
    async (request) => {
      const found = await lookUpVolumes(reading(app, request), request.params.keyword, request.query)
      return envelope({
        keyword: found.keyword,
        unit: 'searches_per_month' as const,
        months: found.months.map((month) => ({
          month: month.month,
          volume: month.volume,
          volume_min: month.volumeMin,
          volume_max: month.volumeMax,
          source: month.source,
          quality: month.quality,
          days_observed: month.daysObserved,
        })),
        latest: found.latest,
        average_12m: found.average12m,
        trend: found.trend,
        summary_source: found.summarySource,
        updated_at: renderInstant(found.updatedAt, app.timeZone),
      })
    },
  )
}

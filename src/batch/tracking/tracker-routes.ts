import Type from 'typebox'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import { WorkspaceId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { callerIdPattern } from '../../platform/id.ts'
import { limitOf, pageOf, pageQuery, readCursor } from '../../platform/page.ts'
import { dayOf, renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { foreignCursor } from '../cursor.ts'
import { seriesNamePattern } from '../ranks/rank.ts'
import { refuse } from '../refusals.ts'
import type { SourceName } from '../sources/port.ts'
import { WorkspaceQuery, workspaceOf } from '../workspace.ts'
import { putTracker } from './put-tracker.ts'
import { requestChecks } from './request-checks.ts'
import { matchModes } from './site.ts'
import { everyNames, type Tracker } from './tracker.ts'
import { deleteTracker, findTracker, listTrackers, readFigures } from './tracker-rows.ts'

const Series = (description: string) =>
  Type.String({ pattern: seriesNamePattern.source, description: `${description}: 1 to 64 of A-Za-z0-9_.:-` })
const Time = (pattern: string) => Type.String({ pattern, description: 'A time such as 01:00' })
const TrackerId = Type.String({
  pattern: callerIdPattern.source,
  minLength: 1,
  maxLength: 64,
  description: 'The tracker, an id of your own: 1 to 64 of A-Za-z0-9_.:-',
})
const Params = Type.Object({ tracker_id: TrackerId })

const settings = {
  site: Type.String({
    minLength: 1,
    maxLength: 2048,
    description: 'A host, with `prefix` a path too, or a pattern',
  }),
  match: Type.Enum([...matchModes]),
  engine: Series('The search engine, as the source knows it'),
  device: Series('The device'),
  location: Series('The place searched from'),
  depth: Type.Integer({ minimum: 1, maximum: 10_000, description: 'How many results are read' }),
  source: Type.String({ pattern: '^[a-z0-9_]{1,64}$', description: 'One of GET /api/batch/sources' }),
  every: Type.Enum([...everyNames]),
}

const TrackerInput = Type.Object(
  {
    workspace_id: Type.Optional(WorkspaceId),
    ...settings,
    language: Type.Optional(Type.String({ pattern: '^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,2}$' })),
    window: Type.Optional(
      Type.Object(
        {
          from: Time('^(?:[01]\\d|2[0-3]):[0-5]\\d$'),
          to: Time('^(?:(?:[01]\\d|2[0-3]):[0-5]\\d|24:00)$'),
          zone: Type.Optional(
            Type.String({ maxLength: 64, description: 'An IANA zone; the service’s own unless said' }),
          ),
        },
        { additionalProperties: false },
      ),
    ),
    keywords: Type.Union([
      Type.Literal('all'),
      Type.Array(Type.Unknown({ description: 'A keyword' }), { minItems: 1, maxItems: 1000 }),
    ]),
    budget_per_day: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 100_000_000, description: 'Paid calls a day at most' }),
    ),
  },
  { additionalProperties: false },
)

const TrackerBody = Type.Object(
  {
    tracker_id: Type.String(),
    workspace_id: Type.String(),
    // What each of them means, and how long it may be, is said where it is given.
    site: Type.String(),
    match: settings.match,
    engine: Type.String(),
    device: Type.String(),
    location: Type.String(),
    depth: Type.Integer(),
    source: Type.String(),
    every: settings.every,
    language: nullable(Type.String()),
    window: Type.Object({ from: Type.String(), to: Type.String(), zone: Type.String() }),
    keywords: Type.Unsafe<'all' | string[]>({
      anyOf: [
        { type: 'string', const: 'all' },
        { type: 'array', items: { type: 'string' } },
      ],
    }),
    budget_per_day: nullable(Type.Integer()),
    active: Type.Boolean({ description: 'Whether its source is set up here' }),
    next_check_at: nullable(Type.String()),
    last_check_at: nullable(Type.String()),
    checked_today: Type.Integer(),
    failed_today: Type.Integer(),
    spent_today: Type.Integer({ description: 'Paid calls' }),
  },
  { title: 'Tracker' },
)

const ChecksForm = Type.Object(
  {
    workspace_id: Type.Optional(WorkspaceId),
    keywords: Type.Array(Type.Unknown({ description: 'A keyword' }), {
      minItems: 1,
      maxItems: 100,
      'x-codes': { maxItems: 'too_many_keywords' },
    }),
    dry_run: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)

const RequestedChecks = Type.Object(
  {
    run_id: nullable(Type.String()),
    checks: Type.Integer(),
    cost: Type.Integer({ description: 'Paid calls at most' }),
  },
  { title: 'RequestedChecks' },
)

export function trackerRoutes(http: Http, app: BatchApp): void {
  putRoute(http, app)
  listRoute(http, app)
  getRoute(http, app)
  deleteRoute(http, app)
  checkRoute(http, app)
}

function putRoute(http: Http, app: BatchApp): void {
  http.put(
    '/api/batch/trackers/:tracker_id',
    {
      config: { access: 'batch:write', limited: true },
      schema: {
        operationId: 'putTracker',
        summary: 'Create or replace a tracker',
        errors: refuse.may(
          'invalid_keyword',
          'series_taken',
          'source_not_configured',
          'engine_not_supported',
          'device_not_supported',
          'location_not_supported',
          'depth_not_supported',
        ),
        description:
          'Checks the ranks of a site by itself, each keyword at its own time within the window. One tracker writes one series (engine, device, location) of its workspace. Nothing is spent before its window opens, and adding keywords spends nothing: they join with the next day.',
        tags: ['batch'],
        params: Params,
        body: TrackerInput,
        response: { 200: success(TrackerBody) },
      },
    },
    async (request) => {
      const { workspace_id, ...form } = request.body
      const tracker = await putTracker(
        app,
        workspaceOf(request.principal, workspace_id),
        request.params.tracker_id,
        form,
        { isForAll: request.principal.workspace === '*' },
      )
      return envelope(await render(app, tracker))
    },
  )
}

function listRoute(http: Http, app: BatchApp): void {
  http.get(
    '/api/batch/trackers',
    {
      config: { access: 'batch:read', limited: true },
      schema: {
        operationId: 'listTrackers',
        summary: 'List the trackers of a workspace',
        tags: ['batch'],
        querystring: Type.Object(
          { workspace_id: Type.Optional(WorkspaceId), ...pageQuery },
          { additionalProperties: false },
        ),
        response: { 200: page('trackers', TrackerBody) },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.query.workspace_id)
      const limit = limitOf(request.query)
      const after = readCursor(request.query, 1)?.[0]
      if (after !== undefined && !callerIdPattern.test(after)) throw foreignCursor()
      const rows = await listTrackers(app.db, workspaceId, { after, limit: limit + 1 })
      const { items, nextCursor } = pageOf(rows, limit, ({ id }) => [id])
      const trackers = []
      for (const tracker of items) trackers.push(await render(app, tracker))
      return envelope({ trackers, next_cursor: nextCursor })
    },
  )
}

function getRoute(http: Http, app: BatchApp): void {
  http.get(
    '/api/batch/trackers/:tracker_id',
    {
      config: { access: 'batch:read', limited: true },
      schema: {
        operationId: 'getTracker',
        summary: 'One tracker',
        errors: refuse.may('tracker_not_found'),
        tags: ['batch'],
        params: Params,
        querystring: WorkspaceQuery,
        response: { 200: success(TrackerBody) },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.query.workspace_id)
      const tracker = await findTracker(app.db, workspaceId, request.params.tracker_id)
      if (!tracker) throw refuse('tracker_not_found')
      return envelope(await render(app, tracker))
    },
  )
}

function deleteRoute(http: Http, app: BatchApp): void {
  http.delete(
    '/api/batch/trackers/:tracker_id',
    {
      config: { access: 'batch:write', limited: true },
      schema: {
        operationId: 'deleteTracker',
        summary: 'Delete a tracker',
        errors: refuse.may('tracker_not_found'),
        description: 'What it found stays.',
        tags: ['batch'],
        params: Params,
        querystring: WorkspaceQuery,
        response: { 200: success(Type.Object({ tracker_id: Type.String(), deleted: Type.Literal(true) })) },
      },
    },
    async (request) => {
      const workspaceId = workspaceOf(request.principal, request.query.workspace_id)
      const { tracker_id } = request.params
      if (!(await deleteTracker(app.db, workspaceId, tracker_id))) throw refuse('tracker_not_found')
      return envelope({ tracker_id, deleted: true as const })
    },
  )
}

function checkRoute(http: Http, app: BatchApp): void {
  http.post(
    '/api/batch/trackers/:tracker_id/check',
    {
      config: { access: 'batch:write', limited: true },
      schema: {
        operationId: 'checkKeywords',
        summary: 'Check some keywords now',
        errors: refuse.may(
          'invalid_keyword',
          'tracker_not_found',
          'keyword_not_found',
          'source_not_configured',
          'budget_exhausted',
        ),
        description:
          'Today’s rank of each is taken again. With `dry_run` nothing is asked and nothing is spent: the answer says what it would cost at most.',
        tags: ['batch'],
        params: Params,
        body: ChecksForm,
        response: { 200: success(RequestedChecks), 202: success(RequestedChecks) },
      },
    },
    async (request, reply) => {
      const { workspace_id, keywords, dry_run = false } = request.body
      const workspaceId = workspaceOf(request.principal, workspace_id)
      const { runId, checks, cost } = await requestChecks(app, workspaceId, request.params.tracker_id, {
        keywords,
        isDry: dry_run,
        isForAll: request.principal.workspace === '*',
      })
      return reply.code(dry_run ? 200 : 202).send(envelope({ run_id: runId, checks, cost }))
    },
  )
}

async function render(app: BatchApp, tracker: Tracker) {
  const now = app.clock()
  const time = (at: Date | null) => (at === null ? null : renderInstant(at, app.timeZone))
  const figures = await readFigures(
    app.db,
    tracker,
    dayOf(now, tracker.window.zone),
    dayOf(now, app.timeZone),
  )
  const { nextDueAt, lastCheckAt } = figures
  const isActive = app.sources.get(tracker.source as SourceName)?.ranks !== undefined
  const next = nextDueAt && nextDueAt < tracker.nextPlanAt ? nextDueAt : tracker.nextPlanAt
  return {
    tracker_id: tracker.id,
    workspace_id: tracker.workspaceId,
    site: tracker.site,
    match: tracker.match,
    engine: tracker.engine,
    device: tracker.device,
    location: tracker.location,
    language: tracker.language,
    depth: tracker.depth,
    source: tracker.source,
    every: tracker.every,
    window: { ...tracker.window },
    keywords: tracker.keywords?.map(({ display }) => display) ?? ('all' as const),
    budget_per_day: tracker.budgetPerDay,
    active: isActive,
    next_check_at: isActive ? time(next) : null,
    last_check_at: time(lastCheckAt),
    checked_today: figures.checkedToday,
    failed_today: figures.failedToday,
    spent_today: figures.spentToday,
  }
}

import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import Type from 'typebox'
import type { App } from './app.ts'
import { batchRoutes } from './batch/routes.ts'
import { billingRoutes } from './billing/routes.ts'
import { demoRoutes } from './demo/demo-routes.ts'
import { auditRoutes } from './installation/audit-routes.ts'
import { clockRoutes } from './installation/clock-routes.ts'
import { consoleRoutes } from './installation/console-routes.ts'
import { jobRoutes } from './installation/job-routes.ts'
import { sandboxRoutes } from './installation/sandbox-routes.ts'
import { sessionRoutes } from './installation/session-routes.ts'
import { tokenRoutes } from './installation/token-routes.ts'
import { measure } from './installation/vitals.ts'
import { watchEventLoop } from './platform/busy-loop.ts'
import { writePosition } from './platform/database/replica.ts'
import { describeRoute, type Example, shareParts } from './platform/http/api-document.ts'
import { buildHttp, type Http } from './platform/http/http.ts'
import type { Readiness } from './platform/http/readiness.ts'
import { answerWrongMethods } from './platform/http/wrong-methods.ts'
import { isLoopback } from './platform/loopback.ts'
import { packageFile } from './platform/package-files.ts'
import { release } from './platform/release.ts'

/** Builds the whole API on an app: both areas, health, metrics and docs. It does not listen yet. */
export async function buildServer(app: App, readiness: Readiness): Promise<Http> {
  // The same address has the same hash in every process; without the key nobody finds the address behind it.
  const hashSource = keyedHash(app.billing.fingerprintKey, 'source address')
  const isLoopBusy = watchEventLoop()
  const http = buildHttp({
    access: app.access,
    limiter: app.limiter,
    openPrefixes: libraryRoutes,
    onAnswer: ({ caller, ...answered }) => {
      app.metrics.answers.inc({ route: answered.route, status: answered.status })
      app.metrics.answerSeconds.observe({ route: answered.route }, answered.ms / 1000)
      app.log.info('http.answered', { ...answered, caller })
    },
    onFault: (error, at) => app.log.error('http.failed', { ...at, error }),
    onTrouble: (trouble) => app.health.note(trouble),
    replica: app.replica && {
      replica: app.replica,
      writePosition: () => writePosition(app.pool),
      onRead: (source) => app.metrics.lagReads.inc({ source }),
    },
    // A keyword's characters are judged one by one, with an answer of their own.
    ownText: ['keyword', 'keywords'],
    onFlood: ({ of, source }) => app.log.warn('access.flood', { of, source: hashSource(source) }),
    fairness: {
      concurrency: app.config.tokenConcurrency,
      perMinute: app.config.billingRate,
      ratedPrefix: '/api/billing/',
      // Half of them is left to whoever comes next.
      isCrowded: () => app.pool.totalCount - app.pool.idleCount > app.pool.options.max / 2 || isLoopBusy(),
    },
  })
  const wrongMethods = answerWrongMethods(http, { except: libraryRoutes })
  await mountDocs(http)
  healthRoutes(http, app, readiness)
  sessionRoutes(http, app)
  consoleRoutes(http)
  tokenRoutes(http, app)
  auditRoutes(http, app)
  jobRoutes(http, app)
  batchRoutes(http, app.batch)
  await http.register(async (scope: Http) => {
    // A client that moved the clock through one process must see it moved in all of them. Notifications are stored by
    // real time, in a hurry.
    scope.addHook('onRequest', async (request) => {
      if (request.routeOptions.config.access !== 'signed') await app.clock.sync()
    })
    billingRoutes(scope, app.billing)
  })
  if (app.config.mode === 'sandbox') {
    clockRoutes(http, app)
    demoRoutes(http, app)
    if (app.sandboxUrl && app.sandboxKey) {
      const { sandboxUrl: providerUrl, sandboxKey: key } = app
      sandboxRoutes(http, { providerUrl, key, timeZone: app.config.timeZone })
    }
  }
  wrongMethods.mount()
  await http.ready()
  return http
}

function keyedHash(key: Buffer, purpose: string): (text: string) => string {
  const own = createHmac('sha256', key).update(purpose).digest()
  return (text) => createHmac('sha256', own).update(text).digest('hex')
}

/** The documentation page brings its own routes. */
const libraryRoutes = ['/docs']

/** Alive, may take traffic, and how it is doing. None of these needs a token; keep them off the public network. */
function healthRoutes(http: Http, app: App, readiness: Readiness): void {
  const open = { config: { access: 'open' as const } }
  const Health = Type.Object(
    {
      status: Type.String(),
      reason: Type.Optional(Type.String({ description: 'Why the process is not ready' })),
      replica: Type.Optional(Type.String({ description: 'State of the read replica; only `ready` is read' })),
    },
    { title: 'Health' },
  )
  const schema = { tags: ['operations'], response: { 200: Health, 503: Health } }

  http.get(
    '/healthz',
    { ...open, schema: { ...schema, operationId: 'getHealth', summary: 'The process is alive' } },
    async () => ({
      status: 'alive',
    }),
  )
  http.get(
    '/readyz',
    { ...open, schema: { ...schema, operationId: 'getReadiness', summary: 'The process may take traffic' } },
    async (_request, reply) => {
      const reason = readiness.ask() ? await app.health.check() : 'starting_or_stopping'
      const replica = app.replica && { replica: app.replica.state() }
      if (reason === undefined) return { status: 'ready', ...replica }
      return reply
        .code(503)
        .header('retry-after', '1')
        .send({ status: 'not ready', reason, ...replica })
    },
  )
  // Beyond loopback the numbers are for the operator's network alone: METRICS_PORT.
  if (!isLoopback(app.config.host)) return
  http.get(
    '/metrics',
    {
      ...open,
      schema: {
        operationId: 'getMetrics',
        summary: 'Prometheus metrics',
        tags: ['operations'],
        response: {
          200: {
            description: 'In the text format of Prometheus',
            content: {
              'text/plain': {
                schema: Type.String(),
                example: 'rankledger_http_answers_total{route="/healthz",status="200"} 1',
              },
            },
          },
        },
      },
    },
    async (_request, reply) => {
      await measure(app)
      return reply.type(app.metrics.registry.contentType).send(await app.metrics.registry.metrics())
    },
  )
}

const docsPolicy =
  "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src 'self' data:; object-src 'none'" +
  "; script-src 'self'; style-src 'self'"

/** What a running service was asked and answered; `npm run api-docs` writes them. */
const examples = JSON.parse(readFileSync(packageFile('assets/api-examples.json'), 'utf8')) as Record<
  string,
  Example
>

/** `/openapi.json` and a page to browse it, served from this process alone. */
async function mountDocs(http: Http): Promise<void> {
  await http.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Rankledger',
        version: release,
        description:
          'Recurring billing and keyword batch work behind one API. Every operation lists the codes of its errors; HTTP itself may say `invalid_http` (400), `route_not_found` (404), `method_not_allowed` (405), `request_timeout` (408), `expectation_failed` (417) or `headers_too_large` (431).',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
        contact: { name: 'Whoever runs this installation' },
      },
      servers: [{ url: '/', description: 'This installation' }],
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
      tags: [
        { name: 'billing', description: 'Subscriptions, invoices, refunds, trials' },
        { name: 'batch', description: 'Keywords, ranks, volumes, models' },
        { name: 'sandbox', description: 'The movable clock and the test provider; sandbox mode only' },
        { name: 'operations', description: 'Health and metrics' },
      ],
    },
    transform: ({ schema, url, route }) => ({ url, schema: describeRoute(schema, route) }),
    transformObject: (document) =>
      'openapiObject' in document ? shareParts(document.openapiObject as object as never, examples) : {},
  })
  await http.register(swaggerUi, { routePrefix: '/docs', staticCSP: docsPolicy })
  http.get('/openapi.json', { config: { access: 'open' }, schema: { hide: true } }, async () =>
    http.swagger(),
  )
}

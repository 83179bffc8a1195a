import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { App } from '../app.ts'
import type { Readiness } from '../platform/http/readiness.ts'
import { measure } from './vitals.ts'

export type OperationsServer = { readonly port: number; close(): Promise<void> }

/**
 * Health and metrics on METRICS_PORT, for the operator's network: a worker has no other door, and beyond loopback the
 * API tells no numbers. Absent when no port is set.
 */
export async function openOperationsServer(
  app: App,
  readiness: Readiness,
): Promise<OperationsServer | undefined> {
  const { metricsPort: port, metricsHost: host } = app.config
  if (port === undefined) return undefined
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 }, (request, response) => {
    const answer = request.method === 'GET' ? routes[request.url?.split('?')[0] ?? ''] : undefined
    if (!answer) return send(response, 404, { status: 'not found' })
    answer(app, readiness, response).catch(() => send(response, 500, { status: 'failed' }))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  }).catch((error: NodeJS.ErrnoException) => {
    throw new Error(
      `Cannot listen on METRICS_HOST=${host} METRICS_PORT=${port} (${error.code}); give each process of a machine its own.`,
    )
  })
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

type Answer = (app: App, readiness: Readiness, response: ServerResponse) => Promise<void>

const routes: Readonly<Record<string, Answer>> = {
  '/healthz': async (_app, _readiness, response) => send(response, 200, { status: 'alive' }),
  '/readyz': async (app, readiness, response) => {
    const reason = readiness.ask() ? await app.health.check() : 'starting_or_stopping'
    const status = reason ? { status: 'not ready', reason } : { status: 'ready' }
    send(response, reason ? 503 : 200, { ...status, ...(app.replica && { replica: app.replica.state() }) })
  },
  '/metrics': async (app, _readiness, response) => {
    await measure(app)
    const { registry } = app.metrics
    const text = await registry.metrics()
    response.writeHead(200, { 'content-type': registry.contentType }).end(text)
  },
}

function send(
  response: ServerResponse,
  status: number,
  body: { status: string; reason?: string; replica?: string },
): void {
  response
    .writeHead(status, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' })
    .end(JSON.stringify(body))
}

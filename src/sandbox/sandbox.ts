import { setMaxListeners } from 'node:events'
import type { AddressInfo } from 'node:net'
import fastify, { type FastifyError } from 'fastify'
import type pg from 'pg'
import type { Clock } from '../platform/clock.ts'
import type { Http } from '../platform/http/http.ts'
import { validatorCompiler } from '../platform/http/validation.ts'
import { urlOnThisMachine } from '../platform/loopback.ts'
import { Refusal } from '../platform/refusal.ts'
import { openBook } from './book.ts'
import { openFaultInjector } from './faults.ts'
import { openNotifier } from './notifier.ts'
import type { ProviderContext } from './provider-context.ts'
import { sandboxWire, type Wire } from './wire.ts'
import { openWireObjects } from './wire-objects.ts'

export type Sandbox = {
  /** Where the provider listens: `http://127.0.0.1:40123`. */
  readonly url: string
  close(): Promise<void>
}

export type SandboxOptions = {
  readonly pool: pg.Pool
  readonly clock: Clock
  /** 0: any free one. */
  readonly port?: number
  readonly host?: string
  /** The secret keys that open it. */
  readonly keys: readonly string[]
  /** Whose language it speaks; the sandbox's own unless said. */
  readonly wire?: Wire
  /** How long a key is remembered, in service time; what the wire says unless given. */
  readonly keyWindowMs?: number
  readonly webhook: {
    /** Where notifications go. Undefined: another process on the same book sends them. */
    readonly url: string | undefined
    /** Newest first; the newest signs. A wire that signs nothing needs none. */
    readonly secrets: () => readonly string[]
  }
  readonly onError?: (error: unknown) => void
}

const housekeepingMs = 60_000

/**
 * Opens a payment provider as the world would run it: an HTTP server with a durable book of its own. Several processes
 * may each open one on the same book; it does not matter which of them answers.
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { pool, clock, wire = sandboxWire, keyWindowMs = wire.keyWindowMs, onError = () => {} } = options
  const closing = new AbortController()
  // Every connection held open listens for the end.
  setMaxListeners(0, closing.signal)
  const book = openBook(pool, wire)
  const notifier = openNotifier({
    pool,
    ...options.webhook,
    ...(wire.unsigned && { secrets: () => [''] }),
    render: (event, secret) => wire.notification(event, secret, context),
    onError,
  })
  const context: ProviderContext = {
    book,
    faults: openFaultInjector(pool),
    objects: openWireObjects(pool, wire.name),
    now: freshTime(clock),
    moveClock: (instant) => clock.moveTo(instant),
    keyWindowMs,
    closing: closing.signal,
    notifyAfter: (entry) => entry.finally(notifier.wake),
  }

  const http = buildServer(onError)
  wire.routes(http, context, options.keys)
  await listenAt(http, options)
  const housekeeping = setInterval(() => {
    book.forgetKeys(new Date(clock().getTime() - keyWindowMs)).catch(onError)
  }, housekeepingMs).unref()

  const { address, port } = http.server.address() as AddressInfo
  return {
    url: urlOnThisMachine(address, port),
    async close() {
      clearInterval(housekeeping)
      closing.abort()
      await http.close()
      await notifier.close()
    },
  }
}

async function listenAt(
  http: Http,
  { port = 0, host = '127.0.0.1' }: Pick<SandboxOptions, 'port' | 'host'>,
): Promise<void> {
  try {
    await http.listen({ port, host })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    throw new Error(
      `Port ${port}, where the sandbox provider is to listen, is taken; stop what uses it, or choose another by SANDBOX_PORT or --port (0 = any free one).`,
    )
  }
}

function buildServer(onError: (error: unknown) => void): Http {
  const http: Http = fastify({
    logger: false,
    bodyLimit: 64 * 1024,
    keepAliveTimeout: 72_000,
    routerOptions: { maxParamLength: 4096 },
    forceCloseConnections: 'idle',
  })
  http.setValidatorCompiler(validatorCompiler)
  http.setNotFoundHandler(async (_request, reply) =>
    reply.code(404).send(errorBody('route_not_found', 'There is no such call.')),
  )
  http.setErrorHandler(async (error: FastifyError, _request, reply) => {
    if (error instanceof Refusal) {
      return reply.code(error.status).send({ ...errorBody(error.code, error.message, error.details) })
    }
    const status = error.statusCode ?? 500
    if (status < 500)
      return reply.code(status).send(errorBody('invalid_request', 'This request cannot be read.'))
    onError(error)
    return reply.code(500).send(errorBody('internal_error', 'The provider failed.'))
  })
  return http
}

function errorBody(code: string, message: string, details?: unknown) {
  return { error: { code, message, ...(details !== undefined && { details }) } }
}

/**
 * The service's time as of now, not as of the last look: another process may just have moved it. Requests that arrive
 * during a look share the next one, so that a busy provider does not pay a round trip for each of them.
 */
function freshTime(clock: Clock): () => Promise<Date> {
  let looking: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  return async () => {
    next ??= looking
      .catch(() => {})
      .then(() => {
        next = undefined
        looking = clock.sync()
        return looking
      })
    await next
    return clock()
  }
}

import { createHmac, randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type RawServerDefault,
  type RouteOptions,
} from 'fastify'
import type { AccessPolicy, Principal } from '../access/access.ts'
import type { RateLimiter } from '../access/rate-limit.ts'
import { type DatabaseTrouble, troubleOf } from '../database/database-errors.ts'
import { mayHaveWritten } from '../database/db.ts'
import { newId } from '../id.ts'
import { othersFirst } from '../pieces.ts'
import { type DocumentedRefusal, Refusal, refuseRequest } from '../refusal.ts'
import { countUnparsable, type Identifies, openAccessHooks } from './admission.ts'
import {
  type ErrorAnswer,
  ErrorBody,
  errorAnswer,
  faultAnswer,
  guardingHeaders,
  refusalOfFramework,
} from './answers.ts'
import { answerBrokenRequest, refuseExpectation } from './broken-request.ts'
import { type FairnessOptions, hasLargeBody, openFairness } from './fairness/fairness.ts'
import { parseJson, textOf } from './json-body.ts'
import { longAnswer } from './long-answer.ts'
import { type ReplicaReads, readFromReplica, requireReadsThatLag } from './may-lag.ts'
import { OutcomeUnknown } from './outcome-unknown.ts'
import { serializerCompiler } from './serialization.ts'
import { openSlowRefusals } from './slow-refusals.ts'
import { isOfPath, unknownIdRefusal } from './unknown-id.ts'
import { suspectText, unstorableTextRefusal } from './unstorable-text.ts'
import { validatorCompiler } from './validation.ts'

export type Http = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Who may call this route. A route without one stops the start. */
    access?: AccessPolicy
    /** Counts against the workspace's 100 requests a minute. */
    limited?: true
    /** Its pages are long unless the caller asks for short ones. */
    longPages?: true
    /** With this field in the query any of its pages may be long. */
    longWith?: string
    /** Takes an Idempotency-Key. */
    once?: true
  }
  interface FastifySchema {
    /** The refusals of its own; what HTTP and access refuse is told of every route alike. */
    errors?: readonly DocumentedRefusal[]
  }
  interface FastifyRequest {
    /** Set on every route that asks for a scope. */
    principal: Principal
    startedAt: number
    /** The limiter has counted this request. */
    counted: boolean
  }
}

export type Answered = {
  request_id: string
  method: string
  route: string
  status: number
  ms: number
  /** The token's id, which is not secret. */
  caller: string | undefined
}

export type HttpOptions = {
  access: Identifies
  limiter: RateLimiter
  /** Where routes of a library are mounted, which know nothing of policies; all of them are open. */
  openPrefixes: readonly string[]
  onAnswer: (answered: Answered) => void
  /** A fault of ours: logged once, here, by type and place. */
  onFault: (error: unknown, at: { route: string; request_id: string }) => void
  /** The database could not do its work; whoever asks for readiness should know. */
  onTrouble?: (trouble: DatabaseTrouble) => void
  /** Fields whose characters the routes judge themselves. */
  ownText?: readonly string[]
  /** Somebody guesses tokens or signatures by the hundred. Told once a minute per socket address. */
  onFlood?: (flood: { of: 'tokens' | 'signatures'; source: string }) => void
  fairness?: FairnessOptions
  /** Absent: every read goes to the primary. */
  replica?: ReplicaReads | undefined
}

export const bodyLimits = { ordinary: 256 * 1024, bulk: 2 * 1024 * 1024, webhook: 64 * 1024 } as const

/** The HTTP face both areas are mounted on: strict in, strict out, one envelope, one list of errors. */
export function buildHttp(options: HttpOptions): Http {
  const tellAnswer = (request: FastifyRequest, reply: FastifyReply) => {
    options.onAnswer({
      request_id: loggedId(request.id),
      method: request.method,
      route: routeOf(request),
      status: reply.statusCode,
      ms: performance.now() - request.startedAt,
      caller: request.principal?.tokenId,
    })
  }
  const http = fastify({
    logger: false,
    bodyLimit: bodyLimits.ordinary,
    // A request must have arrived whole by then; slow senders do not hold a socket for ever.
    requestTimeout: 30_000,
    connectionTimeout: 0,
    keepAliveTimeout: 72_000,
    // A request on a connection that was open already is answered while the door closes, in our words, not in Fastify's.
    return503OnClosing: false,
    routerOptions: { maxParamLength: 16 * 1024 },
    // A request without Host is refused below, in our words; Node would close it without any.
    http: { maxHeaderSize: 16 * 1024, headersTimeout: 20_000, requireHostHeader: false },
    requestIdHeader: false,
    genReqId: (request) => requestIdOf(request.headers['x-request-id']),
    // No hook runs for a path that the router cannot read; it is answered, logged and counted like every other.
    frameworkErrors: (error, request, reply) => {
      beginAnswer(request, reply)
      reply.raw.once('close', () => tellAnswer(request, reply))
      const refusal =
        hostRefusal(request) ?? refusalOfFramework(error, refuseRequest) ?? refuseRequest('route_not_found')
      void send(reply, errorAnswer(refusal, request.id))
    },
    clientErrorHandler: answerBrokenRequest,
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false } },
  }).withTypeProvider<TypeBoxTypeProvider>() as Http

  const fairness = openFairness(options.fairness ?? unlimited)
  http.server.on('checkExpectation', refuseExpectation)
  http.setValidatorCompiler(validatorCompiler)
  http.setSerializerCompiler(serializerCompiler)
  http.removeAllContentTypeParsers()
  http.addContentTypeParser(
    /^application\/json(?:\s*;\s*charset="?utf-8"?)?\s*$/i,
    // As text it would come with the bytes that are no UTF-8 replaced.
    { parseAs: 'buffer' },
    (request: FastifyRequest, body: Buffer, done) => {
      // Many clients name this type also where they send nothing; who asks for no body misses none.
      if (body.length === 0 && request.routeOptions.schema?.body === undefined) return done(null)
      if (!hasLargeBody(request)) return finish(body, done)
      fairness.admitLarge(request).then(() => finish(body, done), done)
    },
  )

  http.decorateRequest('principal', null as unknown as Principal)
  http.decorateRequest('startedAt', 0)
  http.decorateRequest('counted', false)
  http.decorateRequest('share', null)
  requirePolicies(http, options.openPrefixes)
  requireReadsThatLag(http)
  if (options.replica) readFromReplica(http, options.replica)
  const floodOf = (of: 'tokens' | 'signatures') =>
    openSlowRefusals((source) => options.onFlood?.({ of, source }))
  const [badTokens, badSignatures] = [floodOf('tokens'), floodOf('signatures')]
  const accessHooks = openAccessHooks(options.access, options.limiter)

  // Hooks that have nothing to wait for take a callback: a promise for each of them is felt on every request.
  http.addHook('onRequest', (request, reply, done) => {
    beginAnswer(request, reply)
    const misdirected = hostRefusal(request)
    if (misdirected) return done(misdirected)
    if (!accessHooks.asksForToken(request)) return done(encodingRefusal(request))
    accessHooks
      .identify(request, reply)
      .then(() => fairness.admit(request, reply))
      .then(() => done(encodingRefusal(request)), done)
  })
  http.addHook('preValidation', (request, reply, done) => {
    if (!accessHooks.asksForToken(request)) return done()
    accessHooks.admit(request, reply).then(() => done(), done)
  })
  const ownText = new Set(options.ownText)
  http.addHook('preHandler', (request, _reply, done) => {
    const refusal = unstorableTextRefusal(request, ownText)
    // What is large is worked in pieces, so that whoever else has something to do comes in between.
    if (fairness.isLarge(request)) setImmediate(done, refusal)
    else done(refusal)
  })
  // The last thing before the handler: the body may have taken long to arrive, and its turn long to come.
  http.addHook('preHandler', (request, reply, done) => {
    if (!accessHooks.isToBeIdentifiedAgain(request)) return done()
    accessHooks.identify(request, reply).then(() => done(), done)
  })
  http.addHook('preSerialization', (request, reply, payload, done) => {
    if (!fairness.isLarge(request)) return done(null, payload)
    othersFirst()
      .then(() => longAnswer(reply, payload))
      .then((answer) => done(null, answer), done)
  })
  http.addHook('onSend', (request, _reply, _payload, done) => {
    fairness.answered(request)
    done()
  })
  http.addHook('onResponse', (request, reply, done) => {
    tellAnswer(request, reply)
    done()
  })
  http.setNotFoundHandler(async () => {
    throw refuseRequest('route_not_found')
  })
  http.setErrorHandler(async (thrown, request, reply) => {
    const first = (isOfPath(thrown) && unknownIdRefusal(request)) || thrown
    const isLibrary = isOpen(request, options.openPrefixes)
    // Whatever is thrown in here Fastify tells in the thrower's own words.
    const raised = await countUnparsable(options.limiter, request, reply, refusalOf(first, isLibrary)).then(
      () => first,
      (failure: unknown) => failure,
    )
    const trouble = troubleOf(raised)
    if (trouble) options.onTrouble?.(trouble)
    // "Nothing was done" must not be said of a write whose answer was lost.
    const doubtful = mayHaveWritten(raised) && !reads.has(request.method)
    const error = doubtful ? new OutcomeUnknown({ cause: raised }) : raised
    const refusal = refusalOf(error, isLibrary)
    if (refusal?.code === 'unauthorized') await badTokens.slowDown(request.socket.remoteAddress ?? '')
    if (refusal?.code === 'invalid_signature') {
      // Slow does not mean held in memory.
      request.body = undefined
      await badSignatures.slowDown(request.socket.remoteAddress ?? '')
    }
    if (refusal) return send(reply, errorAnswer(refusal, request.id))
    options.onFault(error, { route: routeOf(request), request_id: loggedId(request.id) })
    return send(reply, faultAnswer(error, request.id))
  })
  return http
}

/** What every answer has, whatever comes of the request. */
function beginAnswer(request: FastifyRequest, reply: FastifyReply): void {
  request.startedAt = performance.now()
  reply.header('x-request-id', request.id)
  reply.headers(guardingHeaders)
}

/** Of several Host headers Node takes the first, and a proxy before us perhaps the last. */
function hostRefusal({ headers, raw }: FastifyRequest): Refusal | undefined {
  let hosts = 0
  for (let at = 0; at < raw.rawHeaders.length; at += 2)
    if (raw.rawHeaders[at]!.length === 4 && raw.rawHeaders[at]!.toLowerCase() === 'host') hosts++
  const isMissing = headers.host === undefined && raw.httpVersion === '1.1'
  return isMissing || hosts > 1 ? refuseRequest('invalid_http') : undefined
}

function encodingRefusal({ headers }: FastifyRequest): Refusal | undefined {
  if (!isEncoded(headers['content-encoding'])) return undefined
  return refuseRequest('unsupported_media_type', {
    message: 'Send the body as it is, without a Content-Encoding.',
  })
}

function finish(bytes: Buffer, done: (error: Error | null, body?: unknown) => void): void {
  let body: unknown
  try {
    const text = textOf(bytes)
    body = parseJson(text)
    suspectText(text, body)
  } catch (error) {
    done(error as Error)
    return
  }
  done(null, body)
}

const unlimited: FairnessOptions = { concurrency: 0, perMinute: 0, ratedPrefix: '/', isCrowded: () => false }

function requestIdOf(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^[\w-]{8,64}$/.test(header) ? header : newId('req_')
}

/**
 * How a request is called in the log. A caller's id with so many digits may be a card or a telephone number in disguise;
 * it is written as a hash that only this process can make, and answered as it came.
 */
function loggedId(id: string): string {
  if (ownRequestId.test(id) || id.replace(/\D/g, '').length < fewestDigits || isInnocentUuid(id)) return id
  const hash = createHmac('sha256', logKey).update(id).digest('hex').slice(0, 20)
  return `caller-${hash.replace(/\d/g, (digit) => 'ghijklmnop'.charAt(Number(digit)))}`
}

const ownRequestId = /^req_[12][0-9a-hjkmnp-tv-z]{25}$/
const logKey = randomBytes(32)
const fewestDigits = 9

/** A UUID has letters among its digits; one without, or with a card's worth of digits in a row, was put together by hand. */
function isInnocentUuid(id: string): boolean {
  return (
    /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(id) &&
    !/\d{12}/.test(id.replaceAll('-', ''))
  )
}

/** The route's pattern; the URL itself may hold personal data and is never logged. */
function routeOf(request: FastifyRequest): string {
  return request.routeOptions.url ?? 'unmatched'
}

const reads = new Set(['GET', 'HEAD', 'OPTIONS'])

function isEncoded(encoding: string | undefined): boolean {
  return encoding !== undefined && encoding.toLowerCase() !== 'identity'
}

function refusalOf(error: unknown, isLibrary: boolean): Refusal | undefined {
  if (error instanceof Refusal) return error
  const trouble = troubleOf(error)
  if (trouble)
    return refuseRequest('service_unavailable', { headers: { 'retry-after': retryAfter(trouble) } })
  const framework = refusalOfFramework(error as { code?: string }, refuseRequest)
  // A library's own "no", as of a path that leaves its folder, has no code of ours.
  if (!framework && isLibrary && ((error as { statusCode?: number }).statusCode ?? 500) < 500)
    return refuseRequest('route_not_found')
  return framework
}

function isOpen(request: FastifyRequest, prefixes: readonly string[]): boolean {
  return prefixes.some((prefix) => request.routeOptions.url?.startsWith(prefix))
}

/** What ends by itself is tried again at once; what a person has to mend, a little later. */
function retryAfter(trouble: DatabaseTrouble): string {
  return trouble === 'read_only' || trouble === 'disk_full' || trouble === 'sign_in_refused' ? '5' : '1'
}

function send(reply: FastifyReply, answer: ErrorAnswer): FastifyReply {
  return reply.code(answer.status).headers(answer.headers).send(answer.body)
}

/** Refuses the start when a route says nothing about access, and gives every route the error schema. */
function requirePolicies(http: Http, openPrefixes: readonly string[]): void {
  http.addHook('onRoute', (route: RouteOptions) => {
    if (openPrefixes.some((prefix) => route.url.startsWith(prefix)))
      route.config = { access: 'open', ...route.config }
    if (!route.config?.access) {
      throw new Error(
        `${String(route.method)} ${route.url} declares no access policy; give it config.access.`,
      )
    }
    if (route.schema?.response) {
      route.schema.response = { '4xx': ErrorBody, '5xx': ErrorBody, ...(route.schema.response as object) }
    }
  })
}

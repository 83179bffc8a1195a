import * as http from 'node:http'
import * as https from 'node:https'
import type { Socket } from 'node:net'

/** Sends JSON and reads JSON over kept-alive connections. It never throws: what cannot be known is an answer too. */
export type FetchJson = {
  (call: JsonCall): Promise<JsonAnswer>
  /** Drops all connections; calls under way end as unknown. */
  close(): void
}

export type JsonCall = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  /** JSON text exactly as it shall go out, because signatures are made over bytes. */
  readonly body?: string
  readonly timeoutMs?: number
}

export type JsonAnswer =
  | {
      readonly kind: 'answered'
      readonly status: number
      readonly headers: http.IncomingHttpHeaders
      /** Undefined when the body is no JSON. */
      readonly body: unknown
    }
  | NoAnswer

/** The same, with the body as it came. */
export type TextAnswer =
  | {
      readonly kind: 'answered'
      readonly status: number
      readonly headers: http.IncomingHttpHeaders
      readonly text: string
    }
  | NoAnswer

type NoAnswer =
  /** Certain: no byte of the request left, because no connection came about. */
  | { readonly kind: 'not_sent' }
  /** The request may have arrived and been acted on. */
  | { readonly kind: 'unknown'; readonly why: 'timeout' | 'broken_off' | 'too_large' }

export type FetchJsonOptions = {
  readonly timeoutMs: number
  readonly maxConnections?: number
  readonly maxAnswerBytes?: number
}

export function openFetchJson(options: FetchJsonOptions): FetchJson {
  const fetchText = openFetchText(options)
  const fetchJson = async (call: JsonCall): Promise<JsonAnswer> => {
    const answer = await fetchText(call)
    if (answer.kind !== 'answered') return answer
    const { text, ...head } = answer
    return { ...head, body: parse(text) }
  }
  return Object.assign(fetchJson, { close: fetchText.close })
}

/** Redirects are answers like any other and are not followed: a signed or secret request goes where it was sent. */
export function openFetchText(options: FetchJsonOptions) {
  const { timeoutMs, maxConnections = 64, maxAnswerBytes = 1024 * 1024 } = options
  const pool = { keepAlive: true, maxSockets: maxConnections, scheduling: 'lifo' } as const
  const plain = new http.Agent(pool)
  const secure = new https.Agent(pool)

  const fetchText = (call: JsonCall) => {
    const transport = call.url.startsWith('https:')
      ? { send: https.request, agent: secure }
      : { send: http.request, agent: plain }
    return exchange(transport, call, { timeoutMs: call.timeoutMs ?? timeoutMs, maxAnswerBytes })
  }
  return Object.assign(fetchText, {
    close() {
      plain.destroy()
      secure.destroy()
    },
  })
}

type Transport = { send: typeof http.request; agent: http.Agent }

function exchange(
  transport: Transport,
  call: JsonCall,
  limits: { timeoutMs: number; maxAnswerBytes: number },
): Promise<TextAnswer> {
  return new Promise((resolve) => {
    let connected = false
    const request = transport.send(call.url, {
      method: call.method,
      agent: transport.agent,
      headers: headersOf(call),
    })
    const timer = setTimeout(() => fail('timeout'), limits.timeoutMs)

    const settle = (answer: TextAnswer) => {
      clearTimeout(timer)
      resolve(answer)
    }
    const fail = (why: 'timeout' | 'broken_off' | 'too_large') => {
      settle(connected ? { kind: 'unknown', why } : { kind: 'not_sent' })
      request.destroy()
    }

    request.on('socket', (socket) => whenConnected(socket, () => (connected = true)))
    request.on('error', () => fail('broken_off'))
    request.on('response', (response) => {
      readWhole(response, limits.maxAnswerBytes).then(
        (text) =>
          settle({
            kind: 'answered',
            status: response.statusCode ?? 0,
            headers: response.headers,
            text,
          }),
        (why: 'broken_off' | 'too_large') => fail(why),
      )
    })
    request.end(call.body)
  })
}

function headersOf(call: JsonCall): http.OutgoingHttpHeaders {
  const headers: http.OutgoingHttpHeaders = { accept: 'application/json', ...call.headers }
  if (call.body === undefined) return headers
  return { 'content-type': 'application/json', 'content-length': Buffer.byteLength(call.body), ...headers }
}

/** Nothing is written before this: a request waits for its connection, a secure one for the end of the handshake. */
function whenConnected(socket: Socket, then: () => void): void {
  if (socket.connecting) socket.once('encrypted' in socket ? 'secureConnect' : 'connect', then)
  else then()
}

function readWhole(response: http.IncomingMessage, most: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    response.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > most) reject('too_large')
      else chunks.push(chunk)
    })
    response.on('end', () =>
      response.complete ? resolve(Buffer.concat(chunks).toString('utf8')) : reject('broken_off'),
    )
    response.on('error', () => reject('broken_off'))
    response.on('close', () => reject('broken_off'))
  })
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { urlOnThisMachine } from '../../platform/loopback.ts'
import { openBusiest } from './busiest.ts'
import { openTaskQueue, type TaskQueue } from './task-queue.ts'
import { openWeb, type Web } from './web.ts'

export type SourceSandbox = {
  /** Where it listens: `http://127.0.0.1:40123`. */
  readonly url: string
  readonly book: SourceBook
  /** Sets how often what goes wrong, from 0 to 1 each. */
  setFaults(faults: Partial<Record<Fault, number>>): void
  close(): Promise<void>
}

/** What the source itself counted: the other truth beside our own. */
export type SourceBook = {
  calls: number
  /** Calls that a customer would find on the bill. */
  paid: number
  /** Paid calls that asked for what a good answer had told already on the same day. */
  paidAgain: number
  /** Keywords in good answers that one had told already in the same month, of what is asked for once a month. */
  toldAgain: number
  /** Calls that were turned away because they came too fast. */
  throttled: number
  paidByDay: Record<string, number>
  mostInASecond: number
  mostInAMinute: number
  /** How often each fault was drawn. */
  struck: Partial<Record<Fault, number>>
  outcomes: Record<string, number>
}

const faults = ['unavailable', 'slow', 'broken', 'hang_up', 'unreadable', 'wrong_device', 'empty'] as const
export type Fault = (typeof faults)[number]

export type SourceRequest = {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
}

/** What a call comes to. `asks` says what a paid answer is about, so that asking again shows. */
export type SourceReply = {
  readonly status: number
  readonly body: unknown
  readonly headers?: Record<string, string>
  readonly paid?: boolean
  /** It was turned away because calls like it come too often. */
  readonly isThrottled?: boolean
  readonly asks?: string
  readonly isGood?: boolean
  /** What it tells that nobody needs to ask for again in the same month. */
  readonly tells?: readonly string[]
  /** Searches that were ordered by it, each of which is on the bill whatever becomes of this answer. */
  readonly orders?: readonly { readonly asks: string; readonly isGood: boolean }[]
}

export type SourceContext = {
  readonly web: Web
  /** The day as the source sees it. */
  day(): string
  now(): Date
  readonly queue: TaskQueue
  /** Whether this call meets a trouble that the wire itself must show. */
  strikes(fault: Fault): boolean
}

/** The language of a source: its calls and how it says what goes wrong. */
export type SourceWire = {
  readonly name: string
  /** Undefined: there is no such call. */
  answer(request: SourceRequest, context: SourceContext): SourceReply | undefined
  /** How it says that calls come too fast. */
  readonly tooFast: SourceReply
  readonly unavailable: SourceReply
}

export type SourceSandboxOptions = {
  readonly wire: SourceWire
  readonly port?: number
  readonly host?: string
  readonly seed?: string
  /** More than this is turned away. */
  readonly callsPerSecond?: number
  readonly slowMs?: number
  /** Whose time it goes by; absent: one of its own. */
  readonly clock?: () => Date
  /** How long an ordered search takes, by the source's clock. */
  readonly taskSeconds?: number
}

/**
 * Opens a source of ranks or volumes as the world would run it: an HTTP server over a made-up web that drifts from day
 * to day, with a count of its own. Its clock starts at real time and is turned by `POST /__sandbox/clock`.
 */
export async function openSourceSandbox(options: SourceSandboxOptions): Promise<SourceSandbox> {
  const { wire, callsPerSecond = 1_000, slowMs = 2_000 } = options
  const rates = new Map<Fault, number>()
  const draw = randomOf(options.seed ?? 'web')
  let offsetMs = 0
  const now = options.clock ?? (() => new Date(Date.now() + offsetMs))
  const strikes = (fault: Fault) => {
    const rate = rates.get(fault) ?? 0
    const isStruck = rate > 0 && draw() < rate
    if (isStruck) book.struck[fault] = (book.struck[fault] ?? 0) + 1
    return isStruck
  }
  const context: SourceContext = {
    web: openWeb(options.seed ?? 'web'),
    day: () => now().toISOString().slice(0, 10),
    now,
    queue: openTaskQueue(now, options.taskSeconds),
    strikes,
  }
  const book: SourceBook = {
    calls: 0,
    paid: 0,
    paidAgain: 0,
    toldAgain: 0,
    throttled: 0,
    paidByDay: {},
    mostInASecond: 0,
    mostInAMinute: 0,
    struck: {},
    outcomes: {},
  }
  // What was told today: nobody asks about another day again.
  let told = { day: '', asks: new Set<string>() }
  let toldInMonth = { month: '', names: new Set<string>() }
  const busiest = openBusiest()
  // A bucket of one second's calls that fills up again at the rate.
  let bucket = { left: callsPerSecond, at: performance.now() }

  const count = (reply: SourceReply, outcome: string) => {
    book.outcomes[outcome] = (book.outcomes[outcome] ?? 0) + 1
    if (reply.isGood && reply.tells) tell(reply.tells)
    if (reply.paid) bill(reply.asks, reply.isGood ?? false)
    for (const { asks, isGood } of reply.orders ?? []) bill(asks, isGood)
    if (reply.isThrottled) book.throttled++
  }
  const tell = (names: readonly string[]) => {
    const month = context.day().slice(0, 7)
    if (toldInMonth.month !== month) toldInMonth = { month, names: new Set() }
    for (const name of names) {
      if (toldInMonth.names.has(name)) book.toldAgain++
      toldInMonth.names.add(name)
    }
  }
  const bill = (asks: string | undefined, isGood: boolean) => {
    const day = context.day()
    book.paid++
    book.paidByDay[day] = (book.paidByDay[day] ?? 0) + 1
    if (asks === undefined || !isGood) return
    if (told.day !== day) told = { day, asks: new Set() }
    if (told.asks.has(asks)) book.paidAgain++
    told.asks.add(asks)
  }

  const isTooFast = (at: number) => {
    busiest.count(at)
    book.mostInASecond = busiest.mostInASecond
    book.mostInAMinute = busiest.mostInAMinute
    const left = Math.min(callsPerSecond, bucket.left + ((at - bucket.at) / 1000) * callsPerSecond)
    bucket = { left: Math.max(0, left - 1), at }
    return left < 1
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://sandbox')
    const body = await readJson(request)
    const asked = {
      method: request.method ?? 'GET',
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body,
    }
    if (url.pathname.startsWith('/__sandbox/')) return send(response, administer(asked))
    book.calls++
    if (isTooFast(performance.now())) {
      count({ ...wire.tooFast, isThrottled: true }, 'too_fast')
      return send(response, wire.tooFast)
    }
    if (strikes('unavailable')) {
      count(wire.unavailable, 'unavailable')
      return send(response, wire.unavailable)
    }
    const reply = wire.answer(asked, context) ?? { status: 404, body: { error: 'There is no such call.' } }
    const trouble = reply.status === 200 ? (['hang_up', 'broken'] as const).find(strikes) : undefined
    if (trouble) {
      // It did its work and puts it on the bill, and the answer never arrives whole.
      count({ ...reply, isGood: false }, trouble)
      if (trouble === 'hang_up') return void request.socket.destroy()
      response.writeHead(200, { 'content-type': 'application/json' })
      return void response.end(JSON.stringify(reply.body).slice(0, -20))
    }
    if (strikes('slow')) await sleep(slowMs)
    count(reply, String(reply.status))
    send(response, reply)
  }

  function administer({ method, path, body }: SourceRequest): SourceReply {
    const fields = typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {}
    if (path === '/__sandbox/book') return { status: 200, body: book }
    if (path === '/__sandbox/clock' && method === 'POST') {
      const at = Date.parse(String(fields['advance_to']))
      if (Number.isNaN(at)) return { status: 400, body: { error: 'advance_to takes an instant.' } }
      offsetMs = Math.max(offsetMs, at - Date.now())
      return { status: 200, body: { now: now().toISOString() } }
    }
    if (path === '/__sandbox/clock') return { status: 200, body: { now: now().toISOString() } }
    if (path === '/__sandbox/faults' && method === 'POST') {
      const wrong = Object.entries(fields).find(
        ([name, rate]) => !faults.includes(name as Fault) || typeof rate !== 'number' || rate < 0 || rate > 1,
      )
      if (wrong) return { status: 400, body: { error: `Faults are ${faults.join(', ')}, each from 0 to 1.` } }
      for (const [name, rate] of Object.entries(fields)) rates.set(name as Fault, rate as number)
      return { status: 200, body: Object.fromEntries(rates) }
    }
    return { status: 404, body: { error: 'There is no such call.' } }
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  server.keepAliveTimeout = 72_000
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, options.host ?? '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: urlOnThisMachine(options.host ?? '127.0.0.1', port),
    book,
    setFaults: (given) => {
      for (const [name, rate] of Object.entries(given)) rates.set(name as Fault, rate)
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function send(response: ServerResponse, { status, body, headers }: SourceReply): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  if (chunks.length === 0) return undefined
  const text = Buffer.concat(chunks).toString('utf8')
  if (request.headers['content-type']?.startsWith('application/x-www-form-urlencoded'))
    return Object.fromEntries(new URLSearchParams(text))
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Chance that is the same on every run with the same seed. */
function randomOf(seed: string): () => number {
  let state = 0x9e3779b9
  for (const sign of seed) state = Math.imul(state ^ sign.codePointAt(0)!, 0x85ebca6b) >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

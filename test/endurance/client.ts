import { Agent, type IncomingHttpHeaders, request as send } from 'node:http'

/** A caller of the API that never tries again, and counts what it is told. */
export type Client = {
  ask(route: string, call: Call): Promise<Answer>
  readonly tally: Tally
  close(): void
}

export type Call = {
  /** What stands in the route's braces, in order. */
  readonly at?: readonly string[]
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** The statuses a correct service may give. */
  readonly expect: readonly number[]
}

/** Status 0: no answer came. */
export type Answer = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly ms: number
}

export type Tally = {
  /** Answers by route and status. */
  readonly routes: Record<string, Record<string, number>>
  asked: number
  /** Everything that was not among the expected. */
  unexpected: number
  /** No answer, or one that says the service is at fault. */
  failed: number
  /** The first few of them, in words. */
  readonly surprises: string[]
}

/** `url` is asked for each call, because the one who answers may change. */
export function openClient(options: {
  readonly url: () => string
  readonly token: string
  readonly connections?: number
}): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: options.connections ?? 64 })
  const tally: Tally = { routes: {}, asked: 0, unexpected: 0, failed: 0, surprises: [] }
  return {
    tally,
    async ask(route, call) {
      const [method = '', pattern = ''] = route.split(' ')
      const body = call.body === undefined ? undefined : bytesOf(call.body)
      const headers = {
        authorization: `Bearer ${options.token}`,
        ...(body && { 'content-type': 'application/json', 'content-length': body.length }),
        ...call.headers,
      }
      const url = options.url() + pathOf(pattern, call)
      const answer = await exchange({ method, url, headers, body, agent })
      count(tally, route, call, answer)
      return answer
    },
    close: () => agent.destroy(),
  }
}

/** What a successful answer carries; an empty object for any other, so that a caller finds nothing in it. */
// biome-ignore lint/suspicious/noExplicitAny: the one who asked knows the shape
export function dataOf(answer: Answer): any {
  if (answer.status < 200 || answer.status > 299) return {}
  return JSON.parse(answer.text).data
}

function bytesOf(body: unknown): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body))
}

function pathOf(pattern: string, { at = [], query }: Call): string {
  let next = 0
  const path = pattern.replace(/\{\w+\}/g, () => encodeURIComponent(at[next++] ?? ''))
  return query ? `${path}?${new URLSearchParams(query)}` : path
}

type Exchange = {
  method: string
  url: string
  headers: Record<string, string | number>
  body: Buffer | undefined
  agent: Agent
}

function exchange({ method, url, headers, body, agent }: Exchange): Promise<Answer> {
  const startedAt = performance.now()
  return new Promise((resolve) => {
    const lost = (error: NodeJS.ErrnoException) =>
      resolve({ status: 0, headers: {}, text: error.code ?? error.name, ms: performance.now() - startedAt })
    const request = send(url, { method, headers, agent }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', lost)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(chunks).toString(),
          ms: performance.now() - startedAt,
        }),
      )
    })
    request.on('error', lost)
    request.end(body)
  })
}

function count(tally: Tally, route: string, { expect }: Call, { status, text }: Answer): void {
  tally.asked++
  tally.routes[route] ??= {}
  const statuses = tally.routes[route]
  statuses[status] = (statuses[status] ?? 0) + 1
  if (status === 0 || status >= 500) tally.failed++
  if (expect.includes(status)) return
  tally.unexpected++
  if (tally.surprises.length < 20) tally.surprises.push(`${route}: ${status} ${text.slice(0, 300)}`)
}

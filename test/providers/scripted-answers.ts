import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Sent = {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A server that gives the answers it was told, in order, and keeps what it was sent. */
export async function openScript() {
  const sent: Sent[] = []
  const answers: { status: number; body: string }[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      sent.push({ method: request.method ?? '', path: request.url ?? '', headers: request.headers, body })
      const next = answers.shift() ?? { status: 500, body: 'no answer was scripted' }
      response.writeHead(next.status, { 'content-type': 'application/json' }).end(next.body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent,
    /** Forgets what was sent and said before. */
    will(...next: { status: number; body: unknown }[]): void {
      sent.splice(0)
      answers.splice(0)
      answers.push(...next.map(({ status, body }) => ({ status, body: JSON.stringify(body) ?? '' })))
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

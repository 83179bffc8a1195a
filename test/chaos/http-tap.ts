import type { Tap } from './proxy.ts'

export type HttpMessage = {
  /** The first line: method and path, or version and status. */
  readonly title: string
  header(name: string): string | undefined
  readonly body: string
}

/** Reads HTTP/1.1 off a connection. `onRequest` says what to do with the answer to that request, should one come. */
export function httpTap(onRequest: (request: HttpMessage) => (answer: HttpMessage) => void): Tap {
  const waiting: ((answer: HttpMessage) => void)[] = []
  return {
    sent: messageReader((request) => waiting.push(onRequest(request))),
    answered: messageReader((answer) => waiting.shift()?.(answer)),
  }
}

/** Both sides of every link here give the length of what they send; nothing is chunked. */
function messageReader(onMessage: (message: HttpMessage) => void): (bytes: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (bytes) => {
    rest = Buffer.concat([rest, bytes])
    for (let headEnd = rest.indexOf('\r\n\r\n'); headEnd >= 0; headEnd = rest.indexOf('\r\n\r\n')) {
      const [title = '', ...lines] = rest.subarray(0, headEnd).toString('latin1').split('\r\n')
      const headers = new Map(
        lines.map((line) => {
          const colon = line.indexOf(':')
          return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
        }),
      )
      const end = headEnd + 4 + Number(headers.get('content-length') ?? 0)
      if (rest.length < end) return
      const body = rest.subarray(headEnd + 4, end).toString('utf8')
      rest = rest.subarray(end)
      onMessage({ title, header: (name) => headers.get(name), body })
    }
  }
}

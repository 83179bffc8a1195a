import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { newId } from '../id.ts'
import { refuseRequest } from '../refusal.ts'
import { errorAnswer, guardingHeaders } from './answers.ts'

/** Bytes that are no HTTP at all never reach a route; they still get the envelope. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const late = error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
  const large = error.code === 'HPE_HEADER_OVERFLOW'
  const status = late
    ? '408 Request Timeout'
    : large
      ? '431 Request Header Fields Too Large'
      : '400 Bad Request'
  const code = late ? 'request_timeout' : large ? 'headers_too_large' : 'invalid_http'
  const message = late
    ? 'The request did not arrive in time.'
    : large
      ? 'The headers are larger than 16 KiB.'
      : 'This is no valid HTTP/1.1 request.'
  const requestId = newId('req_')
  const body = JSON.stringify({ success: false, error: { code, message, request_id: requestId } })
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nX-Request-Id: ${requestId}\r\n` +
      'X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n' +
      `Connection: close\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
}

/** `Expect` with anything but `100-continue` comes before any route, too. */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const id = newId('req_')
  const { status, body } = errorAnswer(refuseRequest('expectation_failed'), id)
  response
    .writeHead(status, {
      ...guardingHeaders,
      'content-type': 'application/json; charset=utf-8',
      'x-request-id': id,
      connection: 'close',
    })
    .end(JSON.stringify(body))
}

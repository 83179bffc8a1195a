import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { buildHttp } from '../../src/platform/http/http.ts'

test('a request on a connection from before the door closed is answered like any other', async () => {
  const http = buildHttp({
    access: { identify: () => Promise.reject(new Error('nobody is identified here')) },
    limiter: { admit: async () => ({ admitted: true, remaining: 1, retryAfterSeconds: 1 }) },
    openPrefixes: [],
    onAnswer: () => {},
    onFault: () => {},
  })
  http.get('/known', { config: { access: 'open' } }, async () => ({ success: true, data: {} }))
  await http.listen({ port: 0, host: '127.0.0.1' })
  const arrived = once(http.server, 'connection')
  const socket = connect((http.server.address() as AddressInfo).port, '127.0.0.1')
  await arrived

  const closing = http.close()
  while (http.server.listening) await setImmediate()
  let heard = ''
  socket.on('data', (bytes) => {
    heard += bytes
  })
  socket.write('GET /known HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await once(socket, 'close')
  await closing

  const [head, body] = heard.split('\r\n\r\n')
  expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
  expect(head).toMatch(/^connection: close$/im)
  expect(JSON.parse(body!)).toEqual({ success: true, data: {} })
})

import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { type FetchJson, openFetchJson } from './fetch-json.ts'

const open: { close(): void }[] = []

afterEach(() => {
  for (const one of open.splice(0)) one.close()
})

async function listening<S extends Server>(server: S): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push({
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  })
  return (server.address() as AddressInfo).port
}

async function serve(listener: RequestListener): Promise<string> {
  return `http://127.0.0.1:${await listening(createServer(listener))}/`
}

function client(options: Partial<Parameters<typeof openFetchJson>[0]> = {}): FetchJson {
  const fetchJson = openFetchJson({ timeoutMs: 60_000, ...options })
  open.push(fetchJson)
  return fetchJson
}

/** Gives up soon, for what only a time limit ends; if the machine stands still that long, it is tried again. */
const hasty = { timeoutMs: 200 }
const timed = { retry: 3 }

describe('an answer', () => {
  test('carries status, headers and parsed JSON, and the request its body to the byte', async () => {
    let sent = ''
    const url = await serve((request, response) => {
      request.on('data', (chunk) => {
        sent += `${request.headers['content-type']} ${chunk}`
      })
      request.on('end', () => response.writeHead(418, { 'x-seen': 'yes' }).end('{"a":[1]}'))
    })
    const answer = await client()({ method: 'POST', url, body: '{ "ü": 1 }' })
    expect(answer).toMatchObject({
      kind: 'answered',
      status: 418,
      headers: { 'x-seen': 'yes' },
      body: { a: [1] },
    })
    expect(sent).toBe('application/json { "ü": 1 }')
  })

  test.each(['', '{"cut":', '<html>'])('whose body is %j has no body', async (text) => {
    const url = await serve((_request, response) => response.end(text))
    expect(await client()({ method: 'GET', url })).toMatchObject({
      kind: 'answered',
      status: 200,
      body: undefined,
    })
  })

  test('that redirects is an answer; nobody goes there', async () => {
    let asked = 0
    const url = await serve((request, response) => {
      asked++
      response.writeHead(307, { location: `http://${request.headers.host}/elsewhere` }).end('{}')
    })
    expect(await client()({ method: 'POST', url, body: '{}' })).toMatchObject({
      kind: 'answered',
      status: 307,
    })
    expect(asked).toBe(1)
  })

  test('leaves its connection open for the next call', async () => {
    const ports = new Set<number | undefined>()
    const url = await serve((request, response) => {
      ports.add(request.socket.remotePort)
      response.end('{}')
    })
    const fetchJson = client()
    for (let n = 0; n < 5; n++) await fetchJson({ method: 'GET', url })
    expect(ports.size).toBe(1)
  })
})

describe('nothing was sent', () => {
  test('when nobody listens', async () => {
    const server = createTcpServer()
    const port = await listening(server)
    await new Promise((resolve) => server.close(resolve))
    const url = `http://127.0.0.1:${port}/`
    expect(await client()({ method: 'POST', url, body: '{}' })).toEqual({ kind: 'not_sent' })
  })

  test('when the secure handshake never ends', timed, async () => {
    const port = await listening(createTcpServer(() => {}))
    const url = `https://127.0.0.1:${port}/`
    expect(await client(hasty)({ method: 'POST', url, body: '{}' })).toEqual({ kind: 'not_sent' })
  })

  test('when all connections are busy for too long', timed, async () => {
    let arrived = 0
    const url = await serve(() => {
      arrived++
    })
    const fetchJson = client({ maxConnections: 1 })
    const [first, second] = await Promise.all([
      fetchJson({ method: 'POST', url, body: '{}', timeoutMs: 400 }),
      fetchJson({ method: 'POST', url, body: '{}', timeoutMs: 100 }),
    ])
    expect([first, second]).toEqual([{ kind: 'unknown', why: 'timeout' }, { kind: 'not_sent' }])
    expect(arrived).toBe(1)
  })
})

describe('nobody knows', () => {
  test('when no answer comes in time', timed, async () => {
    const url = await serve(() => {})
    expect(await client(hasty)({ method: 'POST', url, body: '{}' })).toEqual({
      kind: 'unknown',
      why: 'timeout',
    })
  })

  test('when an answer begins and never ends', timed, async () => {
    const url = await serve((_request, response) => {
      response.write('{"a"')
    })
    expect(await client(hasty)({ method: 'GET', url })).toEqual({ kind: 'unknown', why: 'timeout' })
  })

  test('when the connection breaks before the answer', async () => {
    const url = await serve((request) => request.socket.destroy())
    expect(await client()({ method: 'POST', url, body: '{}' })).toEqual({
      kind: 'unknown',
      why: 'broken_off',
    })
  })

  test('when the connection breaks in the middle of the answer', async () => {
    const url = await serve((request, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('{"a":1}', () => request.socket.destroy())
    })
    expect(await client()({ method: 'GET', url })).toEqual({ kind: 'unknown', why: 'broken_off' })
  })

  test('when a connection that was kept breaks under the next call', async () => {
    let calls = 0
    const url = await serve((request, response) => {
      if (++calls === 1) response.end('{}')
      else request.socket.destroy()
    })
    const fetchJson = client()
    await fetchJson({ method: 'GET', url })
    expect(await fetchJson({ method: 'POST', url, body: '{}' })).toEqual({
      kind: 'unknown',
      why: 'broken_off',
    })
    expect(calls).toBe(2)
  })

  test('when the answer is larger than anyone would read', async () => {
    const url = await serve((_request, response) => response.end(JSON.stringify('x'.repeat(2_000))))
    expect(await client({ maxAnswerBytes: 1_000 })({ method: 'GET', url })).toEqual({
      kind: 'unknown',
      why: 'too_large',
    })
  })
})

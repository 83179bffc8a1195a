import { connect, type Socket } from 'node:net'

/**
 * A client in a process of its own, as thin as possible: keep-alive sockets that ask again as soon as they are answered.
 * It is told what to ask by message and answers with requests per second and the statuses it saw.
 */
export type LoadOrder = {
  port: number
  connections: number
  seconds: number
  method: string
  /** `{n}` becomes a number that goes round from 0 to `spread`. */
  path: string
  body?: string
  spread: number
  token?: string
}
export type LoadReport = { perSecond: number; statuses: Record<string, number> }

process.on('message', async (order: LoadOrder) => process.send!(await load(order)))

let next = 0

async function load(order: LoadOrder): Promise<LoadReport> {
  const statuses: Record<string, number> = {}
  let counted = 0
  const startedAt = performance.now()
  const endsAt = startedAt + order.seconds * 1000
  const sockets = await Promise.all(Array.from({ length: order.connections }, () => open(order.port)))
  await Promise.all(
    sockets.map(async (socket) => {
      while (performance.now() < endsAt) {
        const status = await ask(socket, requestOf(order))
        statuses[status] = (statuses[status] ?? 0) + 1
        counted++
      }
      socket.destroy()
    }),
  )
  return { perSecond: counted / ((performance.now() - startedAt) / 1000), statuses }
}

function requestOf({ method, path, body, spread, token }: LoadOrder): string {
  const n = String(next++ % spread)
  const text = body?.replaceAll('{n}', n)
  return [
    `${method} ${path.replaceAll('{n}', n)} HTTP/1.1`,
    'Host: 127.0.0.1',
    ...(token ? [`Authorization: Bearer ${token}`] : []),
    ...(text ? ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(text)}`] : []),
    '',
    text ?? '',
  ].join('\r\n')
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket.setNoDelay(true)))
    socket.on('error', reject)
  })
}

/** Sends one request and waits for the whole answer; answers here always carry a content-length. */
function ask(socket: Socket, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let seen = ''
    const take = (chunk: Buffer) => {
      seen += chunk.toString('latin1')
      const end = seen.indexOf('\r\n\r\n')
      if (end === -1) return
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(seen)?.[1] ?? 0)
      if (seen.length < end + 4 + length) return
      socket.off('data', take)
      socket.off('close', reject)
      resolve(seen.slice(9, 12))
    }
    socket.on('data', take)
    socket.once('close', reject)
    socket.write(request)
  })
}

import { keepAsking } from './keep-asking.ts'

/** A client in a process of its own. It is told by message what to ask, all at once, and answers with what it was answered. */
export type LoadOrder = {
  port: number
  connections: number
  seconds: number
  /** How long a connection waits before it asks again. */
  pauseMs?: number
  method: string
  /** `{n}` becomes a number that goes round from 0 to `spread`, and `{n25}` the same with 25 digits. */
  path: string
  /** `{n}` as in the path, and `{turn}` becomes how often that has gone round. */
  body?: string
  spread: number
  token?: string
}

process.on('message', async (orders: LoadOrder[]) =>
  process.send!(await Promise.all(orders.map((order) => keepAsking(order, () => requestOf(order))))),
)

let next = 0

function requestOf({ method, path, body, spread, token }: LoadOrder): string {
  const turn = String(Math.floor(next / spread))
  const n = String(next++ % spread)
  const text = body?.replaceAll('{n}', n).replaceAll('{turn}', turn)
  return [
    `${method} ${path.replaceAll('{n}', n).replaceAll('{n25}', n.padStart(25, '0'))} HTTP/1.1`,
    'Host: 127.0.0.1',
    ...(token ? [`Authorization: Bearer ${token}`] : []),
    ...(text ? ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(text)}`] : []),
    '',
    text ?? '',
  ].join('\r\n')
}

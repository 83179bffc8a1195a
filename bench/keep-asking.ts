import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export type Asked = {
  readonly perSecond: number
  readonly statuses: Record<string, number>
  /** How long the slowest hundredth of the answers took at least, and the slowest of all. */
  readonly p99Ms: number
  readonly mostMs: number
}

/** A client as thin as possible: kept-alive sockets that each ask again once they are answered, at once or after a pause. */
export async function keepAsking(
  order: {
    readonly port: number
    readonly connections: number
    readonly seconds: number
    readonly pauseMs?: number
  },
  nextRequest: () => string,
): Promise<Asked> {
  const sockets = await Promise.all(Array.from({ length: order.connections }, () => open(order.port)))
  const statuses: Record<string, number> = {}
  const times: number[] = []
  const startedAt = performance.now()
  const endsAt = startedAt + order.seconds * 1000
  await Promise.all(
    sockets.map(async (socket) => {
      while (performance.now() < endsAt) {
        const askedAt = performance.now()
        const status = await ask(socket, nextRequest())
        statuses[status] = (statuses[status] ?? 0) + 1
        times.push(performance.now() - askedAt)
        if (order.pauseMs !== undefined) await sleep(order.pauseMs)
      }
      socket.destroy()
    }),
  )
  const perSecond = times.length / ((performance.now() - startedAt) / 1000)
  times.sort((a, b) => a - b)
  return { perSecond, statuses, p99Ms: times[Math.floor(times.length * 0.99)]!, mostMs: times.at(-1)! }
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
    let head = ''
    let missing: number | undefined
    const take = (chunk: Buffer) => {
      if (missing !== undefined) missing -= chunk.length
      else {
        head += chunk.toString('latin1')
        const end = head.indexOf('\r\n\r\n')
        if (end === -1) return
        const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
        missing = end + 4 + length - head.length
      }
      if (missing > 0) return
      socket.off('data', take)
      socket.off('close', reject)
      resolve(head.slice(9, 12))
    }
    socket.on('data', take)
    socket.once('close', reject)
    socket.write(request)
  })
}

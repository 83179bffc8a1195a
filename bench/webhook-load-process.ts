import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { signStandardWebhook } from '../src/billing/providers/standard-webhooks.ts'

/** A provider in a process of its own that sends signed notifications, each under a new id, over kept-alive sockets. */
export type WebhookOrder = { port: number; path: string; seconds: number; connections: number }
export type WebhookReport = { perSecond: number; statuses: Record<string, number> }

const secret = process.env['WEBHOOK_SECRETS']!

process.on('message', async (order: WebhookOrder) => process.send!(await load(order)))
process.send!({ port: 0 })

async function load(order: WebhookOrder): Promise<WebhookReport> {
  // Signed beforehand: making signatures is not what is measured, and both cores are needed.
  const requests = Array.from({ length: order.seconds * 6_000 }, () => requestTo(order.path))
  const sockets = await Promise.all(Array.from({ length: order.connections }, () => open(order.port)))
  const statuses: Record<string, number> = {}
  let counted = 0
  const startedAt = performance.now()
  const endsAt = startedAt + order.seconds * 1000
  await Promise.all(
    sockets.map(async (socket) => {
      while (performance.now() < endsAt) {
        const status = await ask(socket, requests.pop() ?? requestTo(order.path))
        statuses[status] = (statuses[status] ?? 0) + 1
        counted++
      }
      socket.destroy()
    }),
  )
  return { perSecond: counted / ((performance.now() - startedAt) / 1000), statuses }
}

function requestTo(path: string): string {
  const id = randomBytes(12).toString('hex')
  const body = JSON.stringify({
    type: 'payment.paid',
    timestamp: '2026-11-15T00:00:00.000Z',
    data: { reference: `pay_${id}` },
  })
  const signed = signStandardWebhook(secret, `evt_${id}`, Buffer.from(body), new Date())
  const headers = Object.entries(signed).map(([name, value]) => `${name}: ${value}`)
  return [
    `POST ${path} HTTP/1.1`,
    'Host: 127.0.0.1',
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    ...headers,
    '',
    body,
  ].join('\r\n')
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket.setNoDelay(true)))
    socket.on('error', reject)
  })
}

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

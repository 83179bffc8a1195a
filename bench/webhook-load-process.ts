import { randomBytes } from 'node:crypto'
import { signStandardWebhook } from '../test/sign-webhook.ts'
import { type Asked, keepAsking } from './keep-asking.ts'

/** A provider in a process of its own that sends signed notifications, each under a new id, over kept-alive sockets. */
export type WebhookOrder = { port: number; path: string; seconds: number; connections: number }

const secret = process.env['WEBHOOK_SECRETS']!

process.on('message', async (order: WebhookOrder) => process.send!(await load(order)))
process.send!({ port: 0 })

async function load(order: WebhookOrder): Promise<Asked> {
  // Signed beforehand: making signatures is not what is measured, and both cores are needed.
  const requests = Array.from({ length: order.seconds * 6_000 }, () => requestTo(order.path))
  return keepAsking(order, () => requests.pop() ?? requestTo(order.path))
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

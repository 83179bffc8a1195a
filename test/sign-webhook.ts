import { createHmac } from 'node:crypto'

/** The three headers of a notification as a provider of the Standard Webhooks makes them, written without our verifier. */
export function signStandardWebhook(
  secret: string,
  id: string,
  body: Buffer,
  now: Date,
): Record<string, string> {
  const timestamp = String(Math.floor(now.getTime() / 1000))
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}

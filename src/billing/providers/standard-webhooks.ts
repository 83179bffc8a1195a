import { createHmac, timingSafeEqual } from 'node:crypto'
import type { VerifiedWebhook, WebhookDelivery } from './port.ts'

// Reference implementations allow five minutes both ways.
const toleranceSeconds = 300
const mostSignatures = 16

/**
 * Verifies a notification by Standard Webhooks 1.0: HMAC-SHA256 over `{id}.{timestamp}.{raw body}`, any signature of
 * the list by any of the secrets. Undefined: not authentic, or not of now.
 */
export function verifyStandardWebhook({
  headers,
  body,
  secrets,
  now,
}: WebhookDelivery): VerifiedWebhook | undefined {
  const id = matching(headers['webhook-id'], /^[\x21-\x2b\x2d\x2f-\x7e]{1,255}$/)
  const timestamp = matching(headers['webhook-timestamp'], /^\d{1,12}$/)
  // Padding only at the end: what stands behind it would be skipped unread.
  const list = matching(
    headers['webhook-signature'],
    /^\w+,[A-Za-z0-9+/_-]+={0,2}(?: \w+,[A-Za-z0-9+/_-]+={0,2})*$/,
  )
  if (id === undefined || timestamp === undefined || list === undefined) return undefined
  if (Math.abs(now.getTime() / 1000 - Number(timestamp)) > toleranceSeconds) return undefined

  const signatures = list.split(' ').filter((item) => item.startsWith('v1,'))
  if (signatures.length > mostSignatures) return undefined
  // Every pair is compared, so that the time taken tells nothing about which one matched.
  let authentic = false
  for (const secret of secrets) {
    const expected = digest(secret, id, timestamp, body)
    for (const signature of signatures) {
      const given = Buffer.from(signature.slice(3), 'base64')
      if (expected && given.length === expected.length && timingSafeEqual(given, expected)) authentic = true
    }
  }
  return authentic ? { eventId: id } : undefined
}

/**
 * A header that stands twice arrives as a list, or joined by a comma, which neither an id nor a timestamp nor the end of
 * a signature may hold: all of these are refused, because it is not clear which one was signed.
 */
function matching(header: string | string[] | undefined, form: RegExp): string | undefined {
  return typeof header === 'string' && form.test(header) ? header : undefined
}

/** An empty or very short key would let anyone sign, so there is no digest for it. */
function digest(secret: string, id: string, timestamp: string, body: Buffer): Buffer | undefined {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  if (key.length < 16) return undefined
  return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
}

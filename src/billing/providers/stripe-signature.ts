import { createHmac, timingSafeEqual } from 'node:crypto'
import type { WebhookDelivery } from './port.ts'

const toleranceSeconds = 300
const mostSignatures = 16

/**
 * Verifies `Stripe-Signature: t=…,v1=…`: HMAC-SHA256 in hex over `{t}.{raw body}`, any `v1` by any of the secrets. The
 * key is the whole secret as text, `whsec_` included; unlike Standard Webhooks it is not decoded.
 */
export function verifyStripeSignature({ headers, body, secrets, now }: WebhookDelivery): boolean {
  const header = headers['stripe-signature']
  if (typeof header !== 'string') return false
  const items = header.split(',').map((item) => item.trim())
  const times = valuesOf(items, 't')
  const signatures = valuesOf(items, 'v1')
  // A header that stands twice arrives joined and names two times: it is not clear which one was signed.
  const [timestamp] = times
  if (timestamp === undefined || times.length > 1 || !/^\d{1,12}$/.test(timestamp)) return false
  if (signatures.length > mostSignatures) return false
  // Stripe's own verifier lets future times pass; ours does not.
  if (Math.abs(now.getTime() / 1000 - Number(timestamp)) > toleranceSeconds) return false

  let authentic = false
  for (const secret of secrets) {
    const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest()
    for (const signature of signatures) {
      const given = /^[0-9a-f]{64}$/.test(signature) ? Buffer.from(signature, 'hex') : undefined
      if (secret !== '' && given && timingSafeEqual(given, expected)) authentic = true
    }
  }
  return authentic
}

function valuesOf(items: readonly string[], name: string): string[] {
  return items.filter((item) => item.startsWith(`${name}=`)).map((item) => item.slice(name.length + 1))
}

import { parseJson } from '../../../platform/http/json-body.ts'
import type { WebhookHint } from '../port.ts'
import { nameIn } from './stripe-payments.ts'

/** The intent that an object of Stripe is, or belongs to. */
export function intentIn(object: unknown): string | null {
  if (textAt(object, 'object') === 'payment_intent') return textAt(object, 'id') ?? null
  return textAt(object, 'payment_intent') ?? null
}

export function readHint(body: unknown): WebhookHint {
  const object = fieldAt(fieldAt(body, 'data'), 'object')
  const reference = nameIn(fieldAt(object, 'metadata'), 'payment')
  return {
    type: textAt(body, 'type') ?? 'unknown',
    reference,
    providerId: reference === null && isOfAnotherShop(object) ? null : intentIn(object),
    live: liveIn(body),
  }
}

/** An intent of ours names its order from the start, and Stripe copies that onto its charges; refunds and disputes carry nothing. */
function isOfAnotherShop(object: unknown): boolean {
  const kind = textAt(object, 'object')
  return kind === 'payment_intent' || kind === 'charge'
}

function liveIn(body: unknown): boolean | null {
  const live = fieldAt(body, 'livemode')
  return typeof live === 'boolean' ? live : null
}

export function parsed(body: Buffer): unknown {
  try {
    return parseJson(body.toString('utf8'))
  } catch {
    return undefined
  }
}

function fieldAt(body: unknown, name: string): unknown {
  return (body as Record<string, unknown> | null | undefined)?.[name]
}

export function textAt(body: unknown, name: string): string | undefined {
  const value = fieldAt(body, name)
  return typeof value === 'string' ? value : undefined
}

import type { Card } from '../port.ts'

/**
 * A stored card of Toss: the billing key, the customer key without which it cannot be charged, and what may be shown of
 * the card, because Toss tells that only once. Billing keeps it as one sealed text.
 */
export type TossBillingKey = {
  readonly billingKey: string
  /** Undefined: it came without one, and the account's id is tried. */
  readonly customerKey: string | undefined
  readonly card: Card | undefined
}

const customerKey = '[A-Za-z0-9_=.,@-]{2,300}'
export const customerKeyPattern = new RegExp(`^${customerKey}$`)
const whole = new RegExp(`^toss:(${customerKey}):([a-z0-9_]*):([0-9*]{0,4}):([^]+)$`)
const pair = new RegExp(`^(${customerKey}):([^]+)$`)

export function packBillingKey(key: { billingKey: string; customerKey: string; card: Card }): string {
  return `toss:${key.customerKey}:${key.card.brand}:${key.card.last4}:${key.billingKey}`
}

/** Also reads `customerKey:billingKey`, and a billing key alone. Undefined: Toss gives out no such key. */
export function unpackBillingKey(text: string): TossBillingKey | undefined {
  const key = split(text)
  return /^[\x21-\x7e]{2,200}$/.test(key.billingKey) && !/^\.{1,2}(\/|$)/.test(key.billingKey)
    ? key
    : undefined
}

function split(text: string): TossBillingKey {
  const [, owner, brand = '', last4 = '', billingKey] = whole.exec(text) ?? []
  if (owner !== undefined && billingKey !== undefined) {
    return { billingKey, customerKey: owner, card: { brand, last4, expires: '' } }
  }
  const [, customer, rest] = pair.exec(text) ?? []
  return { billingKey: rest ?? text, customerKey: customer, card: undefined }
}

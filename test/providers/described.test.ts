import { expect, test } from 'vitest'
import { portoneWire } from '../../src/sandbox/portone/portone-wire.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import type { Wire } from '../../src/sandbox/wire.ts'
import { openProviderWorld } from '../sandbox/open-provider.ts'
import { faultsIn, readDescription, typeOfAnswer } from './described.ts'

// The description of each provider is what judges its simulator, so it has to see whatever is wrong with an answer.

const form = 'application/x-www-form-urlencoded'
const json = 'application/json'
type Charge = { wire: Wire; call: string; path: string; authorization: string; type: string; body: string }

const charges: readonly Charge[] = [
  {
    wire: stripeWire,
    call: 'POST /v1/payment_intents',
    path: '/v1/payment_intents',
    authorization: 'Bearer sk_test_x',
    type: form,
    body: 'amount=9900&currency=krw&payment_method=pm_card_visa&confirm=true&expand[0]=latest_charge.refunds&expand[1]=latest_charge',
  },
  {
    wire: tossWire,
    call: 'POST /v1/billing/:key',
    path: '/v1/billing/bk_test_ok',
    authorization: `Basic ${btoa('test_sk_x:')}`,
    type: json,
    body: JSON.stringify({ amount: 9900, customerKey: 'customer', orderId: 'order-1', orderName: 'Pro' }),
  },
  {
    wire: portoneWire,
    call: 'GET /payments/:id',
    path: '/payments/payment-1/billing-key',
    authorization: 'PortOne x',
    type: json,
    body: JSON.stringify({
      billingKey: 'bk_test_ok',
      orderName: 'Pro',
      amount: { total: 9900 },
      currency: 'KRW',
    }),
  },
]

test.each(charges)('the description of $wire.name sees every wound of an answer', async (charge) => {
  const world = await openProviderWorld({ wire: charge.wire })
  try {
    const headers = { authorization: charge.authorization, 'content-type': charge.type }
    const ask = async (path: string, body?: string) => {
      const answer = await fetch(world.sandbox.url + path, {
        method: body === undefined ? 'GET' : 'POST',
        headers,
        ...(body !== undefined && { body }),
      })
      expect(answer.status).toBe(200)
      return answer.json()
    }
    const charged = await ask(charge.path, charge.body)
    const payment = charge.wire.name === 'portone' ? await ask('/payments/payment-1') : charged
    const description = readDescription(charge.wire.name)
    const type = typeOfAnswer(description, charge.call, 200)!
    const faults = (value: unknown) => faultsIn(description, type, value)
    expect(faults(payment)).toEqual([])

    const optional = new Set(
      Object.values(description.types)
        .flatMap(Object.keys)
        .filter((name) => name.endsWith('?'))
        .map((name) => name.slice(0, -1)),
    )
    const unseen: string[] = []
    for (const place of placesIn(payment)) {
      const name = place.at(-1)!
      const wounds: [string, unknown][] = [
        ['an unknown field beside it', wounded(payment, [...place.slice(0, -1), 'never_heard_of'], true)],
        ['another kind of value', wounded(payment, place, [{ never: 'heard of' }])],
      ]
      if (!optional.has(name)) wounds.push(['nothing at all', wounded(payment, place, undefined)])
      for (const [what, wound] of wounds)
        if (faults(wound).length === 0) unseen.push(`${place.join('.')}: ${what}`)
    }
    expect(unseen).toEqual([])
  } finally {
    await world.close()
  }
})

test('what is answered at a status that nobody describes is a fault, and so is no JSON', async () => {
  const description = readDescription('portone')
  expect(typeOfAnswer(description, 'GET /payments/:id', 418)).toBeUndefined()
  expect(typeOfAnswer(description, 'GET /payments/:id', 404)).toBe('PaymentNotFoundError')
  const error = { type: 'PAYMENT_NOT_FOUND', message: 'x' }
  expect(faultsIn(description, 'PaymentNotFoundError', error)).toEqual([])
  expect(faultsIn(description, 'PaymentNotFoundError', { ...error, type: 'NOT_FOUND' })).toHaveLength(1)
})

test('a simulator that speaks otherwise than its provider fails whatever test it plays in', async () => {
  const wire: Wire = {
    ...tossWire,
    routes(http, context, keys) {
      http.addHook('preSerialization', async (_request, _reply, answer) => ({
        ...(answer as object),
        odd: 1,
      }))
      tossWire.routes(http, context, keys)
    },
  }
  const world = await openProviderWorld({ wire })
  await fetch(`${world.sandbox.url}/v1/payments/nobody`, {
    headers: { authorization: `Basic ${btoa('test_sk_x:')}` },
  })
  await expect(world.close()).rejects.toThrow('GET /v1/payments/:id 404: .odd is unknown to Failure')
})

/** The way to every field of a value, however deep. */
function placesIn(value: unknown, at: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => {
    const place = [...at, name]
    return [...(Array.isArray(value) ? [] : [place]), ...placesIn(inner, place)]
  })
}

/** A copy with something else at one place; undefined takes the field away. */
function wounded(value: unknown, [name, ...rest]: readonly string[], wound: unknown): unknown {
  const copy = structuredClone(value) as Record<string, unknown>
  if (rest.length > 0) copy[name!] = wounded(copy[name!], rest, wound)
  else if (wound === undefined) delete copy[name!]
  else copy[name!] = wound
  return copy
}

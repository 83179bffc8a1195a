import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import Stripe from 'stripe'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { declineCodes, isHard, type Provider } from '../../src/billing/providers/port.ts'
import { stripeProvider } from '../../src/billing/providers/stripe/stripe.ts'
import {
  fromStripeAmount,
  stripeCurrencies,
  toStripeAmount,
} from '../../src/billing/providers/stripe/stripe-amounts.ts'
import { declineOf } from '../../src/billing/providers/stripe/stripe-declines.ts'
import { searchLagMs } from '../../src/sandbox/stripe/stripe-intent-routes.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'

const won = (minor: bigint) => ({ minor, currency: 'KRW' as const })
let made = 0
const newKey = () => `rl_${(++made).toString(16).padStart(40, '0')}`
const chargeOf = (billingKey: string, key = newKey()) => ({
  key,
  accountId: `acct_${key}`,
  amount: won(9900n),
  billingKey,
  description: 'Pro',
})

describe('amounts', () => {
  test.each([
    [{ minor: 9900n, currency: 'KRW' }, 9900],
    [{ minor: 1999n, currency: 'USD' }, 1999],
    [{ minor: 500n, currency: 'ISK' }, 50_000],
    [{ minor: 5_000n, currency: 'MGA' }, 50],
    [{ minor: 12_340n, currency: 'KWD' }, 12_340],
    [{ minor: 150_000_000n, currency: 'IDR' }, 150_000_000],
    [{ minor: 999_999_999_999n, currency: 'USD' }, 999_999_999_999],
    [{ minor: 9_999_999_999n, currency: 'ISK' }, 999_999_999_900],
    [{ minor: 99_999_999_999_900n, currency: 'MGA' }, 999_999_999_999],
  ] as const)('%o is sent as %d and read back', (money, amount) => {
    expect(toStripeAmount(money)).toBe(amount)
    expect(fromStripeAmount(amount, money.currency.toLowerCase())).toEqual(money)
  })

  test.each([
    { minor: 12_345n, currency: 'KWD' },
    { minor: 5_001n, currency: 'MGA' },
    { minor: 1_000_000_000_000n, currency: 'USD' },
    { minor: 1_000_000_000_000n, currency: 'IDR' },
    { minor: 10_000_000_000n, currency: 'ISK' },
    { minor: 0n, currency: 'USD' },
    { minor: 1_000n, currency: 'UGX' },
  ] as const)('%o cannot be asked for', (money) => {
    expect(toStripeAmount(money)).toBeUndefined()
  })

  test('no currency is on the list whose unit is in doubt', () => {
    for (const currency of ['UGX', 'IQD', 'LYD']) expect(stripeCurrencies.has(currency)).toBe(false)
    expect(fromStripeAmount(150, 'isk')).toBeUndefined()
    expect(fromStripeAmount(1.5, 'usd')).toBeUndefined()
    expect(fromStripeAmount(1, 'xyz')).toBeUndefined()
  })
})

describe('declines', () => {
  test.each([
    ['card_declined', 'insufficient_funds', 'insufficient_funds', 'soft'],
    ['card_declined', 'generic_decline', 'do_not_honor', 'soft'],
    ['card_declined', 'card_velocity_exceeded', 'limit_exceeded', 'soft'],
    ['expired_card', 'expired_card', 'expired_card', 'hard'],
    ['card_declined', 'stolen_card', 'lost_or_stolen', 'hard'],
    ['card_declined', 'fraudulent', 'lost_or_stolen', 'hard'],
    ['incorrect_cvc', 'incorrect_cvc', 'invalid_card', 'hard'],
    ['card_declined', 'stop_payment_order', 'invalid_card', 'hard'],
    ['card_declined', 'transaction_not_allowed', 'not_supported', 'hard'],
    ['processing_error', undefined, 'processing_error', 'soft'],
    ['card_declined', 'something_new', 'unknown', 'soft'],
    ['card_declined', 'constructor', 'unknown', 'soft'],
    ['card_declined', '4242 4242 4242 4242', 'unknown', 'soft'],
  ])('%s / %s is %s, %s', (code, decline_code, ours, weight) => {
    const decline = declineOf({ code, decline_code })
    expect(decline.code).toBe(ours)
    expect(declineCodes).toContain(decline.code)
    expect(isHard(decline.code)).toBe(weight === 'hard')
    expect(decline.raw).toMatch(/^[a-z0-9_]+$/)
  })
})

describe('what the issuer advises', () => {
  const declined = (advice_code: string, more: object) =>
    declineOf({ code: 'card_declined', advice_code, ...more })

  test.each([
    ['do_not_try_again', 'generic_decline', 'invalid_card'],
    ['do_not_try_again', 'insufficient_funds', 'invalid_card'],
    ['do_not_try_again', 'something_new', 'invalid_card'],
    ['do_not_try_again', 'stolen_card', 'lost_or_stolen'],
    ['do_not_try_again', 'authentication_required', 'authentication_required'],
    ['try_again_later', 'generic_decline', 'do_not_honor'],
    ['try_again_later', 'stolen_card', 'lost_or_stolen'],
    ['confirm_card_data', 'expired_card', 'expired_card'],
    ['something_new', 'generic_decline', 'do_not_honor'],
  ])('%s of %s makes it %s, and the reason stays', (advice, decline_code, code) => {
    expect(declined(advice, { decline_code })).toEqual({ code, raw: decline_code })
  })
})

describe('notifications', () => {
  const provider = stripeProvider({ secretKey: 'sk_test_x', timeoutMs: 1000 })
  const body = Buffer.from(
    '{"id":"evt_1","object":"event","type":"payment_intent.succeeded","data":{"object":{"id":"pi_1"}}}',
  )
  const now = new Date(1_700_000_000_000)
  const good = 'v1=fefc9f342c93756902ead65ee7eabe2a78fcb81640dbc0b9b696542391939af2'
  const old = 'v1=132c4a4e331efe070705034b0e136bb09e3160eb845a98c163ecbdf9e329f17f'
  const verify = (header: string, secrets = ['whsec_test_secret'], at = now) =>
    provider.verifyWebhook({ headers: { 'stripe-signature': header }, body, secrets, now: at })

  test('the published vectors are authentic', () => {
    const authentic = { eventId: 'evt_1', message: JSON.parse(body.toString()) }
    expect(verify(`t=1700000000,${good}`)).toEqual(authentic)
    expect(verify(`t=1700000000,${old},${good},v0=ignored`)).toEqual(authentic)
    expect(verify(`t=1700000000,${old}`, ['whsec_test_secret', 'whsec_old_secret'])).toEqual(authentic)
  })

  test('times are borne with for 300 seconds, both ways', () => {
    const at = (seconds: number) => new Date(now.getTime() + seconds * 1000)
    for (const off of [300, -300]) expect(verify(`t=1700000000,${good}`, undefined, at(off))).toBeDefined()
    for (const off of [301, -301]) expect(verify(`t=1700000000,${good}`, undefined, at(off))).toBeUndefined()
    expect(verify(`t=1700000001,${good}`)).toBeUndefined()
    expect(verify(`t=1700000000,${old}`)).toBeUndefined()
  })

  test('real money under a test key is told', () => {
    const event = { type: 'payment_intent.succeeded', livemode: true, data: { object: {} } }
    expect(provider.readWebhook(event)).toMatchObject({ live: true })
  })
})

describe('answers as they may come', () => {
  let server: Scripted
  let provider: Provider
  beforeAll(async () => {
    server = await openScripted()
    provider = stripeProvider({ secretKey: 'sk_test_planted_key', baseUrl: server.url, timeoutMs: 60_000 })
  })
  afterAll(() => server.close())

  const intent = (more: object = {}, metadata: object = {}) => ({
    id: 'pi_1',
    object: 'payment_intent',
    amount: 9900,
    amount_received: 9900,
    currency: 'krw',
    status: 'succeeded',
    livemode: false,
    created: 1_700_000_000,
    client_secret: 'pi_1_secret_planted',
    last_payment_error: null,
    latest_charge: null,
    metadata: { order_id: 'pay_scripted', ...metadata },
    ...more,
  })
  const charge = () => provider.charge(chargeOf('cus_planted:pm_planted', 'pay_scripted'))
  const error = (status: number, body: object) => () => ({ status, body: { error: body } })
  const invalid = { type: 'invalid_request_error', message: 'planted' }
  const aRefund = {
    key: 'ref_1',
    payment: { reference: 'pay_scripted', providerId: 'pi_1' },
    reason: 'planted',
  }

  // Of each: its status, its amount, and what was booked about it at the shop's account, in the currency of that.
  test.each<[string, [status: string, amount: number, ...booked: number[]][], object | null]>([
    [
      'one that is open and has taken nothing yet',
      [['needs_response', 9900]],
      { status: 'open', amount: won(9900n) },
    ],
    [
      'one that is open and has taken its money',
      [['needs_response', 9900, -713]],
      { status: 'open', amount: won(9900n), closedAt: null, alreadyLost: won(9900n) },
    ],
    [
      'two that are open, of which one has taken its money',
      [
        ['under_review', 2000],
        ['needs_response', 5000, -360],
      ],
      { status: 'open', amount: won(2000n), alreadyLost: won(5000n) },
    ],
    [
      'one that is contested again after it was won',
      [['appeal_needs_response', 9900, -713, 711, -713]],
      { status: 'open', alreadyLost: won(9900n) },
    ],
    [
      'one that was won, at another rate',
      [['won', 9900, -713, 711]],
      { status: 'won', amount: won(9900n), closedAt: new Date(1_700_009_002_000) },
    ],
    [
      'one that was won and has not given its money back yet',
      [['won', 9900, -713]],
      { status: 'won', amount: won(9900n), alreadyLost: won(9900n) },
    ],
    ['one that was lost', [['lost', 9900, -713]], { status: 'lost', amount: won(9900n) }],
    [
      'a newer one, open while the first is lost',
      [
        ['needs_response', 2000],
        ['lost', 5000],
      ],
      { status: 'open', amount: won(2000n), closedAt: null, alreadyLost: won(5000n) },
    ],
    [
      'an older one, open with its money taken while the newer is lost',
      [
        ['lost', 5000, -360],
        ['under_review', 2000, -144],
      ],
      { status: 'open', amount: won(2000n), alreadyLost: won(7000n) },
    ],
    [
      'two that were lost',
      [
        ['lost', 2000],
        ['lost', 5000],
      ],
      { status: 'lost', amount: won(7000n) },
    ],
    [
      'a newer one that was won after one that was lost',
      [
        ['won', 2000, -144, 144],
        ['lost', 5000, -360],
      ],
      { status: 'lost', amount: won(5000n) },
    ],
    [
      'a warning after one that was won',
      [
        ['warning_closed', 2000],
        ['won', 5000],
      ],
      { status: 'won', amount: won(5000n) },
    ],
    ['an inquiry, which takes nothing', [['warning_needs_response', 9900, -713]], null],
  ])('of its disputes, newest first, %s', async (_what, told, dispute) => {
    const data = told.map(([status, amount, ...booked], at) => ({
      object: 'dispute',
      status,
      amount,
      currency: 'krw',
      created: 1_700_009_000 - at * 1000,
      balance_transactions: booked.map((minor, nth) => ({
        object: 'balance_transaction',
        amount: minor,
        currency: 'usd',
        created: 1_700_009_000 - at * 1000 + nth + 1,
      })),
    }))
    const latest_charge = { object: 'charge', disputed: true, amount_refunded: 0, currency: 'krw' }
    server.answer(({ url }) => ({
      status: 200,
      body: url?.startsWith('/v1/disputes')
        ? { object: 'list', data, has_more: false }
        : intent({ latest_charge }),
    }))
    const lookup = await provider.findPayment('pay_scripted', 'pi_1')
    expect(lookup).toMatchObject({ kind: 'found', payment: { dispute } })
    const found = lookup.kind === 'found' ? lookup.payment.dispute : null
    expect(found?.alreadyLost).toEqual((dispute as { alreadyLost?: object } | null)?.alreadyLost)
  })

  test('a card that shall not be tried again is declined for good, by the answer as by a lookup', async () => {
    const decline = {
      code: 'card_declined',
      decline_code: 'generic_decline',
      advice_code: 'do_not_try_again',
    }
    const last_payment_error = { type: 'card_error', ...decline }
    const left = intent({ status: 'requires_payment_method', last_payment_error })
    server.answer(error(402, { type: 'card_error', ...decline, payment_intent: left }))
    expect(await charge()).toEqual({ kind: 'declined', code: 'invalid_card', raw: 'generic_decline' })
    server.answer(() => ({ status: 200, body: intent({ status: 'canceled', last_payment_error }) }))
    expect(await provider.findPayment('pay_scripted', 'pi_1')).toMatchObject({
      payment: { status: 'declined', declineCode: 'invalid_card', rawCode: 'generic_decline' },
    })
  })

  test('a clock that is off is told by the time on the answer', async () => {
    const date = new Date(Date.now() - 3_600_000).toUTCString()
    server.answer(() => ({ status: 200, body: { object: 'list', data: [] }, headers: { date } }))
    const lines = await provider.check(new Date(Date.parse(date)))
    expect(lines.filter(({ ok }) => !ok).map(({ subject }) => subject)).toEqual(['clock', 'webhook_secret'])
  })

  test.each([
    ['409', error(409, { type: 'idempotency_error', code: 'idempotency_key_in_use' }), 'unknown'],
    ['a lock', error(429, { ...invalid, code: 'lock_timeout' }), 'unknown'],
    ['the rate limit', error(429, { ...invalid, code: 'rate_limit' }), 'not_sent'],
    ['500', error(500, { type: 'api_error' }), 'unknown'],
    ['401', error(401, invalid), 'credentials_refused'],
    ['403', error(403, invalid), 'credentials_refused'],
    ['another request', error(400, { type: 'idempotency_error' }), 'key_used_otherwise'],
    ['HTML', () => ({ status: 502, body: '<html>bad gateway</html>' }), 'unknown'],
    ['HTML that says 401', () => ({ status: 401, body: '<html>proxy</html>' }), 'unknown'],
    [
      'a redirect',
      () => ({ status: 307, body: {}, headers: { location: 'http://127.0.0.1:1/' } }),
      'unknown',
    ],
    [
      'an intent that is being processed',
      () => ({ status: 200, body: intent({ status: 'processing' }) }),
      'unknown',
    ],
    ['a status nobody knows', () => ({ status: 200, body: intent({ status: 'paused' }) }), 'unknown'],
    ['real money', () => ({ status: 200, body: intent({ livemode: true }) }), 'mismatch'],
    ['another order', () => ({ status: 200, body: intent({}, { order_id: 'pay_other' }) }), 'mismatch'],
    ['less money', () => ({ status: 200, body: intent({ amount_received: 9899 }) }), 'mismatch'],
    ['something else', () => ({ status: 200, body: { object: 'charge' } }), 'mismatch'],
    ['paid', () => ({ status: 200, body: intent() }), 'done'],
    ['a card that is none', error(400, { ...invalid, param: 'payment_method' }), 'refused'],
    ['a 402 of no card', error(402, invalid), 'refused'],
    [
      'a decline of another order',
      error(402, {
        type: 'card_error',
        code: 'card_declined',
        payment_intent: intent({}, { order_id: 'x' }),
      }),
      'mismatch',
    ],
  ])('%s: %#', async (_what, answer, kind) => {
    server.answer(answer)
    const outcome = await charge()
    expect(outcome.kind).toBe(kind)
    expect(JSON.stringify(outcome, (_k, v) => (typeof v === 'bigint' ? `${v}` : v))).not.toContain('planted')
  })

  test.each([
    [{ code: 'parameter_unknown', param: 'foo' }, 'parameter_unknown'],
    [{ param: 'amount' }, 'invalid_request_error'],
  ])('a request refused with %j is told with its code', async (more, raw) => {
    server.answer(error(400, { ...invalid, ...more }))
    expect(await charge()).toEqual({ kind: 'refused', code: 'provider_error', raw })
    server.answer(error(400, { ...invalid, param: 'payment_method' }))
    expect(await charge()).toEqual({ kind: 'refused', code: 'billing_key_invalid' })
  })

  describe.each([
    ['lock_timeout', 'unknown'],
    ['idempotency_key_in_use', 'unknown'],
    ['rate_limit', 'not_sent'],
    ['payment_method_provider_timeout', 'unknown'],
    ['testmode_charges_only', 'credentials_refused'],
  ])('%s says nothing of a card or request, whatever it comes with', (code, kind) => {
    const types = ['invalid_request_error', 'idempotency_error', 'api_error', 'card_error']
    const cases = [400, 402, 404, 409, 429].flatMap((status) => types.map((type) => [status, type] as const))

    test.each(cases)('%i %s', async (status, type) => {
      server.answer(error(status, { type, code }))
      expect(await charge()).toEqual({ kind })
      server.answer(error(status, { type, code, param: 'amount' }))
      const refund = { ...aRefund, amount: won(1n), remaining: won(2n) }
      expect(await provider.refund(refund)).toEqual({ kind })
      server.answer(error(status, { type, code, param: 'payment_method' }))
      expect(await provider.exchange('pm_planted', 'cus_planted')).toEqual({ kind })
      expect(await provider.forget('cus_planted:pm_planted')).toEqual({ kind })
    })
  })

  test('a reset is unknown, and nothing was sent twice', async () => {
    server.answer((request) => {
      request.socket.resetAndDestroy()
      return undefined
    })
    expect(await charge()).toEqual({ kind: 'unknown' })
    expect(server.seen()).toHaveLength(1)
  })

  test('an answer that drips is cut off as a whole', async () => {
    server.answer((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      const timer = setInterval(() => response.write(' '), 50)
      response.on('close', () => clearInterval(timer))
      return undefined
    })
    const hasty = stripeProvider({ secretKey: 'sk_test_planted_key', baseUrl: server.url, timeoutMs: 400 })
    // Without an end to the whole it would go on for as long as the test may.
    expect(await hasty.charge(chargeOf('cus_planted:pm_planted', 'pay_scripted'))).toEqual({
      kind: 'unknown',
    })
  })

  test('what is sent is pinned, keyed and the same every time', async () => {
    server.answer(() => ({ status: 200, body: intent() }))
    await charge()
    await charge()
    const [first, second] = server.seen()
    expect(first).toEqual(second)
    expect(first).toMatchObject({
      path: '/v1/payment_intents',
      headers: {
        authorization: 'Bearer sk_test_planted_key',
        'stripe-version': '2026-10-28.endive',
        'idempotency-key': 'pay_scripted',
      },
    })
    expect(Object.fromEntries(new URLSearchParams(first!.body))).toMatchObject({
      amount: '9900',
      currency: 'krw',
      customer: 'cus_planted',
      payment_method: 'pm_planted',
      off_session: 'true',
      confirm: 'true',
      'metadata[order_id]': 'pay_scripted',
    })
  })

  test.each([
    ['charge_disputed', { code: 'charge_disputed' }, 'disputed'],
    ['already refunded', { code: 'charge_already_refunded' }, 'remaining_differs'],
    ['more than remains', { param: 'amount' }, 'remaining_differs'],
    ['anything else', { code: 'something_new' }, 'unknown'],
  ])('a refund refused as %s is %#', async (_what, more, kind) => {
    server.answer(error(400, { ...invalid, ...more }))
    const refund = { ...aRefund, amount: won(1n), remaining: won(2n) }
    expect(await provider.refund(refund)).toEqual({ kind })
  })

  test('a refund of more than we believe is left ourselves is declined', async () => {
    server.answer(error(400, { ...invalid, param: 'amount' }))
    const refund = { ...aRefund, amount: won(3n), remaining: won(2n) }
    expect(await provider.refund(refund)).toEqual({ kind: 'declined' })
  })

  describe('a setup whose customer is gone', () => {
    const noSuchCustomer = { ...invalid, code: 'resource_missing', param: 'customer' }
    const asked = { setupId: 'setup_1', accountId: 'a', customerKey: 'cus_gone', email: null }
    /** As Stripe may: also what it refused is bound to its key. */
    const answer = (known: readonly string[]) => {
      const keys = new Map<string, string>()
      server.answer(({ url, headers }, _response, body) => {
        const key = String(headers['idempotency-key'])
        if ((keys.get(key) ?? url + body) !== url + body)
          return { status: 400, body: { error: { type: 'idempotency_error' } } }
        keys.set(key, url + body)
        if (url === '/v1/customers') return { status: 200, body: { id: 'cus_new' } }
        const customer = new URLSearchParams(body).get('customer')!
        if (!known.includes(customer)) return { status: 400, body: { error: noSuchCustomer } }
        return { status: 200, body: { id: 'seti_1', client_secret: `secret of ${customer} under ${key}` } }
      })
    }

    test('is made for a new one, and a repeat comes to the same, also once that one is known', async () => {
      answer(['cus_new'])
      const first = await provider.setUp(asked)
      expect(first).toMatchObject({ kind: 'done', customerKey: 'cus_new', client: { customer: 'cus_new' } })
      expect(await provider.setUp(asked)).toEqual(first)
      expect(await provider.setUp({ ...asked, customerKey: 'cus_new' })).toEqual(first)
    })

    test('is asked for once more and no further', async () => {
      answer([])
      expect(await provider.setUp(asked)).toEqual({ kind: 'refused' })
      const paths = server.seen().map(({ path }) => path)
      expect(paths).toEqual(['/v1/setup_intents', '/v1/customers', '/v1/setup_intents'])
      expect(await provider.setUp({ ...asked, customerKey: null })).toEqual({ kind: 'refused' })
    })

    test('whatever else is refused or unclear makes no customer', async () => {
      for (const [status, body, kind] of [
        [400, { ...invalid, param: 'usage' }, 'refused'],
        [404, { ...invalid, code: 'resource_missing', param: 'intent' }, 'refused'],
        [500, { type: 'api_error' }, 'unknown'],
      ] as const) {
        server.answer(error(status, body))
        expect(await provider.setUp(asked)).toEqual({ kind })
        expect(server.seen()).toHaveLength(1)
      }
    })
  })

  test('an id that we know and Stripe does not is a contradiction, never "none"', async () => {
    server.answer(error(404, { ...invalid, code: 'resource_missing' }))
    expect(await provider.findPayment('pay_scripted', 'pi_1')).toEqual({ kind: 'mismatch' })
  })
})

describe('customers, authentication and cards over the simulator', () => {
  let world: ProviderWorld
  let provider: Provider
  let browser: Stripe

  beforeAll(async () => {
    world = await openProviderWorld({ wire: stripeWire })
    provider = stripeProvider({
      secretKey: 'sk_test_adapter',
      baseUrl: world.sandbox.url,
      timeoutMs: 5_000,
      webhookSecrets: ['whsec_of_the_endpoint_of_this_test'],
    })
    const { hostname, port } = new URL(world.sandbox.url)
    browser = new Stripe('sk_test_adapter', { host: hostname, port: Number(port), protocol: 'http' })
  })
  afterAll(() => world.close())

  /** What a customer does with what `setUp` gives: the browser's SDK confirms the setup with a card. */
  const collect = async (accountId: string, card: string, customerKey: string | null = null) => {
    const setUp = await provider.setUp({ setupId: newKey(), accountId, customerKey, email: 'a@example.com' })
    if (setUp.kind !== 'done') throw new Error(`the setup ended ${setUp.kind}`)
    const id = setUp.client.client_secret!.split('_secret_')[0]!
    await browser.setupIntents.confirm(id, { payment_method: card })
    return { authKey: id, customerKey: setUp.customerKey! }
  }
  const store = async (card: string) => {
    const { authKey, customerKey } = await collect(newKey(), card)
    const exchanged = await provider.exchange(authKey, customerKey)
    if (exchanged.kind !== 'done') throw new Error(`the exchange ended ${exchanged.kind}`)
    return exchanged
  }
  const authenticate = async (reference: string, result: 'succeeded' | 'failed') =>
    (await world.ask('POST', '/__sandbox/authentications', { body: { reference, result } })).status
  const await3ds = async () => {
    const request = chargeOf((await store('pm_card_authenticationRequired')).billingKey)
    const outcome = await provider.charge(request)
    if (outcome.kind !== 'needs_customer') throw new Error(`the charge ended ${outcome.kind}`)
    return outcome.payment
  }

  test('a setup becomes a card of its customer, which pays until it is forgotten', async () => {
    const { authKey, customerKey } = await collect('acct_1', 'pm_card_visa')
    expect(await provider.exchange(authKey, 'cus_of_another')).toEqual({ kind: 'refused' })
    const exchanged = await provider.exchange(authKey, customerKey)
    expect(exchanged).toMatchObject({
      kind: 'done',
      card: { brand: 'visa', last4: '4242', expires: '12/34' },
    })
    const { billingKey } = exchanged as { billingKey: string }
    expect(billingKey).toMatch(/^cus_\w+:pm_\w+$/)
    expect(await provider.charge(chargeOf(billingKey))).toMatchObject({ kind: 'done' })
    expect(await provider.forget(billingKey)).toEqual({ kind: 'done' })
    expect(await provider.forget(billingKey)).toEqual({ kind: 'done' })
    expect(await provider.describe(billingKey)).toEqual({ kind: 'invalid' })
    expect(await provider.charge(chargeOf(billingKey))).toEqual({
      kind: 'refused',
      code: 'billing_key_invalid',
    })
    expect((await collect('acct_1', 'pm_card_visa', customerKey)).customerKey).toBe(customerKey)
  })

  test.each([
    { minor: 150_000_000n, currency: 'IDR' },
    { minor: 100_000_000n, currency: 'VND' },
    { minor: 999_999_999_999n, currency: 'USD' },
  ] as const)('%o is charged, read back and refunded', async (amount) => {
    const { billingKey } = await store('pm_card_visa')
    const charged = await provider.charge({ ...chargeOf(billingKey), amount })
    expect(charged).toMatchObject({ kind: 'done', payment: { status: 'paid', amount } })
    if (charged.kind !== 'done') return
    const { payment } = charged
    const refund = { key: newKey(), payment, amount, remaining: amount, reason: 'other' }
    expect(await provider.refund(refund)).toEqual({ kind: 'done' })
    expect(await provider.findPayment(payment.reference, payment.providerId)).toMatchObject({
      payment: { amount, refunded: amount },
    })
  })

  test('one unit above the limit is refused by the simulator itself', async () => {
    const amount = 1_000_000_000_000
    await expect(browser.paymentIntents.create({ amount, currency: 'idr' })).rejects.toMatchObject({
      statusCode: 400,
      code: 'amount_too_large',
      param: 'amount',
    })
  })

  test('a setup that was not finished, or a card that is not there, is refused', async () => {
    const setUp = await provider.setUp({ setupId: newKey(), accountId: 'a', customerKey: null, email: null })
    const { client, customerKey } = setUp as { client: Record<string, string>; customerKey: string }
    const id = client.client_secret!.split('_secret_')[0]!
    expect(await provider.exchange(id, customerKey)).toEqual({ kind: 'refused' })
    expect(await provider.exchange('pm_nobody', customerKey)).toEqual({ kind: 'refused' })
    expect(await provider.exchange('pm_card_visa', customerKey)).toMatchObject({ kind: 'done' })
    expect(await provider.exchange('../customers', customerKey)).toEqual({ kind: 'refused' })
  })

  test('a charge that waits for its customer is finished by them', async () => {
    const waiting = await await3ds()
    expect(waiting).toMatchObject({
      status: 'awaiting',
      nextAction: { type: 'authenticate', clientSecret: expect.stringMatching(/_secret_/), url: null },
    })
    expect((await world.taken(waiting.reference)).times).toBe(0)
    expect(await authenticate(waiting.reference, 'failed')).toBe(200)
    expect(await provider.findPayment(waiting.reference, waiting.providerId)).toMatchObject({
      payment: { status: 'awaiting' },
    })
    const again = await await3ds()
    expect(await authenticate(again.reference, 'succeeded')).toBe(200)
    expect(await provider.findPayment(again.reference, again.providerId)).toMatchObject({
      payment: { status: 'paid' },
    })
    expect(await provider.cancelPayment(again.reference, again.providerId)).toEqual({ kind: 'paid' })
  })

  test('what the documents have the browser do brings a charge before its customer, who confirms it', async () => {
    const waiting = await await3ds()
    const lookUp = () => provider.findPayment(waiting.reference, waiting.providerId)
    const idIn = (secret: string) => secret.split('_secret_')[0]!
    const refusal = ({ message }: Error) => ({ error: { message } })
    // What Stripe's script for browsers does, over the same calls.
    const stripe = {
      retrievePaymentIntent: async (secret: string) => ({
        paymentIntent: await browser.paymentIntents.retrieve(idIn(secret)),
      }),
      confirmCardPayment: (secret: string, data: { payment_method?: string } = {}) =>
        browser.paymentIntents.confirm(idIn(secret), data).then(() => ({}), refusal),
    }
    const invoice = { next_action: { client_secret: waiting.nextAction!.clientSecret } }
    for (const _time of ['first', 'again']) {
      expect(await documentedConfirmation(stripe, invoice)).toBeUndefined()
      expect(await lookUp()).toMatchObject({ payment: { status: 'awaiting' } })
      expect((await browser.paymentIntents.retrieve(waiting.providerId)).status).toBe('requires_action')
    }
    expect(await authenticate(waiting.reference, 'succeeded')).toBe(200)
    expect(await lookUp()).toMatchObject({ payment: { status: 'paid', card: { last4: '3184' } } })
  })

  test('once it is cancelled, confirming it takes nothing', async () => {
    const waiting = await await3ds()
    expect(await provider.cancelPayment(waiting.reference, waiting.providerId)).toEqual({ kind: 'canceled' })
    expect(await provider.cancelPayment(waiting.reference, waiting.providerId)).toEqual({ kind: 'canceled' })
    expect(await authenticate(waiting.reference, 'succeeded')).toBe(409)
    await expect(browser.paymentIntents.confirm(waiting.providerId)).rejects.toThrow()
    expect((await world.taken(waiting.reference)).times).toBe(0)
    expect(await provider.findPayment(waiting.reference, waiting.providerId)).toMatchObject({
      payment: { status: 'canceled' },
    })
  })

  test('whoever confirms while it is cancelled: either it is paid, or it is cancelled, and both sides agree', async () => {
    for (let round = 0; round < 8; round++) {
      const { reference, providerId } = await await3ds()
      const [canceled, confirmed] = await Promise.all([
        provider.cancelPayment(reference, providerId),
        authenticate(reference, 'succeeded'),
      ])
      const isPaid = (await world.taken(reference)).times === 1
      expect([canceled.kind, confirmed]).toEqual(isPaid ? ['paid', 200] : ['canceled', 409])
    }
  })

  test('a declined attempt whose secret its customer may hold is ended before it counts as declined', async () => {
    const waiting = await await3ds()
    const poor = await browser.paymentMethods.attach('pm_card_visa_chargeDeclinedInsufficientFunds', {
      customer: (await browser.paymentIntents.retrieve(waiting.providerId)).customer as string,
    })
    const confirm = (method: string) =>
      browser.paymentIntents.confirm(waiting.providerId, { payment_method: method })
    await expect(confirm(poor.id)).rejects.toThrow()
    expect(await provider.findPayment(waiting.reference, waiting.providerId)).toMatchObject({
      payment: { status: 'declined', declineCode: 'insufficient_funds', rawCode: 'insufficient_funds' },
    })
    await expect(confirm('pm_card_visa')).rejects.toThrow()
    expect((await world.taken(waiting.reference)).times).toBe(0)
  })

  test('a refund made by hand is nobody’s of ours, and one that is pending is pending', async () => {
    const { billingKey } = await store('pm_card_pendingRefund')
    const outcome = await provider.charge(chargeOf(billingKey))
    const { payment } = outcome as Extract<typeof outcome, { kind: 'done' }>
    const refund = { key: newKey(), payment, amount: won(100n), remaining: payment.amount, reason: 'other' }
    expect(await provider.refund(refund)).toEqual({ kind: 'pending' })
    const body = { reference: payment.reference, amount: 50 }
    await world.ask('POST', '/__sandbox/refunds', { body })
    const found = await provider.findPayment(payment.reference, payment.providerId)
    expect(found).toMatchObject({ payment: { refunded: won(150n) } })
    const { refunds } = (found as Extract<typeof found, { kind: 'found' }>).payment
    expect(refunds).toHaveLength(2)
    expect(refunds).toEqual(
      expect.arrayContaining([
        { reference: null, amount: won(50n), status: 'succeeded' },
        { reference: refund.key, amount: won(100n), status: 'pending' },
      ]),
    )
  })

  test('more refunds than an intent brings along are all found', async () => {
    const outcome = await provider.charge(chargeOf('bk_test_ok'))
    const { payment } = outcome as Extract<typeof outcome, { kind: 'done' }>
    for (let n = 0; n < 12; n++) {
      const refund = { key: newKey(), payment, amount: won(1n), remaining: payment.amount, reason: 'other' }
      expect(await provider.refund(refund)).toEqual({ kind: 'done' })
    }
    const found = await provider.findPayment(payment.reference, payment.providerId)
    expect((found as Extract<typeof found, { kind: 'found' }>).payment.refunds).toHaveLength(12)
  })

  test('a lookup that lags says none at first, and by the id it is there at once', async () => {
    const outcome = await provider.charge(chargeOf('bk_test_ok'))
    const { payment } = outcome as Extract<typeof outcome, { kind: 'done' }>
    expect(await provider.findPayment(payment.reference)).toEqual({ kind: 'none' })
    expect(await provider.findPayment(payment.reference, payment.providerId)).toMatchObject({ kind: 'found' })
    await world.clock.moveTo(new Date(world.clock().getTime() + searchLagMs))
    expect(await provider.findPayment(payment.reference)).toMatchObject({ kind: 'found' })
    expect(await provider.findPayment("pay_'quoted")).toEqual({ kind: 'unknown' })
  })

  test('the check says what is wrong, without the key', async () => {
    const lines = await provider.check(new Date())
    expect(lines.map(({ subject, ok }) => [subject, ok])).toEqual([
      ['credentials', true],
      ['clock', true],
      ['listing', true],
      ['webhook_secret', true],
    ])
    // The service's time is nothing to it: the sandbox may have moved that.
    expect(await provider.check(new Date(Date.now() + 30 * 86_400_000))).toEqual(lines)
    const wrong = stripeProvider({ secretKey: 'planted', baseUrl: world.sandbox.url, timeoutMs: 1_000 })
    const bad = await wrong.check(new Date())
    expect(bad.map(({ ok }) => ok)).toEqual([false, false, false])
    expect(JSON.stringify(bad)).not.toContain('planted')
  })
})

/** The code that docs/providers.md shows for it. Tells the error that it ends with. */
async function documentedConfirmation(stripe: object, invoice: object): Promise<unknown> {
  const text = readFileSync(new URL('../../docs/providers.md', import.meta.url), 'utf8')
  const shown = [...text.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code!)
  const [code] = shown.filter((one) => one.includes('next_action'))
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor
  return new AsyncFunction('stripe', 'invoice', `${code}\nreturn error`)(stripe, invoice)
}

type Answered = { status: number; body: object | string; headers?: Record<string, string> } | undefined
type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => Answered
type Scripted = Awaited<ReturnType<typeof openScripted>>

/** A server that answers every call as it was told to. */
async function openScripted() {
  let answer: Answer = () => ({ status: 500, body: {} })
  let seen: { path: string; headers: Record<string, unknown>; body: string }[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const { authorization, ...headers } = request.headers
    seen.push({
      path: request.url ?? '',
      headers: {
        authorization,
        'stripe-version': headers['stripe-version'],
        'idempotency-key': headers['idempotency-key'],
      },
      body,
    })
    const told = answer(request, response, body)
    if (!told) return
    response.writeHead(told.status, { 'content-type': 'application/json', ...told.headers })
    response.end(typeof told.body === 'string' ? told.body : JSON.stringify(told.body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answer(next: Answer) {
      answer = next
      seen = []
    },
    seen: () => seen,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

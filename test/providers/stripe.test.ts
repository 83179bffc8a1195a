import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Stripe from 'stripe'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stripeProvider } from '../../src/billing/providers/stripe/stripe.ts'
import { searchLagMs } from '../../src/sandbox/stripe/stripe-intent-routes.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'
import { openWorld } from '../world.ts'

const secret = 'whsec_of_the_endpoint_of_this_test'

/** The official client, unchanged, against the simulator. */
describe('the official SDK walks through the simulator', () => {
  let world: ProviderWorld
  let stripe: Stripe
  let inbox: Inbox

  beforeAll(async () => {
    inbox = await openInbox()
    world = await openProviderWorld({
      wire: stripeWire,
      webhook: { url: inbox.url, secrets: () => [secret] },
    })
    const { hostname, port } = new URL(world.sandbox.url)
    stripe = new Stripe('sk_test_walk', { host: hostname, port: Number(port), protocol: 'http' })
  })
  afterAll(async () => {
    await world.close()
    inbox.close()
  })

  const storeCard = async (card: string) => {
    const customer = await stripe.customers.create({
      email: 'kim@example.com',
      metadata: { account_id: 'a1' },
    })
    const setup = await stripe.setupIntents.create({ customer: customer.id, usage: 'off_session' })
    expect(setup).toMatchObject({ status: 'requires_payment_method', customer: customer.id })
    const done = await stripe.setupIntents.confirm(setup.id, { payment_method: card })
    expect(done.status).toBe('succeeded')
    return { customer: customer.id, payment_method: done.payment_method as string }
  }
  const charge = (card: { customer: string; payment_method: string }, more: object = {}) =>
    stripe.paymentIntents.create({
      amount: 9900,
      currency: 'krw',
      ...card,
      off_session: true,
      confirm: true,
      ...more,
    })
  const caught = async (work: Promise<unknown>): Promise<Stripe.errors.StripeError> => {
    const error = await work.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    if (!(error instanceof Stripe.errors.StripeError)) throw new Error('no error of Stripe was thrown')
    return error
  }

  test('a card is stored with its customer and paid with off session', async () => {
    const card = await storeCard('pm_card_visa')
    const method = await stripe.paymentMethods.retrieve(card.payment_method)
    expect(method).toMatchObject({ customer: card.customer, card: { brand: 'visa', last4: '4242' } })
    const intent = await charge(card, { metadata: { order_id: 'walk-1' }, expand: ['latest_charge.refunds'] })
    expect(intent).toMatchObject({
      status: 'succeeded',
      amount_received: 9900,
      livemode: false,
      metadata: { order_id: 'walk-1' },
      latest_charge: { paid: true, amount: 9900, refunds: { data: [] } },
    })
    expect(await world.taken('walk-1')).toEqual({ times: 1, amount: 9900n, refunded: 0n })
    expect((await stripe.paymentIntents.retrieve(intent.id)).latest_charge).toMatch(/^ch_/)
  })

  test('a setup is read back with its card, and a card is attached without one', async () => {
    const customer = await stripe.customers.create({ email: 'lee@example.com' })
    const setup = await stripe.setupIntents.create({ customer: customer.id })
    await stripe.setupIntents.confirm(setup.id, { payment_method: 'pm_card_mastercard' })
    const done = await stripe.setupIntents.retrieve(setup.id, { expand: ['payment_method'] })
    expect(done).toMatchObject({ status: 'succeeded', payment_method: { card: { brand: 'mastercard' } } })
    const attached = await stripe.paymentMethods.attach('pm_card_visa', { customer: customer.id })
    expect(attached).toMatchObject({ customer: customer.id, card: { last4: '4242' } })
    expect((await stripe.customers.list({ limit: 1 })).data).toMatchObject([{ id: customer.id }])
    expect((await stripe.balance.retrieve()).available).toHaveLength(1)
  })

  test('a search does not know yet what was made just now', async () => {
    const card = await storeCard('pm_card_visa')
    const paid = (order_id: string) => charge(card, { metadata: { order_id } })
    const { id } = await paid('walk-search')
    const search = (order: string) =>
      stripe.paymentIntents.search({ query: `metadata['order_id']:'${order}'` })
    expect((await search('walk-search')).data).toEqual([])
    await world.clock.moveTo(new Date(world.clock().getTime() + searchLagMs))
    expect((await search('walk-search')).data).toMatchObject([{ id }])

    // One order may have been paid twice, and be called what no reference is.
    const again = await paid('walk-search')
    const odd = await paid('주문 번호 1')
    await world.clock.moveTo(new Date(world.clock().getTime() + searchLagMs))
    expect((await search('walk-search')).data).toMatchObject([{ id: again.id }, { id }])
    expect((await search('주문 번호 1')).data).toMatchObject([{ id: odd.id }])
    const first = await stripe.charges.retrieve(
      (await stripe.paymentIntents.retrieve(id)).latest_charge as string,
    )
    expect(first.payment_intent).toBe(id)
  })

  test('a decline is a 402 that leaves its intent, and a taken-off card is gone for good', async () => {
    const card = await storeCard('pm_card_chargeCustomerFail')
    const error = await caught(charge(card))
    expect(error).toMatchObject({ type: 'StripeCardError', statusCode: 402, code: 'card_declined' })
    const left = await stripe.paymentIntents.retrieve(error.payment_intent!.id)
    expect(left).toMatchObject({
      status: 'requires_payment_method',
      payment_method: null,
      last_payment_error: {
        code: 'card_declined',
        decline_code: 'generic_decline',
        payment_method: { id: card.payment_method },
      },
    })
    expect((await stripe.paymentIntents.cancel(left.id)).status).toBe('canceled')
    await stripe.paymentMethods.detach(card.payment_method)
    expect(await caught(charge(card))).toMatchObject({ statusCode: 400, param: 'payment_method' })
    const attach = stripe.paymentMethods.attach(card.payment_method, { customer: card.customer })
    expect(await caught(attach)).toMatchObject({ statusCode: 400 })
  })

  test('a deleted customer is shown as such, and is missing to whatever is asked with it', async () => {
    const card = await storeCard('pm_card_visa')
    const { customer } = card
    const deleted = { id: customer, object: 'customer', deleted: true }
    expect(await stripe.customers.del(customer)).toMatchObject(deleted)
    expect(await stripe.customers.retrieve(customer)).toMatchObject(deleted)
    const gone = { statusCode: 400, code: 'resource_missing', param: 'customer' }
    expect(await caught(stripe.setupIntents.create({ customer }))).toMatchObject(gone)
    expect(await caught(charge(card))).toMatchObject(gone)
    expect(await caught(stripe.customers.del(customer))).toMatchObject({ code: 'resource_missing' })
    expect(await stripe.paymentMethods.retrieve(card.payment_method)).toMatchObject({ customer: null })
  })

  test.each([
    ['pm_card_visa_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
    ['pm_card_visa_chargeDeclinedStolenCard', 'card_declined', 'stolen_card'],
    ['pm_card_chargeDeclinedExpiredCard', 'expired_card', 'expired_card'],
    ['pm_card_chargeDeclinedIncorrectCvc', 'incorrect_cvc', 'incorrect_cvc'],
  ])('%s declines as %s, %s', async (card, code, decline_code) => {
    expect(await caught(charge(await storeCard(card)))).toMatchObject({ code, decline_code })
  })

  test('a key is replayed with its mark, bound to its parameters, and forgotten after a day', async () => {
    const card = await storeCard('pm_card_visa')
    const options = { idempotencyKey: 'walk-key-1' }
    const params = { amount: 1000, currency: 'krw', ...card, confirm: true, off_session: true } as const
    const first = await stripe.paymentIntents.create(params, options)
    const again = await stripe.paymentIntents.create(params, options)
    expect(again.id).toBe(first.id)
    expect(again.lastResponse.headers['idempotent-replayed']).toBe('true')
    const other = await caught(stripe.paymentIntents.create({ ...params, amount: 1001 }, options))
    expect(other).toMatchObject({ type: 'StripeIdempotencyError', statusCode: 400 })
    await world.clock.moveTo(new Date(world.clock().getTime() + 86_400_000))
    expect((await stripe.paymentIntents.create(params, options)).id).not.toBe(first.id)
  })

  test('a card that asks for its customer is refused off session and paid once the customer confirmed', async () => {
    const card = await storeCard('pm_card_authenticationRequired')
    const error = await caught(charge(card, { metadata: { order_id: 'walk-3ds' } }))
    expect(error).toMatchObject({ statusCode: 402, code: 'authentication_required' })
    const { id } = error.payment_intent!
    expect((await world.taken('walk-3ds')).times).toBe(0)
    // The card that failed is off the intent, and named only with the error.
    const left = await stripe.paymentIntents.retrieve(id)
    expect(left).toMatchObject({
      status: 'requires_payment_method',
      payment_method: null,
      last_payment_error: { code: 'authentication_required', payment_method: { id: card.payment_method } },
    })
    expect(error).toMatchObject({ payment_method: { id: card.payment_method } })
    expect(await caught(stripe.paymentIntents.confirm(id))).toMatchObject({
      statusCode: 400,
      code: 'payment_intent_unexpected_state',
    })
    const waiting = await stripe.paymentIntents.confirm(id, { payment_method: card.payment_method })
    expect(waiting).toMatchObject({
      status: 'requires_action',
      payment_method: card.payment_method,
      next_action: { type: 'use_stripe_sdk' },
    })
    const body = { reference: 'walk-3ds', result: 'succeeded' }
    expect((await world.ask('POST', '/__sandbox/authentications', { body })).status).toBe(200)
    expect(await stripe.paymentIntents.retrieve(id)).toMatchObject({
      status: 'succeeded',
      payment_method: card.payment_method,
      last_payment_error: null,
    })
    expect((await world.taken('walk-3ds')).times).toBe(1)
    expect(await caught(stripe.paymentIntents.cancel(id))).toMatchObject({
      code: 'payment_intent_unexpected_state',
    })
  })

  test('money goes back in parts, by hand too, and never more than there was', async () => {
    const intent = await charge(await storeCard('pm_card_visa'), { metadata: { order_id: 'walk-refund' } })
    const refund = await stripe.refunds.create({
      payment_intent: intent.id,
      amount: 900,
      metadata: { refund_id: 'walk-refund-1' },
    })
    expect(refund).toMatchObject({ status: 'succeeded', amount: 900, payment_intent: intent.id })
    const body = { reference: 'walk-refund', amount: 1000 }
    expect((await world.ask('POST', '/__sandbox/refunds', { body })).status).toBe(200)
    const list = await stripe.refunds.list({ payment_intent: intent.id })
    expect(list.data.map(({ amount, metadata }) => [amount, metadata])).toEqual([
      [1000, {}],
      [900, { refund_id: 'walk-refund-1' }],
    ])
    expect(await stripe.refunds.retrieve(refund.id)).toMatchObject({ amount: 900 })
    const more = await caught(stripe.refunds.create({ payment_intent: intent.id, amount: 8001 }))
    expect(more).toMatchObject({ statusCode: 400, param: 'amount' })
    expect(more.code).toBeUndefined()
    await stripe.refunds.create({ payment_intent: intent.id })
    expect(await caught(stripe.refunds.create({ payment_intent: intent.id }))).toMatchObject({
      code: 'charge_already_refunded',
    })
    expect((await world.taken('walk-refund')).refunded).toBe(9900n)
  })

  test('a dispute is opened, told, and decided', async () => {
    const intent = await charge(await storeCard('pm_card_createDispute'), {
      metadata: { order_id: 'walk-dispute' },
    })
    const [dispute] = (await stripe.disputes.list({ payment_intent: intent.id })).data
    expect(dispute).toMatchObject({
      status: 'needs_response',
      amount: 9900,
      payment_intent: intent.id,
      balance_transactions: [
        { amount: -9900, net: -9900, reporting_category: 'dispute', source: dispute!.id },
      ],
    })
    expect(await caught(stripe.refunds.create({ payment_intent: intent.id }))).toMatchObject({
      code: 'charge_disputed',
    })
    const body = { reference: 'walk-dispute', status: 'lost' }
    expect((await world.ask('POST', '/__sandbox/disputes', { body })).status).toBe(200)
    const lost = await stripe.disputes.retrieve(dispute!.id)
    expect(lost).toMatchObject({ status: 'lost', balance_transactions: dispute!.balance_transactions })
    const types = ['charge.dispute.created', 'charge.dispute.funds_withdrawn', 'charge.dispute.closed']
    const events = (await stripe.events.list({ types, limit: 100 })).data
    expect(events.map(({ type }) => type).sort()).toEqual(types.sort())
  })

  test('a dispute takes its money when it is opened, gives it back when it is won, and each move is told', async () => {
    const intent = await charge(await storeCard('pm_card_createDispute'), {
      metadata: { order_id: 'walk-won' },
    })
    const body = { reference: 'walk-won', status: 'won' }
    expect((await world.ask('POST', '/__sandbox/disputes', { body })).status).toBe(200)
    const [dispute] = (await stripe.disputes.list({ payment_intent: intent.id })).data
    expect(dispute).toMatchObject({
      status: 'won',
      balance_transactions: [
        { amount: -9900, reporting_category: 'dispute' },
        { amount: 9900, reporting_category: 'dispute_reversal' },
      ],
    })
    const told = () =>
      inbox
        .bodies()
        .map((text) => JSON.parse(text))
        .filter(({ data }) => data.object.payment_intent === intent.id)
        .map(({ type }) => type)
        .filter((type) => type.startsWith('charge.dispute.'))
        .sort()
    const types = ['closed', 'created', 'funds_reinstated', 'funds_withdrawn'].map(
      (name) => `charge.dispute.${name}`,
    )
    await expect.poll(told).toEqual(types)
    const listed = (await stripe.events.list({ types, limit: 100 })).data
    const ours = listed.filter(({ data }) => (data.object as Stripe.Dispute).id === dispute!.id)
    expect(ours.map(({ type }) => type).sort()).toEqual(types)
  })

  test('lists come newest first and page after page', async () => {
    const card = await storeCard('pm_card_visa')
    const made: string[] = []
    for (let n = 0; n < 5; n++) made.unshift((await charge(card)).id)
    const seen: string[] = []
    for await (const { id } of stripe.paymentIntents.list({ customer: card.customer, limit: 2 }))
      seen.push(id)
    expect(seen).toEqual(made)
  })

  test('what this version does not know is refused', async () => {
    const odd = { amount: 1000, currency: 'krw', payment_method_types: ['card'] }
    expect(await caught(stripe.paymentIntents.create(odd as never))).toMatchObject({
      code: 'parameter_unknown',
      param: 'payment_method_types',
    })
    expect(await caught(stripe.paymentIntents.create({ amount: 1.5, currency: 'krw' }))).toMatchObject({
      param: 'amount',
    })
  })

  test('a key of the wrong form is refused', async () => {
    const { hostname, port } = new URL(world.sandbox.url)
    const stranger = new Stripe('pk_test_x', { host: hostname, port: Number(port), protocol: 'http' })
    expect(await caught(stranger.customers.list())).toMatchObject({ statusCode: 401 })
  })

  test('every notification is one that the SDK takes for authentic', async () => {
    const order_id = `rl_${'7'.repeat(40)}`
    await charge(await storeCard('pm_card_visa'), { metadata: { order_id } })
    const { signature, body } = await inbox.first((text) => text.includes(order_id))
    const event = await stripe.webhooks.constructEventAsync(body, signature, secret)
    expect(event).toMatchObject({
      type: 'payment_intent.succeeded',
      livemode: false,
      data: { object: { object: 'payment_intent', metadata: { order_id } } },
    })
    await expect(stripe.webhooks.constructEventAsync(body, signature, 'whsec_other')).rejects.toThrow()
    const types = new Set(inbox.bodies().map((text) => JSON.parse(text).type))
    expect([...types]).toEqual(
      expect.arrayContaining(['payment_intent.payment_failed', 'charge.refunded', 'charge.dispute.created']),
    )
    const provider = stripeProvider({ secretKey: 'sk_test_x', timeoutMs: 1000 })
    const headers = { 'stripe-signature': signature }
    const delivery = { headers, body: Buffer.from(body), secrets: [secret], now: new Date() }
    expect(provider.verifyWebhook(delivery)).toEqual({ eventId: event.id, message: JSON.parse(body) })
    expect(provider.readWebhook(JSON.parse(body))).toMatchObject({ reference: order_id })
    const dispute = inbox.bodies().find((text) => text.includes('charge.dispute.created'))!
    expect(provider.readWebhook(JSON.parse(dispute))).toMatchObject({
      reference: null,
      providerId: expect.stringMatching(/^pi_/),
    })
  })

  test('every call that is described was answered on this walk', () => {
    expect(world.unanswered()).toEqual([])
  })
})

test('a notification that is signed and no JSON, or no event, is not told to be badly signed', async () => {
  const signing = 'whsec_a_secret_to_sign_things_with'
  const world = await openWorld({
    environment: {
      PAYMENT_PROVIDER: 'stripe',
      STRIPE_SECRET_KEY: 'sk_test_x',
      STRIPE_BASE_URL: 'http://127.0.0.1:9',
      STRIPE_WEBHOOK_SECRETS: signing,
    },
  })
  const deliver = async (payload: string, secret = signing) => {
    const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret })
    const answer = await fetch(`${world.url}/api/billing/webhook/stripe`, {
      method: 'POST',
      headers: { 'stripe-signature': signature, 'content-type': 'application/json' },
      body: payload,
    })
    const { error, data } = (await answer.json()) as { error?: { code: string }; data?: object }
    return [answer.status, error?.code ?? data]
  }
  try {
    for (const body of ['not json', '{"id":"evt_1"', ''])
      expect(await deliver(body)).toEqual([400, 'invalid_json'])
    expect(await deliver('not json', 'whsec_another_secret')).toEqual([401, 'invalid_signature'])
    expect(await deliver('{"type":"x"}')).toEqual([200, { received: true, duplicate: false }])
    expect(await deliver('{"type":"x"}')).toEqual([200, { received: true, duplicate: true }])
    expect(await world.query('select from billing.webhook')).toHaveLength(1)
  } finally {
    await world.close()
  }
})

type Inbox = Awaited<ReturnType<typeof openInbox>>

async function openInbox() {
  const received: { signature: string; body: string }[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    received.push({ signature: String(request.headers['stripe-signature']), body })
    response.end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    bodies: () => received.map(({ body }) => body),
    async first(isIt: (body: string) => boolean) {
      await expect.poll(() => received.some(({ body }) => isIt(body))).toBe(true)
      return received.find(({ body }) => isIt(body))!
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

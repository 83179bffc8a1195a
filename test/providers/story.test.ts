import { randomBytes } from 'node:crypto'
import Stripe from 'stripe'
import { describe, expect, test } from 'vitest'
import { runDue } from '../../src/billing/due.ts'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import type { Provider } from '../../src/billing/providers/port.ts'
import { portoneProvider } from '../../src/billing/providers/portone/portone.ts'
import { stripeProvider } from '../../src/billing/providers/stripe/stripe.ts'
import { tossProvider } from '../../src/billing/providers/toss/toss.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { portoneWire } from '../../src/sandbox/portone/portone-wire.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import { sandboxWire, type Wire } from '../../src/sandbox/wire.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'
import { openWorld, type World } from '../world.ts'

// One life of a few customers, told to every provider: the running service, its routes and sweeps, over the wire.

const hintSecret = randomBytes(24).toString('hex')
const signing = () => `whsec_${randomBytes(32).toString('base64')}`

type Told = {
  readonly wire: Wire
  environment(url: string, secret: string): Record<string, string>
  /** Where its notifications go. */
  readonly path: string
  /** What the staff brings as its key. */
  readonly key: string
  /** What it calls the reason of a stolen card. */
  readonly stolen: string
  /** A card whose bank wants its customer, where the provider knows such. */
  readonly asks?: string
  readonly disputes: boolean
  /** What a customer's browser makes of a prepared setup and a card: what goes into `payment_method`. */
  collect(there: ProviderWorld, client: Client, card: string): Promise<object>
  /** The card that was collected so, as the provider knows it, and our way to the provider; null: it stores none. */
  readonly stored: ((there: ProviderWorld, client: Client) => Promise<[Provider, billingKey: string]>) | null
  /** Asked of the provider itself, money of a payment goes back. */
  giveBack(
    payment: { reference: string; providerId: string },
    amount?: number,
  ): {
    path: string
    headers: Record<string, string>
    body: object
  }
}

type Client = Readonly<Record<string, string>>
const timeoutMs = 60_000

const stories: readonly Told[] = [
  {
    wire: sandboxWire,
    environment: (url, secret) => ({
      PAYMENT_PROVIDER: 'sandbox',
      PROVIDER_BASE_URL: url,
      PROVIDER_SECRET_KEY: 'sk_test_any',
      WEBHOOK_SECRETS: secret,
    }),
    path: '/api/billing/webhook',
    key: 'sk_test_any',
    stolen: 'lost_or_stolen',
    disputes: true,
    collect: async (_there, { customer_key }, card) => ({
      auth_key: card.replace('bk_', 'ak_'),
      customer_key,
    }),
    // Its cards are names that everybody knows.
    stored: null,
    giveBack: ({ reference }, amount = 9900) => ({
      path: `/v1/charges/${reference}/refunds`,
      headers: { authorization: 'Bearer sk_test_any', 'idempotency-key': `by-hand-${reference}` },
      body: { reference: `by-hand-${reference}`, amount },
    }),
  },
  {
    wire: stripeWire,
    environment: (url, secret) => ({
      PAYMENT_PROVIDER: 'stripe',
      STRIPE_SECRET_KEY: 'sk_test_story',
      STRIPE_BASE_URL: url,
      STRIPE_WEBHOOK_SECRETS: secret,
    }),
    path: '/api/billing/webhook/stripe',
    key: 'sk_test_story',
    stolen: 'stolen_card',
    asks: 'pm_card_authenticationRequired',
    disputes: true,
    async collect(there, { client_secret, customer }, card) {
      const [setup] = client_secret!.split('_secret_')
      await stripeAt(there).setupIntents.confirm(setup!, { payment_method: card })
      return { auth_key: setup, customer_key: customer }
    },
    async stored(there, { client_secret, customer }) {
      const [setup] = client_secret!.split('_secret_')
      const { payment_method } = await stripeAt(there).setupIntents.retrieve(setup!)
      const provider = stripeProvider({ secretKey: 'sk_test_story', baseUrl: there.sandbox.url, timeoutMs })
      return [provider, `${customer}:${payment_method}`]
    },
    giveBack: ({ reference }, amount = 9900) => ({
      path: '/__sandbox/refunds',
      headers: { authorization: 'Bearer sk_test_story' },
      body: { reference, amount },
    }),
  },
  {
    wire: tossWire,
    environment: (url) => ({
      PAYMENT_PROVIDER: 'toss',
      TOSS_SECRET_KEY: 'test_sk_storyOfToss',
      TOSS_BASE_URL: url,
      HINT_SECRET: hintSecret,
    }),
    path: `/api/billing/hints/${hintSecret}`,
    key: 'test_sk_storyOfToss',
    stolen: 'INVALID_CARD_LOST_OR_STOLEN',
    disputes: false,
    collect: async (_there, { customer_key }, card) => ({
      auth_key: card.replace('bk_', 'ak_'),
      customer_key,
    }),
    async stored(there, { customer_key }) {
      const { rows } = await there.pool.query(
        `select id from sandbox.wire_object where kind = 'billing_key' and body ->> 'customerKey' = $1`,
        [customer_key],
      )
      expect(rows).toHaveLength(1)
      const keys = { secretKey: 'test_sk_storyOfToss', baseUrl: there.sandbox.url, timeoutMs }
      return [tossProvider(keys), `${customer_key}:${rows[0].id}`]
    },
    giveBack: ({ providerId }, cancelAmount = 9900) => ({
      path: `/v1/payments/${providerId}/cancel`,
      headers: { authorization: `Basic ${btoa('test_sk_storyOfToss:')}` },
      body: { cancelReason: 'by hand', cancelAmount },
    }),
  },
  {
    wire: portoneWire,
    environment: (url, secret) => ({
      PAYMENT_PROVIDER: 'portone',
      PORTONE_API_SECRET: 'story-of-portone-api-secret',
      PORTONE_STORE_ID: 'store-story',
      PORTONE_CHANNEL_KEY: 'channel-key-story',
      PORTONE_BASE_URL: url,
      PORTONE_WEBHOOK_SECRETS: secret,
    }),
    path: '/api/billing/webhook',
    key: 'story-of-portone-api-secret',
    stolen: 'INVALID_CARD_LOST_OR_STOLEN',
    disputes: true,
    async collect(there, { issue_id }, card) {
      const issued = await there.ask('POST', '/__sandbox/billing-keys', { body: { card, issue_id } })
      return issued.body
    },
    async stored(there, { issue_id }) {
      const { rows } = await there.pool.query(
        `select id from sandbox.wire_object where kind = 'billing_key' and body ->> 'issueId' = $1`,
        [issue_id],
      )
      expect(rows).toHaveLength(1)
      const keys = { apiSecret: 'story-of-portone-api-secret', storeId: 'store-story' }
      return [portoneProvider({ ...keys, baseUrl: there.sandbox.url, timeoutMs }), rows[0].id]
    },
    giveBack: ({ reference }, amount = 9900) => ({
      path: `/payments/${reference}/cancel`,
      headers: { authorization: 'PortOne story-of-portone-api-secret' },
      body: { reason: 'by hand', amount },
    }),
  },
]

/** What the customer's browser, or the shop's own people, ask of Stripe. */
function stripeAt({ sandbox }: ProviderWorld): Stripe {
  const { hostname, port } = new URL(sandbox.url)
  return new Stripe('sk_test_story', { host: hostname, port: Number(port), protocol: 'http' })
}

describe.each(stories)('with $wire.name', (told) => {
  test('subscribe, renew, decline, dunning, authentication, refund, dispute, card deleted', async () => {
    const there = await openProviderWorld({ wire: told.wire })
    const secret = signing()
    const world = await openWorld({ environment: told.environment(there.sandbox.url, secret) })
    try {
      // Another process on the same book tells us what happens there.
      await there.openAnother({
        webhook: { url: world.url + told.path, secrets: () => [secret] },
      })
      await tell(told, world, there)
      await expectBooksToAgree(told, world, there)
    } finally {
      await world.close()
      await there.close()
    }
  })

  test.runIf(told.disputes)(
    'a dispute that is won and then refunded, in part and in full, leaves both books agreed',
    async () => {
      const there = await openProviderWorld({ wire: told.wire })
      const world = await openWorld({ environment: told.environment(there.sandbox.url, signing()) })
      try {
        await world.post('/api/billing/subscribe', {
          account_id: 'winner',
          plan_id: 'starter-monthly',
          payment_method: { billing_key: 'bk_test_ok' },
        })
        const invoice = async () =>
          (await world.get('/api/billing/invoices?account_id=winner')).body.data.invoices[0]
        const { invoice_id, payments } = await invoice()
        const from = new Date(world.app.clock().getTime() - 60_000)
        const reconcile = () =>
          reconcilePayments(world.app.billing, from, new Date(world.app.clock().getTime() + 1000))
        for (const status of ['open', 'won']) {
          const { reference } = payments[0]
          expect((await world.post('/api/sandbox/provider/disputes', { reference, status })).status).toBe(200)
          expect(await reconcile()).toMatchObject({ repaired: [{ kind: 'disputed' }], differences: [] })
          await expectBooksToAgree(told, world, there)
        }
        for (const amount of [900, 9000]) {
          expect((await world.post('/api/billing/refund', { invoice_id, amount })).status).toBe(200)
          expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })
          expect((await invoice()).payments[0].dispute).toMatchObject({ status: 'won', amount: 9900 })
        }
        await expectBooksToAgree(told, world, there)
      } finally {
        await world.close()
        await there.close()
      }
    },
  )

  test.runIf(told.disputes)(
    'a dispute that staff ends by giving money back, in part or in full, is over here too; a lost one stays lost',
    async () => {
      const there = await openProviderWorld({ wire: told.wire })
      const world = await openWorld({ environment: told.environment(there.sandbox.url, signing()) })
      const from = new Date(world.app.clock().getTime() - 60_000)
      try {
        const billing = world.app.billing
        const reconcile = () => reconcilePayments(billing, from, new Date(world.app.clock().getTime() + 1000))
        const bank = async (reference: string, status: string) => {
          expect((await world.post('/api/sandbox/provider/disputes', { reference, status })).status).toBe(200)
        }
        const invoiceOf = async (account: string) =>
          (await world.get(`/api/billing/invoices?account_id=${account}`)).body.data.invoices[0]
        const openAt: Record<string, string> = {}
        for (const account of ['part', 'full', 'lost']) {
          await world.post('/api/billing/subscribe', {
            account_id: account,
            plan_id: 'starter-monthly',
            payment_method: { billing_key: 'bk_test_ok' },
          })
          await bank((await invoiceOf(account)).payments[0].reference, 'open')
        }
        await reconcile()
        for (const account of ['part', 'full', 'lost']) {
          const { dispute } = (await invoiceOf(account)).payments[0]
          expect(dispute).toMatchObject({ status: 'open', amount: 9900 })
          openAt[account] = dispute.opened_at
        }

        await world.advanceBy('PT1H')
        const [part, full, lost] = await world.query<{ reference: string; providerId: string }>(
          'select provider_reference as reference, provider_id as "providerId" from billing.payment order by id',
        )
        // Nobody looks between the end of the dispute and the money.
        for (const [payment, amount] of [
          [part!, 900],
          [full!, 9900],
        ] as const) {
          await bank(payment.reference, 'won')
          const { path, headers, body } = told.giveBack(payment, amount)
          const byHand = await fetch(there.sandbox.url + path, {
            method: 'POST',
            headers: { ...headers, 'content-type': 'application/json' },
            body: JSON.stringify(body),
          })
          expect(byHand.status).toBe(200)
        }
        await bank(lost!.reference, 'lost')
        expect((await reconcile()).differences).toEqual([])
        expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })

        const over = { status: 'won', amount: 9900, closed_at: expect.any(String) }
        expect(await invoiceOf('part')).toMatchObject({
          status: 'partially_refunded',
          amount_refunded: 900,
          payments: [{ disputed: false, dispute: { ...over, opened_at: openAt['part'] } }],
        })
        expect(await invoiceOf('full')).toMatchObject({
          status: 'refunded',
          payments: [{ disputed: false, dispute: { ...over, opened_at: openAt['full'] } }],
        })
        expect((await invoiceOf('lost')).payments).toMatchObject([
          { disputed: true, dispute: { status: 'lost', amount: 9900, opened_at: openAt['lost'] } },
        ])
        const refund = async (account: string) =>
          world.post('/api/billing/refund', { invoice_id: (await invoiceOf(account)).invoice_id })
        expect((await refund('part')).status).toBe(200)
        expect((await refund('lost')).body.error.code).toBe('payment_disputed')
        expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })
        expect(await checkLedger(billing.db)).toMatchObject({ faults: [] })
      } finally {
        await world.close()
        await there.close()
      }
    },
  )

  test('what somebody has given back by hand and came back is still there, for a refund of ours', async () => {
    const there = await openProviderWorld({ wire: told.wire })
    const secret = signing()
    const world = await openWorld({ environment: told.environment(there.sandbox.url, secret) })
    const from = new Date(world.app.clock().getTime() - 1000)
    try {
      await there.openAnother({ webhook: { url: world.url + told.path, secrets: () => [secret] } })
      await world.post('/api/billing/subscribe', {
        account_id: 'hand',
        plan_id: 'starter-monthly',
        payment_method: { billing_key: 'bk_test_ok' },
      })
      const invoice = async () =>
        (await world.get('/api/billing/invoices?account_id=hand')).body.data.invoices[0]
      const reconcile = () =>
        reconcilePayments(world.app.billing, from, new Date(world.app.clock().getTime() + 1000))
      const [payment] = await world.query<{ reference: string; providerId: string }>(
        'select provider_reference as reference, provider_id as "providerId" from billing.payment',
      )
      const { path, headers, body } = told.giveBack(payment!)
      await fetch(there.sandbox.url + path, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      await reconcile()
      expect(await invoice()).toMatchObject({ status: 'refunded', amount_refunded: 9900 })
      const { rows } = await there.pool.query('select reference from sandbox.refund')
      const failed = await there.ask('POST', `/__sandbox/refunds/${rows[0].reference}/fail`, {
        secret: told.key,
      })
      expect(failed.status).toBe(200)
      expect((await reconcile()).differences).toEqual([])
      expect(await invoice()).toMatchObject({ status: 'paid', amount_refunded: 0 })
      const { status } = await world.post('/api/billing/refund', { invoice_id: (await invoice()).invoice_id })
      expect(status).toBe(200)
      expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })
      expect(await checkLedger(world.app.billing.db)).toMatchObject({ faults: [] })
      // Nobody is left waiting for a refund that is none of ours.
      const waiting = () => world.query(`select from billing.webhook where status = 'waiting'`)
      await expect
        .poll(async () => {
          await runDue(world.app.billing)
          return waiting()
        })
        .toEqual([])
    } finally {
      await world.close()
      await there.close()
    }
  })

  test('what somebody has given back by hand is known to the refund that finds nothing left, and leaves no doubt', async () => {
    const there = await openProviderWorld({ wire: told.wire })
    const world = await openWorld({ environment: told.environment(there.sandbox.url, signing()) })
    try {
      await world.post('/api/billing/subscribe', {
        account_id: 'hand',
        plan_id: 'starter-monthly',
        payment_method: { billing_key: 'bk_test_ok' },
      })
      const invoice = async () =>
        (await world.get('/api/billing/invoices?account_id=hand')).body.data.invoices[0]
      const { invoice_id } = await invoice()
      const [payment] = await world.query<{ reference: string; providerId: string }>(
        'select provider_reference as reference, provider_id as "providerId" from billing.payment',
      )
      const { path, headers, body } = told.giveBack(payment!)
      const byHand = await fetch(there.sandbox.url + path, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      expect([byHand.status, await byHand.text()]).toEqual([200, expect.anything()])

      const { status, body: answer } = await world.post('/api/billing/refund', { invoice_id, amount: 100 })
      expect([status, answer.error?.code]).toEqual([402, 'refund_declined'])
      expect(await invoice()).toMatchObject({ status: 'refunded', amount_refunded: 9900 })
    } finally {
      await world.close()
      await there.close()
    }
  })
})

describe('in an account of Stripe that others use too', () => {
  const told = stories.find(({ wire }) => wire.name === 'stripe')!
  const open = async () => {
    const there = await openProviderWorld({ wire: told.wire })
    const secret = signing()
    const world = await openWorld({ environment: told.environment(there.sandbox.url, secret) })
    const stripe = stripeAt(there)
    const from = new Date(world.app.clock().getTime() - 1000)
    return {
      there,
      world,
      secret,
      pay: (metadata: Record<string, string>, card = 'pm_card_visa') =>
        stripe.paymentIntents.create({
          amount: 9900,
          currency: 'krw',
          payment_method: card,
          off_session: true,
          confirm: true,
          metadata,
        }),
      stripe,
      reconcile: () =>
        reconcilePayments(world.app.billing, from, new Date(world.app.clock().getTime() + 1000)),
      async subscribe() {
        const payment_method = { billing_key: 'bk_test_ok' }
        await world.post('/api/billing/subscribe', {
          account_id: 'a',
          plan_id: 'starter-monthly',
          payment_method,
        })
        const [payment] = await world.query<{ reference: string }>(
          'select provider_reference as reference from billing.payment',
        )
        return payment!.reference
      },
      async close() {
        await world.close()
        await there.close()
      },
    }
  }

  test('what names no order of ours is nobody’s business here, paid, declined or refunded', async () => {
    const { pay, stripe, reconcile, subscribe, close, there, world, secret } = await open()
    try {
      await there.openAnother({ webhook: { url: world.url + told.path, secrets: () => [secret] } })
      await subscribe()
      const paid = await pay({ order_id: 'an order of another shop' })
      await expect(pay({}, 'pm_card_chargeDeclined')).rejects.toThrow(/declined/)
      await stripe.refunds.create({ payment_intent: paid.id, amount: 100 })
      expect(await reconcile()).toMatchObject({ compared: 1, repaired: [], differences: [] })
      const heard = () =>
        world.query(
          `select status from billing.webhook where type like 'payment_intent.%' and reference is null`,
        )
      await expect.poll(heard).toEqual([{ status: 'ignored' }, { status: 'ignored' }])
      // An order that we do not know is another matter.
      const unknown = `rl_${'0'.repeat(40)}`
      await pay({ order_id: unknown })
      expect((await reconcile()).differences).toMatchObject([{ kind: 'unknown_here', reference: unknown }])
    } finally {
      await close()
    }
  })

  test('a second charge of the same order is told until it is refunded; one that was declined is not', async () => {
    const { pay, stripe, reconcile, subscribe, close } = await open()
    try {
      const reference = await subscribe()
      await expect(pay({ order_id: reference }, 'pm_card_chargeDeclined')).rejects.toThrow(/declined/)
      expect(await reconcile()).toMatchObject({ compared: 1, repaired: [], differences: [] })
      const second = await pay({ order_id: reference })
      for (const _run of ['first', 'second'])
        expect(await reconcile()).toMatchObject({
          compared: 2,
          repaired: [],
          differences: [{ kind: 'duplicate', reference, providerId: second.id, theirs: { status: 'paid' } }],
        })
      await stripe.refunds.create({ payment_intent: second.id })
      expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })
    } finally {
      await close()
    }
  })
})

/** Nothing is left to compare, and what the ledger says that the provider holds is what it holds. */
async function expectBooksToAgree({ wire }: Told, world: World, there: ProviderWorld): Promise<void> {
  const { billing } = world.app
  const until = new Date(world.app.clock().getTime() + 1000)
  expect(await reconcilePayments(billing, new Date(0), until)).toMatchObject({
    repaired: [],
    differences: [],
  })
  expect(await checkLedger(billing.db)).toMatchObject({ faults: [] })
  const [ours] = await world.query(
    `select sum(amount)::bigint as money from billing.ledger_entry where book = 'provider'`,
  )
  const held = wire.withdrawsDisputed ? ['lost', 'open'] : ['lost']
  const { rows } = await there.pool.query(
    `select sum(amount - amount_refunded - case when dispute_status = any ($1) then dispute_amount else 0 end)::bigint as money
     from sandbox.payment where status = 'paid'`,
    [held],
  )
  expect(ours).toEqual(rows[0])
}

async function tell(told: Told, world: World, there: ProviderWorld): Promise<void> {
  const billing = (path: string) => `/api/billing${path}`
  const subscribe = (account: string, card: string) =>
    world.post(billing('/subscribe'), {
      account_id: account,
      plan_id: 'starter-monthly',
      payment_method: { billing_key: card },
    })
  const invoices = async (account: string) =>
    (await world.get(billing(`/invoices?account_id=${account}`))).body.data.invoices
  const subscription = async (id: string) => (await world.get(billing(`/subscriptions/${id}`))).body.data
  const staff = (path: string, body: object) => there.ask('POST', path, { body, secret: told.key })
  /** Sweeps until it is so; what the provider tells comes in the meantime. */
  const comesTrue = async (read: () => Promise<unknown>, expected: object) => {
    await expect
      .poll(
        async () => {
          await runDue(world.app.billing)
          return read()
        },
        { interval: 100 },
      )
      .toMatchObject(expected)
  }

  const good = await subscribe('good', 'bk_test_ok')
  expect([good.status, good.body.data.status]).toEqual([201, 'active'])
  // One card is collected in the browser, and stored.
  const setup = (await world.post(billing('/setup'), { account_id: 'poor' })).body.data
  const poor = await world.post(billing('/subscribe'), {
    account_id: 'poor',
    plan_id: 'starter-monthly',
    payment_method: await told.collect(there, setup.client, 'bk_test_fails_on_renewal'),
  })
  expect([poor.status, setup.provider]).toEqual([201, told.wire.name])
  const declined = await subscribe('declined', 'bk_test_insufficient_funds')
  expect([declined.status, declined.body.error.details[0].code]).toEqual([402, 'insufficient_funds'])
  const stolen = await subscribe('stolen', 'bk_test_stolen')
  expect([stolen.status, stolen.body.error.details[0].code]).toEqual([402, 'lost_or_stolen'])
  expect((await invoices('stolen'))[0].payments).toMatchObject([
    { provider: told.wire.name, failure_code: 'lost_or_stolen', provider_code: told.stolen },
  ])

  if (told.asks !== undefined) {
    const asked = await subscribe('asked', told.asks)
    expect([asked.status, asked.body.data.status]).toEqual([202, 'incomplete'])
    expect(asked.body.data.next_action).toMatchObject({
      type: 'authenticate',
      client_secret: expect.any(String),
    })
    const [invoice] = await invoices('asked')
    expect(invoice).toMatchObject({ status: 'open', next_action: asked.body.data.next_action })
    const { reference } = invoice.payments[0]
    expect((await staff('/__sandbox/authentications', { reference, result: 'succeeded' })).status).toBe(200)
    await comesTrue(() => subscription(asked.body.data.subscription_id), { status: 'active' })
  }

  // A month later one is renewed, one is declined, and one has to confirm.
  const { next_billing_at } = (await subscription(poor.body.data.subscription_id)) as {
    next_billing_at: string
  }
  const past = new Date(Date.parse(next_billing_at) + 60_000)
  expect((await world.advanceTo(past)).status).toBe(200)
  expect(await invoices('good')).toMatchObject([{ status: 'paid' }, { status: 'paid' }])
  expect(await subscription(poor.body.data.subscription_id)).toMatchObject({ status: 'past_due' })
  expect((await invoices('poor'))[0].payments).toMatchObject([{ failure_code: 'insufficient_funds' }])
  let late: string | undefined
  if (told.asks !== undefined) {
    const [renewal] = await invoices('asked')
    expect(renewal).toMatchObject({ status: 'open', next_action: { type: 'authenticate' } })
    late = renewal.payments[0].reference
  }
  await world.advanceBy('P1DT1H')
  expect((await invoices('poor'))[0]).toMatchObject({ attempt_count: 2 })
  if (late !== undefined) {
    // Its time is over, so another attempt has begun, and the old one can no longer be confirmed.
    expect(
      (await staff('/__sandbox/authentications', { reference: late, result: 'succeeded' })).status,
    ).not.toBe(200)
    const [renewal] = await invoices('asked')
    expect(renewal).toMatchObject({
      attempt_count: 2,
      payments: [{ status: 'failed' }, { status: 'pending' }],
    })
    const { reference } = renewal.payments[1]
    expect((await staff('/__sandbox/authentications', { reference, result: 'succeeded' })).status).toBe(200)
    await comesTrue(async () => (await invoices('asked'))[0], { status: 'paid', next_action: null })
  }

  // Another card pays what is owed, and the old one is deleted where it was stored.
  const changed = await world.post(billing('/payment-method'), {
    subscription_id: poor.body.data.subscription_id,
    payment_method: { billing_key: 'bk_test_ok' },
  })
  expect([changed.status, changed.body.data.status]).toEqual([200, 'active'])
  const toDelete = () => world.query('select from billing.payment_method_to_delete')
  expect(await toDelete()).toHaveLength(1)
  await comesTrue(async () => ({ left: (await toDelete()).length }), { left: 0 })
  if (told.stored) {
    const [provider, billingKey] = await told.stored(there, setup.client)
    const charge = await provider.charge({
      key: `rl_${randomBytes(20).toString('hex')}`,
      accountId: 'poor',
      amount: { minor: 9900n, currency: 'KRW' },
      billingKey,
      description: 'With a card that was deleted',
    })
    expect(charge).toMatchObject({ kind: 'refused', code: 'billing_key_invalid' })
  }

  // A part goes back, then the rest.
  const refund = (invoice_id: string, amount?: number) =>
    world.post(billing('/refund'), { invoice_id, ...(amount !== undefined && { amount }) })
  const [second, first] = await invoices('good')
  expect((await refund(first.invoice_id, 900)).body.data).toMatchObject({ amount: 900, status: 'succeeded' })
  expect((await invoices('good'))[1]).toMatchObject({ status: 'partially_refunded', amount_refunded: 900 })
  expect((await refund(first.invoice_id)).body.data).toMatchObject({ amount: 9000, status: 'succeeded' })
  expect((await invoices('good'))[1]).toMatchObject({ status: 'refunded', amount_refunded: 9900 })
  expect((await refund(first.invoice_id)).body.error.code).toBe('nothing_to_refund')

  if (!told.disputes) return
  const { reference } = second.payments[0]
  const bank = (status: string) => world.post('/api/sandbox/provider/disputes', { reference, status })
  expect((await bank('open')).status).toBe(200)
  const payment = async () => (await invoices('good'))[0].payments[0]
  await comesTrue(payment, { disputed: true, dispute: { status: 'open' } })
  await expectBooksToAgree(told, world, there)
  expect((await refund(second.invoice_id)).body.error.code).toBe('payment_disputed')
  expect((await bank('lost')).status).toBe(200)
  await comesTrue(payment, { disputed: true, dispute: { status: 'lost', amount: 9900 } })
  expect((await invoices('good'))[0]).toMatchObject({ status: 'paid', amount_refunded: 0 })
  expect(await subscription(good.body.data.subscription_id)).toMatchObject({ status: 'active' })
}

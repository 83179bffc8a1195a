import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { BillingApp } from '../../src/billing/app.ts'
import { liftChargingStop } from '../../src/billing/charging-stop.ts'
import { findChargingStop } from '../../src/billing/charging-stop-rows.ts'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import { verifyStandardWebhook } from '../../src/billing/providers/standard-webhooks.ts'
import { openStopSwitch, stoppableProvider } from '../../src/billing/providers/stoppable-provider.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import {
  eraseOldBodies,
  openInbox,
  requeueWebhooks,
  takeWaiting,
} from '../../src/billing/webhooks/inbox-rows.ts'
import { processWebhooks } from '../../src/billing/webhooks/process-webhook.ts'
import { webhookRoutes } from '../../src/billing/webhooks/webhook-routes.ts'
import { openAccess } from '../../src/platform/access/access.ts'
import { openRateLimiter } from '../../src/platform/access/rate-limit.ts'
import { type Answered, buildHttp, type Http } from '../../src/platform/http/http.ts'
import { signStandardWebhook } from '../sign-webhook.ts'
import { type Answer, openWorld, type World } from '../world.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

const secretOf = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`
const [newest, older, foreign] = [secretOf(1), secretOf(2), secretOf(3)]
const hintSecret = 'h'.repeat(40)

describe('at the door', () => {
  let world: World
  beforeAll(async () => {
    world = await openWorld({
      now: '2026-03-05T09:00:00+09:00',
      environment: { WEBHOOK_SECRETS: `${newest},${older}`, HINT_SECRET: hintSecret },
    })
  })
  afterAll(() => world.close())

  const body = (reference = 'pay_none', type = 'payment.paid') =>
    Buffer.from(JSON.stringify({ type, timestamp: '2026-03-05T00:00:00Z', data: { reference } }))
  const newEventId = () => `evt_${randomBytes(8).toString('hex')}`
  const send = (raw: Buffer, headers: Record<string, string>): Promise<Answer> =>
    world.ask('POST', '/api/billing/webhook', {
      raw,
      token: null,
      headers: { 'content-type': 'application/json', ...headers },
    })
  const sign = (raw: Buffer, { id = newEventId(), secret = newest, at = new Date() } = {}) =>
    signStandardWebhook(secret, id, raw, at)
  const stored = async () =>
    (await world.query<{ n: number }>('select count(*)::int as n from billing.webhook'))[0]!.n
  const ago = (seconds: number) => new Date(Date.now() - seconds * 1000)

  test.each<[string, () => [Buffer, Record<string, string>]]>([
    ['unsigned', () => [body(), {}]],
    ['signed with a foreign secret', () => [body(), sign(body(), { secret: foreign })]],
    ['stale', () => [body(), sign(body(), { at: ago(301) })]],
    ['from the future', () => [body(), sign(body(), { at: ago(-310) })]],
    [
      're-serialised on the way',
      () => [Buffer.from(JSON.stringify(JSON.parse(body().toString()), null, 1)), sign(body())],
    ],
    ['truncated', () => [body().subarray(0, -1), sign(body())]],
    ['with one byte more', () => [Buffer.concat([body(), Buffer.from(' ')]), sign(body())]],
    ['under another id', () => [body(), { ...sign(body()), 'webhook-id': newEventId() }]],
    [
      'with its time changed',
      () => [body(), { ...sign(body()), 'webhook-timestamp': String(Math.floor(Date.now() / 1000) + 1) }],
    ],
    ['without its time', () => [body(), { ...sign(body()), 'webhook-timestamp': '' }]],
    [
      'with a signature of another scheme',
      () => [body(), { ...sign(body()), 'webhook-signature': 'v1a,AAAA' }],
    ],
    ['with the name of the scheme alone', () => [body(), { ...sign(body()), 'webhook-signature': 'v1,' }]],
    ['empty', () => [Buffer.alloc(0), {}]],
  ])('a webhook that is %s is refused and leaves nothing behind', async (_what, make) => {
    const before = await stored()
    const answer = await send(...make())
    expect([answer.status, answer.body.error.code]).toEqual([401, 'invalid_signature'])
    expect(await stored()).toBe(before)
  })

  test.each([
    ['of the newest secret', { secret: newest, ageMs: undefined }],
    ['of a secret that was rotated and is still listed', { secret: older, ageMs: undefined }],
    ['almost five minutes old', { ageMs: 290_000 }],
  ])('a signature %s is accepted', async (_what, { ageMs, ...key }) => {
    const by = { ...key, ...(ageMs !== undefined && { at: new Date(Date.now() - ageMs) }) }
    const answer = await send(body(), sign(body(), by))
    expect([answer.status, answer.body.data]).toEqual([200, { received: true, duplicate: false }])
  })

  test('a token in place of a signature opens nothing', async () => {
    const answer = await world.ask('POST', '/api/billing/webhook', { raw: body() })
    expect(answer.status).toBe(401)
  })

  test('the tolerance of a signature is real time, however far the clock was moved', async () => {
    await world.advanceBy('P1D')
    expect((await send(body(), sign(body()))).status).toBe(200)
    expect((await send(body(), sign(body(), { at: world.app.clock() }))).status).toBe(401)
  })

  test('signed nonsense is told apart from a forgery', async () => {
    const before = await stored()
    for (const raw of [Buffer.from('{"type":'), Buffer.from([0x22, 0xff, 0x22]), Buffer.from('')]) {
      const answer = await send(raw, sign(raw))
      expect([answer.status, answer.body.error.code]).toEqual([400, 'invalid_json'])
    }
    expect(await stored()).toBe(before)
  })

  test('any content type is taken, because the bytes are what was signed; more than 64 KiB are not', async () => {
    for (const type of ['text/plain', 'application/vnd.provider+json; charset=utf-8']) {
      expect((await send(body(), { ...sign(body()), 'content-type': type })).status).toBe(200)
    }
    const large = Buffer.from(
      JSON.stringify({ type: 'payment.paid', data: { reference: 'x'.repeat(65_536) } }),
    )
    expect((await send(large, sign(large))).status).toBe(413)
  })

  test('stored or not, when the link to the database breaks under it nobody knows; sent again it counts once', async () => {
    await world.query(`create function cut_link() returns trigger language plpgsql as $$
      begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$`)
    await world.query(
      'create trigger cut before insert on billing.webhook for each row execute function cut_link()',
    )
    const id = newEventId()
    const lost = await send(body(), sign(body(), { id }))
    await world.query('drop function cut_link() cascade')
    expect([lost.status, lost.body.error.type]).toEqual([500, 'OutcomeUnknown'])
    const [again, twice] = [
      await send(body(), sign(body(), { id })),
      await send(body(), sign(body(), { id })),
    ]
    expect([again.body.data, twice.body.data]).toEqual([
      { received: true, duplicate: false },
      { received: true, duplicate: true },
    ])
  })

  test('of twenty copies at once one is new, and it stays the only one for ever', async () => {
    const id = newEventId()
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(body(), sign(body(), { id }))))
    expect(answers.map((answer) => answer.status)).toEqual(Array(20).fill(200))
    expect(answers.filter((answer) => !answer.body.data.duplicate)).toHaveLength(1)
    await expect(world.query('delete from billing.webhook where event_id = $1', [id])).rejects.toThrow(
      /never/,
    )
    expect((await send(body('pay_other'), sign(body('pay_other'), { id }))).body.data.duplicate).toBe(true)
  })

  test('types nobody knows and words that cannot be stored are kept and ignored', async () => {
    for (const [reference, type] of [
      ['pay_1', 'customer.created'],
      ['pay_\u0000', 'payment.paid'],
      ['pay_1', 'payment.\u0000'],
    ] as const) {
      const id = newEventId()
      expect((await send(body(reference, type), sign(body(reference, type), { id }))).status).toBe(200)
      const [row] = await world.query('select status from billing.webhook where event_id = $1', [id])
      expect(row).toEqual({ status: 'ignored' })
    }
    for (const text of ['null', '7', '[]', '"x"', '{}', '{"data":null}']) {
      expect((await send(Buffer.from(text), sign(Buffer.from(text)))).status).toBe(200)
    }
  })

  test('the body is kept sealed and forgotten after 90 days; id and hash stay', async () => {
    const id = newEventId()
    const raw = body('pay_sealed')
    await send(raw, sign(raw, { id }))
    const read = async () =>
      (
        await world.query(
          "select sealed, encode(body_hash, 'hex') as hash from billing.webhook where event_id = $1",
          [id],
        )
      )[0]!
    const { sealed, hash } = await read()
    expect(sealed.includes('pay_sealed')).toBe(false)
    expect(world.app.billing.quietVault.open(sealed, `webhook:sandbox ${id}`)).toBe(raw.toString())
    await world.advanceBy('P89D')
    await eraseOldBodies(world.app.billing.db, world.app.clock())
    expect((await read()).sealed).not.toBeNull()
    await world.advanceBy('P2D')
    await eraseOldBodies(world.app.billing.db, world.app.clock())
    expect(await read()).toEqual({ sealed: null, hash })
    expect((await send(raw, sign(raw, { id }))).body.data.duplicate).toBe(true)
  })

  test('a hint needs its secret, and an unknown payment leaves no trace', async () => {
    const hint = (secret: string, given: object) =>
      world.ask('POST', `/api/billing/hints/${secret}`, { token: null, body: given })
    expect((await hint('x'.repeat(40), { orderId: 'pay_1' })).body.error.code).toBe('route_not_found')
    const before = await stored()
    expect((await hint(hintSecret, { orderId: 'pay_1' })).body.data).toEqual({ received: true })
    expect(await stored()).toBe(before)
  })
})

describe('what becomes of them', () => {
  let world: BillingWorld
  let http: Http
  let answered: Answered[]
  beforeEach(async () => {
    world = await openBillingWorld({ terms: { webhookSecrets: { scripted: [newest] }, hintSecret } })
    world.script.provider.verifyWebhook = verifyStandardWebhook
    world.script.provider.readWebhook = (body) => {
      const { type, reference, providerId, live } = body as {
        type: string
        reference: string | null
        providerId?: string
        live?: boolean
      }
      return { type, reference, live: live ?? null, ...(providerId !== undefined && { providerId }) }
    }
    answered = []
    http = openDoor(world.app)
  })
  afterEach(async () => {
    await http.close()
    await world.close()
  })

  function openDoor(app: BillingApp): Http {
    const door = buildHttp({
      access: openAccess(app.pool, app.clock),
      limiter: openRateLimiter(app.pool),
      openPrefixes: [],
      onAnswer: (answer) => void answered.push(answer),
      onFault: (error) => void world.faults.push(error),
    })
    webhookRoutes(door, app)
    return door
  }
  const post = (url: string, payload: Buffer, headers: Record<string, string> = {}) =>
    http.inject({ method: 'POST', url, payload, headers: { 'content-type': 'application/json', ...headers } })

  let count = 0
  async function tell(
    reference: string | null,
    type = 'payment.paid',
    id = `evt_${count++}`,
    more: object = {},
  ) {
    const raw = Buffer.from(JSON.stringify({ type, reference, ...more }))
    const answer = await post('/api/billing/webhook', raw, signStandardWebhook(newest, id, raw, new Date()))
    expect(answer.statusCode).toBe(200)
    return id
  }
  /** Acts on everything in the inbox, as the sweep does once the short wait for our own answer is over. */
  async function process() {
    await world.rows(`update billing.webhook set next_lookup_at = clock_timestamp() where status = 'waiting'`)
    return processWebhooks(world.app)
  }
  const statusOf = async (id: string) =>
    (await world.rows<{ status: string }>('select status from billing.webhook where event_id = $1', [id]))[0]
      ?.status
  const paymentOf = async (account: string) =>
    (
      await world.rows<{ id: string; status: string }>(
        'select provider_reference as id, status from billing.payment where account_id = $1',
        [account],
      )
    )[0]!
  /** Everything that an outcome changes. */
  const stateOf = async (account: string) => ({
    invoices: (await world.invoices(account)).map((one: { status: string; amount_paid: number }) => [
      one.status,
      one.amount_paid,
    ]),
    subscription: (
      await world.rows('select status from billing.subscription where account_id = $1', [account])
    )[0],
    transfers: (
      await world.rows('select count(*)::int as n from billing.ledger_transfer where account_id = $1', [
        account,
      ])
    )[0],
    paid: (
      await world.rows(
        `select count(*)::int as n from billing.event where account_id = $1 and type = 'invoice.paid'`,
        [account],
      )
    )[0],
  })

  test('a webhook before our own commit, after it, days late or lost leads to the same end', async () => {
    world.script.hooks.afterCharge = async (request) => {
      if (request.accountId !== 'early') return
      await tell(request.key)
      await process()
    }
    await world.subscribe('early')
    await world.subscribe('after')
    await world.subscribe('late')
    await world.subscribe('lost')
    await tell((await paymentOf('after')).id)
    await process()
    world.skipTo('2026-03-09T09:00:00+09:00')
    await tell((await paymentOf('late')).id)
    await process()

    const expected = await stateOf('lost')
    expect(expected).toMatchObject({
      invoices: [['paid', 9900]],
      subscription: { status: 'active' },
      transfers: { n: 1 },
      paid: { n: 1 },
    })
    for (const account of ['early', 'after', 'late']) expect(await stateOf(account)).toEqual(expected)
    expect(world.faults).toEqual([])
  })

  test('a lost answer is settled by the webhook, once, however often and in whatever order it comes', async () => {
    world.script.nextCharges({ kind: 'lost_answer' })
    world.script.state.silent = false
    const lookup = world.script.provider.findPayment
    world.script.provider.findPayment = async () => ({ kind: 'unknown' })
    expect((await world.subscribe('acct')).status).toBe(202)
    world.script.provider.findPayment = lookup

    const { id } = await paymentOf('acct')
    await tell(id, 'payment.refunded')
    await tell(id, 'payment.declined')
    await tell(id, 'payment.paid', 'evt_same')
    await tell(id, 'payment.paid', 'evt_same')
    const looks = world.script.calls.findPayment
    await process()
    await process()
    expect(world.script.calls.findPayment - looks).toBe(1)
    expect(await stateOf('acct')).toMatchObject({
      invoices: [['paid', 9900]],
      subscription: { status: 'active' },
      transfers: { n: 1 },
      paid: { n: 1 },
    })
    expect(await world.books()).toEqual({ provider: 9900, revenue: -9900 })
  })

  test('a signed lie changes nothing: the provider is asked', async () => {
    await world.subscribe('acct')
    const { id } = await paymentOf('acct')
    const before = await stateOf('acct')
    for (const type of ['payment.declined', 'payment.refunded', 'payment.disputed']) await tell(id, type)
    await process()
    expect(await stateOf('acct')).toEqual(before)
  })

  test('what we know already is not looked up, and a thousand such events are marked together', async () => {
    await world.subscribe('acct')
    const { id } = await paymentOf('acct')
    const looks = world.script.calls.findPayment
    await Promise.all(Array.from({ length: 1000 }, () => tell(id)))
    expect(await processWebhooks(world.app)).toBe(1000)
    expect(world.script.calls.findPayment).toBe(looks)
  })

  test('of copies that share one statement the first is new, and one that cannot be stored does not spoil the next', async () => {
    const inbox = openInbox(world.app.pool)
    const event = (eventId: string) => ({
      eventId,
      bodyHash: Buffer.alloc(32),
      provider: 'scripted',
      sealed: Buffer.alloc(40),
      type: 'payment.paid',
      claim: 'paid' as const,
      reference: 'pay_1',
      receivedAt: new Date(),
    })
    const added = ['a', 'b', 'b', 'a', 'b', 'c'].map((id) => inbox.add(event(id)))
    expect(await Promise.all(added)).toEqual([true, true, false, false, false, true])
    await expect(inbox.add({ ...event('d'), type: 'nul\u0000' })).rejects.toThrow()
    expect(await inbox.add(event('d'))).toBe(true)
  })

  test('a payment that is not ours is ignored without asking anyone', async () => {
    const id = await tell('pay_of_somebody_else')
    expect(await process()).toBe(1)
    expect(await statusOf(id)).toBe('ignored')
    expect(world.script.calls.findPayment).toBe(0)
  })

  test('a refund made at the provider itself is found through its webhook and booked once', async () => {
    await world.subscribe('acct')
    const { id } = await paymentOf('acct')
    world.script.book
      .get(id)!
      .refunds.push({ reference: null, amount: { minor: 900n, currency: 'KRW' }, status: 'succeeded' })
    await tell(id, 'payment.refunded')
    await tell(id, 'payment.refunded')
    await process()
    await tell(id, 'payment.refunded')
    await process()
    expect((await world.invoices('acct'))[0]).toMatchObject({
      status: 'partially_refunded',
      amount_refunded: 900,
    })
    expect(await world.books()).toEqual({ provider: 9000, refunds: 900, revenue: -9900 })
  })

  test('what cannot be told while a refund of ours is in doubt waits for it, however long', async () => {
    await world.subscribe('acct')
    const { id: reference } = await paymentOf('acct')
    const [invoice] = await world.invoices('acct')
    world.script.nextRefunds(...Array.from({ length: 40 }, () => ({ kind: 'lost_request' as const })))
    await world.post('/refund', { invoice_id: invoice.invoice_id, amount: 400 })
    const record = world.script.book.get(reference)!
    record.refunds.push({ reference: null, amount: { minor: 900n, currency: 'KRW' }, status: 'succeeded' })
    const id = await tell(reference, 'payment.refunded')
    for (let round = 0; round < 25; round++) await process()
    expect(
      await world.rows('select status, last_error from billing.webhook where event_id = $1', [id]),
    ).toEqual([{ status: 'waiting', last_error: 'in_motion' }])
    await world.advanceTo('2026-03-06T11:00:00+09:00')
    await process()
    expect(await statusOf(id)).toBe('done')
    expect((await world.invoices('acct'))[0]).toMatchObject({ amount_refunded: 900 })
  })

  test('a silent provider is asked again with growing waits, then the event is shown as failed and can be replayed', async () => {
    await world.subscribe('acct')
    const { id: paymentId } = await paymentOf('acct')
    const id = await tell(paymentId, 'payment.disputed')
    world.script.dispute(paymentId, 'open', new Date())
    world.script.state.silent = true
    const waits: number[] = []
    for (let round = 0; (await statusOf(id)) === 'waiting'; round++) {
      expect(round).toBeLessThan(30)
      await process()
      const [row] = await world.rows<{ wait: number }>(
        'select extract(epoch from next_lookup_at - clock_timestamp())::float8 as wait from billing.webhook where event_id = $1',
        [id],
      )
      waits.push(Math.round(row!.wait))
    }
    expect(waits.slice(0, 5)).toEqual([5, 10, 20, 40, 80])
    expect(await statusOf(id)).toBe('failed')

    world.script.state.silent = false
    await process()
    expect(await statusOf(id)).toBe('failed')
    expect(await requeueWebhooks(world.app.db, 'failed')).toEqual([{ eventId: id, queued: true }])
    await process()
    expect(await statusOf(id)).toBe('done')
    expect((await world.invoices('acct'))[0].payments[0].disputed).toBe(true)
  })

  test('an event whose settling fails is not lost, and does not hold up the others', async () => {
    await world.subscribe('broken')
    await world.subscribe('fine')
    const [broken, fine] = [await paymentOf('broken'), await paymentOf('fine')]
    const lookup = world.script.provider.findPayment
    world.script.provider.findPayment = async (reference) => {
      if (reference === broken.id) throw new TypeError('a bug')
      return lookup(reference)
    }
    const [first, second] = [
      await tell(broken.id, 'payment.refunded'),
      await tell(fine.id, 'payment.refunded'),
    ]
    await expect(process()).rejects.toThrow(TypeError)
    expect([await statusOf(first), await statusOf(second)]).toEqual(['waiting', 'done'])
    const [row] = await world.rows('select last_error from billing.webhook where event_id = $1', [first])
    expect(row).toEqual({ last_error: 'TypeError' })
    world.script.provider.findPayment = lookup
    await process()
    expect(await statusOf(first)).toBe('done')
  })

  test('events taken by a process that died are taken up again when its lease is over', async () => {
    await world.subscribe('acct')
    const id = await tell((await paymentOf('acct')).id, 'payment.refunded')
    await world.rows(`update billing.webhook set next_lookup_at = clock_timestamp()`)
    expect(await takeWaiting(world.app.db, 10, 60_000)).toHaveLength(1)
    expect(await processWebhooks(world.app)).toBe(0)
    await world.rows(`update billing.webhook set next_lookup_at = next_lookup_at - interval '61 seconds'`)
    expect(await processWebhooks(world.app)).toBe(1)
    expect(await statusOf(id)).toBe('done')
  })

  test('an event is looked at once, also when the provider takes all the time that it is given', async () => {
    await world.subscribe('acct')
    await tell((await paymentOf('acct')).id, 'payment.refunded')
    const lookup = world.script.provider.findPayment
    let meanwhile: number | undefined
    world.script.provider.findPayment = async (...asked) => {
      // For a refund that is on its way, and for the lookup itself.
      const silence = `interval '${(2 * world.app.terms.providerTimeoutMs) / 1000} seconds'`
      await world.rows(`update billing.webhook set next_lookup_at = next_lookup_at - ${silence}`)
      meanwhile = await processWebhooks(world.app)
      return lookup(...asked)
    }
    expect(await process()).toBe(1)
    expect(meanwhile).toBe(0)
  })

  test('an event waits while the provider itself does not know whether the money is taken', async () => {
    world.script.nextCharges({ kind: 'lost_answer' })
    world.script.hooks.afterCharge = async () => {
      world.script.state.silent = true
    }
    await world.subscribe('acct')
    world.script.hooks.afterCharge = async () => {}
    world.script.state.silent = false
    const { id: reference } = await paymentOf('acct')
    const record = world.script.book.get(reference)!
    record.status = 'pending'
    const id = await tell(reference, 'payment.changed')
    await process()
    expect(
      await world.rows('select status, last_error from billing.webhook where event_id = $1', [id]),
    ).toEqual([{ status: 'waiting', last_error: 'undecided' }])
    record.status = 'paid'
    await process()
    expect(await statusOf(id)).toBe('done')
    expect((await paymentOf('acct')).status).toBe('succeeded')
  })

  test('an event about a payment that waits for its customer is through: what they do is told anew', async () => {
    world.script.nextCharges({ kind: 'lost_answer' })
    world.script.hooks.afterCharge = async () => {
      world.script.state.silent = true
    }
    await world.subscribe('acct')
    world.script.hooks.afterCharge = async () => {}
    world.script.state.silent = false
    const { id: reference } = await paymentOf('acct')
    world.script.book.get(reference)!.status = 'awaiting'
    const id = await tell(reference, 'payment.changed')
    await process()
    expect(await statusOf(id)).toBe('done')
  })

  test('an unsigned hint makes us look the payment up, by our reference or the provider’s id, and is not believed', async () => {
    await world.subscribe('acct')
    const { id } = await paymentOf('acct')
    world.script.book
      .get(id)!
      .refunds.push({ reference: null, amount: { minor: 100n, currency: 'KRW' }, status: 'succeeded' })
    for (const body of [
      { eventType: 'PAYMENT_STATUS_CHANGED', data: { paymentKey: `prov_${id}`, totalAmount: 1 } },
      { orderId: id, status: 'CANCELED' },
    ]) {
      const answer = await post(`/api/billing/hints/${hintSecret}`, Buffer.from(JSON.stringify(body)))
      expect(answer.statusCode).toBe(200)
    }
    expect(await process()).toBe(1)
    expect((await world.invoices('acct'))[0].amount_refunded).toBe(100)
    world.script.book
      .get(id)!
      .refunds.push({ reference: null, amount: { minor: 50n, currency: 'KRW' }, status: 'succeeded' })
    await post(`/api/billing/hints/${hintSecret}`, Buffer.from(JSON.stringify({ order_id: id })))
    await process()
    expect((await world.invoices('acct'))[0].amount_refunded).toBe(150)
  })

  test('a hint that comes while its payment is looked at has it looked at again', async () => {
    await world.subscribe('acct')
    const { id } = await paymentOf('acct')
    const { findPayment } = world.script.provider
    const giveBack = async (minor: bigint) => {
      world.script.book
        .get(id)!
        .refunds.push({ reference: null, amount: { minor, currency: 'KRW' }, status: 'succeeded' })
      await post(`/api/billing/hints/${hintSecret}`, Buffer.from(JSON.stringify({ orderId: id })))
    }
    await giveBack(100n)
    world.script.provider.findPayment = async (...asked) => {
      const found = await findPayment(...asked)
      world.script.provider.findPayment = findPayment
      await giveBack(50n)
      return found
    }
    await process()
    await world.rows(`update billing.webhook set next_lookup_at = next_lookup_at - interval '61 seconds'`)
    await process()
    expect((await world.invoices('acct'))[0].amount_refunded).toBe(150)
    expect(await world.rows(`select status from billing.webhook where event_id like 'hint:%'`)).toEqual([
      { status: 'done' },
    ])
  })

  test('without HINT_SECRET there is no such route; with it, the log sees only the pattern', async () => {
    const hint = () => post(`/api/billing/hints/${hintSecret}`, Buffer.from('{}'))
    expect((await hint()).statusCode).toBe(200)
    expect(JSON.stringify(answered)).not.toContain(hintSecret)
    expect(answered[0]?.route).toBe('/api/billing/hints/:secret')
    await http.close()
    http = openDoor({ ...world.app, terms: { ...world.app.terms, hintSecret: undefined } })
    expect((await hint()).statusCode).toBe(404)
  })

  test('news that name nothing of ours are found by the id of the provider, also before we know it', async () => {
    await world.subscribe('disputed')
    const { id } = await paymentOf('disputed')
    world.script.dispute(id, 'open', world.app.clock())
    const asked: unknown[] = []
    const { findPayment } = world.script.provider
    world.script.provider.findPayment = async (...names) => {
      asked.push(names)
      return findPayment(...names)
    }
    const known = await tell(null, 'charge.dispute.created', undefined, { providerId: `prov_${id}` })
    await process()
    expect(await statusOf(known)).toBe('done')
    // A lookup of what we know is asked by the id that the provider gave it.
    expect(asked).toEqual([[id, `prov_${id}`]])
    const [invoice] = await world.invoices('disputed')
    expect(invoice.payments[0]).toMatchObject({ disputed: true, dispute: { status: 'open' } })

    const early = await tell(null, 'charge.dispute.created', undefined, { providerId: 'prov_later' })
    await process()
    expect(await statusOf(early)).toBe('waiting')
    await world.subscribe('later')
    await world.rows(`update billing.payment set provider_id = 'prov_later' where account_id = 'later'`)
    await process()
    expect(await statusOf(early)).toBe('done')

    const foreign = await tell(null, 'charge.dispute.created', undefined, { providerId: 'prov_foreign' })
    for (let round = 0; round < 8; round++) await process()
    expect(await statusOf(foreign)).toBe('ignored')
    expect(await statusOf(await tell(null, 'charge.dispute.created'))).toBe('ignored')
  })

  test('an event of test money is kept and ignored where money is real', async () => {
    await http.close()
    http = openDoor({ ...world.app, terms: { ...world.app.terms, sandbox: false } })
    await world.subscribe('real')
    const { id } = await paymentOf('real')
    expect(await statusOf(await tell(id, 'payment.refunded', undefined, { live: false }))).toBe('ignored')
    expect(await statusOf(await tell(id, 'payment.refunded', undefined, { live: true }))).toBe('waiting')
    expect(await findChargingStop(world.app.db)).toBeUndefined()
  })

  test('an event marked live in sandbox mode stops all charging until an operator lifts it', async () => {
    const stop = openStopSwitch({
      isStopped: async () => (await findChargingStop(world.app.db, 'scripted')) !== undefined,
      onCredentialsRefused: async () => {},
    })
    const provider = stoppableProvider(world.script.provider, stop)
    const charge = () =>
      provider.charge({
        key: `pay_${count++}`,
        accountId: 'a',
        amount: { minor: 1n, currency: 'KRW' },
        billingKey: 'bk_test_ok',
        description: 'x',
      })
    await tell('pay_x', 'payment.paid', undefined, { live: true })
    expect(await findChargingStop(world.app.db)).toMatchObject({ cause: 'live_webhook' })
    expect(await charge()).toEqual({ kind: 'not_sent' })
    expect(world.script.calls.charge).toBe(0)
    expect(await liftChargingStop(world.app)).toBe(true)
    await expect.poll(charge).toMatchObject({ kind: 'done' })
  })
})

test('notifications that are doubled, overtaken and dropped, beside answers that are lost, leave both books alike', async () => {
  const world = await openWorld({
    now: '2026-03-05T09:00:00+09:00',
    worker: true,
    webhooks: true,
  })
  try {
    const faults = {
      webhook_duplicate_rate: 0.7,
      webhook_reorder_rate: 0.3,
      webhook_drop_rate: 0.2,
      timeout_after_rate: 0.15,
      error_after_rate: 0.15,
      seed: 11,
    }
    expect((await world.post('/api/sandbox/provider/faults', faults)).status).toBe(200)
    const accounts = Array.from({ length: 12 }, (_, at) => `acct_${at}`)
    await Promise.all(
      accounts.map((account_id) =>
        world.post('/api/billing/subscribe', {
          account_id,
          plan_id: 'starter-monthly',
          payment_method: { billing_key: 'bk_test_ok' },
        }),
      ),
    )
    const settled = async () =>
      (
        await world.query<{ n: number }>(
          `select (select count(*) from billing.payment where status in ('sending', 'unknown'))
              + (select count(*) from billing.refund where status = 'pending')
              + (select count(*) from billing.webhook where status = 'waiting')
              + (select count(*) from sandbox.delivery where status = 'waiting') as n`,
        )
      )[0]!.n
    await expect.poll(settled, { interval: 250 }).toBe(0n)
    const { invoices } = (await world.get('/api/billing/invoices?limit=100')).body.data
    await Promise.all(
      invoices
        .slice(0, 6)
        .map(({ invoice_id }: { invoice_id: string }) =>
          world.post('/api/billing/refund', { invoice_id, amount: 1000 }),
        ),
    )
    await world.post('/api/sandbox/provider/faults', {})
    await expect.poll(settled, { interval: 250 }).toBe(0n)

    const doubled = await world.query(
      'select event_id from sandbox.delivery group by event_id having count(*) > 1',
    )
    expect(doubled.length).toBeGreaterThan(0)
    expect(
      await world.query(`select status, count(*)::int as n from billing.subscription group by status`),
    ).toEqual([{ status: 'active', n: 12 }])
    const found = await reconcilePayments(world.app.billing, new Date('2026-01-01'), new Date('2027-01-01'))
    expect(found).toEqual({ compared: 12, repaired: [], differences: [] })
    expect(await checkLedger(world.app.billing.db)).toEqual({ transfers: 18, faults: [] })
  } finally {
    await world.close()
  }
})

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Money } from '../../src/billing/money.ts'
import { portoneProvider } from '../../src/billing/providers/portone/portone.ts'
import { openScript } from './scripted-answers.ts'

let script: Awaited<ReturnType<typeof openScript>>
let provider: ReturnType<typeof portoneProvider>

beforeAll(async () => {
  script = await openScript()
  provider = portoneProvider({
    apiSecret: 'secret-1',
    storeId: 'store-1',
    channelKey: 'channel-key-1',
    baseUrl: script.url,
    timeoutMs: 5000,
  })
})
afterAll(() => script.close())

const won = (minor: bigint): Money => ({ minor, currency: 'KRW' })
const request = {
  key: 'rl_0123456789abcdef',
  accountId: 'acct_1',
  amount: won(9900n),
  billingKey: 'billing-key-1',
  description: 'Pro, December',
}
const paid = {
  status: 'PAID',
  id: request.key,
  amount: { total: 9900, cancelled: 0 },
  currency: 'KRW',
  requestedAt: '2026-01-01T00:00:00Z',
  paidAt: '2026-01-01T00:00:01Z',
  method: { type: 'PaymentMethodCard', card: { brand: 'MASTER', number: '512345******4242' } },
  disputes: [],
  aFieldOfTomorrow: true,
}
const failed = { ...paid, status: 'FAILED', failure: { reason: 'no', pgCode: 'REJECT_CARD_PAYMENT' } }
const taken = { status: 200, body: { payment: { pgTxId: 'pg-1', paidAt: '2026-01-01T00:00:01Z' } } }
const gatewayError = {
  status: 502,
  body: { type: 'PG_PROVIDER', message: '', pgCode: 'REJECT_CARD_COMPANY', pgMessage: 'no' },
}
const record = (body: unknown, status = 200) => ({ status, body })
const notFound = record({ type: 'PAYMENT_NOT_FOUND' }, 404)

describe('a charge', () => {
  test('sends our reference as payment id and as quoted key, and believes the record of the payment', async () => {
    script.will(taken, record(paid))
    expect(await provider.charge(request)).toMatchObject({
      kind: 'done',
      payment: {
        reference: request.key,
        providerId: request.key,
        amount: won(9900n),
        card: { brand: 'mastercard', last4: '4242', expires: '' },
      },
    })
    const [sent, read] = script.sent
    expect(sent).toMatchObject({ method: 'POST', path: `/payments/${request.key}/billing-key` })
    expect(sent?.headers).toMatchObject({
      authorization: 'PortOne secret-1',
      'idempotency-key': `"${request.key}"`,
    })
    expect(JSON.parse(sent?.body ?? '')).toEqual({
      storeId: 'store-1',
      billingKey: 'billing-key-1',
      channelKey: 'channel-key-1',
      orderName: 'Pro, December',
      customer: { id: 'acct_1' },
      amount: { total: 9900 },
      currency: 'KRW',
    })
    expect(read).toMatchObject({ method: 'GET', path: `/payments/${request.key}?storeId=store-1` })
  })

  test('without a channel leaves that to PortOne, which knows by which one the card came', async () => {
    const old = portoneProvider({ apiSecret: 's', storeId: 'store-1', baseUrl: script.url, timeoutMs: 5000 })
    script.will(taken, record(paid))
    expect(await old.charge(request)).toMatchObject({ kind: 'done' })
    expect(Object.keys(JSON.parse(script.sent[0]?.body ?? ''))).not.toContain('channelKey')
    // New cards go elsewhere, so nothing of this provider is collected.
    const asked = { setupId: 'setup_1', accountId: 'acct_1', customerKey: null, email: null }
    expect(await old.setUp(asked)).toEqual({ kind: 'refused' })
  })

  test.each([
    ['paid', taken, record(paid), { kind: 'done' }],
    [
      'another amount',
      taken,
      record({ ...paid, amount: { total: 100, cancelled: 0 } }),
      { kind: 'mismatch' },
    ],
    ['another currency', taken, record({ ...paid, currency: 'USD' }), { kind: 'mismatch' }],
    ['another payment', taken, record({ ...paid, id: 'rl_another_payment' }), { kind: 'mismatch' }],
    ['nothing yet', taken, notFound, { kind: 'unknown' }],
    ['no answer', taken, record('a proxy', 503), { kind: 'unknown' }],
    ['still pending', taken, record({ ...paid, status: 'PAY_PENDING' }), { kind: 'unknown' }],
    ['a status of tomorrow', taken, record({ ...paid, status: 'NEW' }), { kind: 'unknown' }],
    [
      'failed',
      gatewayError,
      record(failed),
      // The record's code counts, not the answer's.
      { kind: 'declined', code: 'insufficient_funds', raw: 'REJECT_CARD_PAYMENT' },
    ],
    ['paid after all', gatewayError, record(paid), { kind: 'done' }],
    ['nothing', gatewayError, notFound, { kind: 'unknown' }],
    [
      'failed without a reason',
      gatewayError,
      record({ ...failed, failure: {} }),
      { kind: 'declined', code: 'unknown' },
    ],
    [
      'failed for its currency',
      gatewayError,
      record({ ...failed, failure: { pgCode: 'NOT_SUPPORTED_CURRENCY' } }),
      { kind: 'refused', code: 'currency_not_supported', raw: 'NOT_SUPPORTED_CURRENCY' },
    ],
  ])('whose record says %s', async (_what, answer, looked, outcome) => {
    script.will(answer, looked)
    expect(await provider.charge(request)).toMatchObject(outcome)
    expect(script.sent).toHaveLength(2)
  })

  test.each([
    [401, { type: 'UNAUTHORIZED' }, { kind: 'credentials_refused' }],
    [403, { type: 'FORBIDDEN' }, { kind: 'credentials_refused' }],
    [403, { type: 'SOMETHING_ELSE' }, { kind: 'unknown' }],
    [401, 'a proxy', { kind: 'unknown' }],
    [
      404,
      { type: 'BILLING_KEY_NOT_FOUND' },
      { kind: 'refused', code: 'billing_key_invalid', raw: 'BILLING_KEY_NOT_FOUND' },
    ],
    [
      409,
      { type: 'BILLING_KEY_ALREADY_DELETED' },
      { kind: 'refused', code: 'billing_key_invalid', raw: 'BILLING_KEY_ALREADY_DELETED' },
    ],
    [400, { type: 'INVALID_REQUEST' }, { kind: 'refused', code: 'provider_error', raw: 'INVALID_REQUEST' }],
    [
      404,
      { type: 'CHANNEL_NOT_FOUND' },
      { kind: 'refused', code: 'provider_error', raw: 'CHANNEL_NOT_FOUND' },
    ],
    [409, { type: 'ALREADY_PAID' }, { kind: 'unknown' }],
    [409, { type: 'IDEMPOTENCY_OUTSTANDING_REQUEST' }, { kind: 'unknown' }],
    [400, { type: 'MAX_TRANSACTION_COUNT_REACHED' }, { kind: 'unknown' }],
    [429, { type: 'TOO_MANY' }, { kind: 'unknown' }],
    [500, { type: 'UNAUTHORIZED' }, { kind: 'unknown' }],
    [502, 'a proxy', { kind: 'unknown' }],
    [200, {}, { kind: 'unknown' }],
  ])('%i %j is told without a look', async (status, body, outcome) => {
    script.will({ status, body })
    expect(await provider.charge(request)).toEqual(outcome)
    expect(script.sent).toHaveLength(1)
  })

  test('a reference that the gateway could not take is not sent; a short key is made longer', async () => {
    script.will()
    for (const key of ['short', 'x'.repeat(65), 'with space', 'a/b/c/d'])
      expect(await provider.charge({ ...request, key })).toEqual({ kind: 'refused', code: 'provider_error' })
    expect(script.sent).toEqual([])
    script.will(taken, record({ ...paid, id: 'rl_short' }))
    expect(await provider.charge({ ...request, key: 'rl_short' })).toMatchObject({ kind: 'done' })
    expect(script.sent[0]?.headers['idempotency-key']).toBe('"--------rl_short"')
  })
})

describe('a lookup', () => {
  const found = async (body: object) => {
    script.will(record({ ...paid, ...body }))
    return provider.findPayment(request.key)
  }
  const cancellation = {
    status: 'SUCCEEDED',
    totalAmount: 900,
    reason: 'requested_by_customer [rl_refund_1]',
    requestedAt: '2026-01-02T00:00:00Z',
    trigger: 'API',
  }
  const dispute = {
    status: 'RESOLVED',
    createdAt: '2026-01-02T00:00:00Z',
    resolvedAt: '2026-01-03T00:00:00Z',
  }
  const dates = { openedAt: new Date(dispute.createdAt), closedAt: new Date(dispute.resolvedAt) }

  test('tells refunds apart by whose they are and how they stand', async () => {
    const cancellations = [
      cancellation,
      { ...cancellation, status: 'REQUESTED', reason: 'by hand', trigger: 'CONSOLE' },
      { ...cancellation, status: 'FAILED', reason: 'again [rl_refund_2]' },
    ]
    expect(
      await found({ status: 'PARTIAL_CANCELLED', amount: { total: 9900, cancelled: 900 }, cancellations }),
    ).toMatchObject({
      payment: {
        status: 'paid',
        refunded: won(900n),
        refunds: [
          { reference: 'rl_refund_1', status: 'succeeded' },
          { reference: null, status: 'pending' },
          { reference: 'rl_refund_2', status: 'failed' },
        ],
      },
    })
  })

  test('a dispute is open, won, or lost by chargeback, which is no refund', async () => {
    expect(await found({ disputes: [{ status: 'UNRESOLVED', createdAt: dispute.createdAt }] })).toMatchObject(
      {
        payment: {
          dispute: { status: 'open', amount: won(9900n), openedAt: dates.openedAt, closedAt: null },
        },
      },
    )
    expect(await found({ disputes: [dispute] })).toMatchObject({
      payment: { dispute: { status: 'won', ...dates } },
    })
    const chargeback = { ...cancellation, totalAmount: 9900, reason: 'chargeback', trigger: 'CHARGEBACK' }
    const lost = {
      status: 'CANCELLED',
      amount: { total: 9900, cancelled: 9900 },
      cancellations: [chargeback],
      disputes: [dispute],
    }
    const told = {
      status: 'paid',
      refunded: won(0n),
      refunds: [],
      dispute: { status: 'lost', amount: won(9900n) },
    }
    expect(await found(lost)).toMatchObject({ payment: told })
    // Where the cancelled shape carries no disputes, the chargeback itself tells.
    expect(await found({ ...lost, disputes: undefined })).toMatchObject({ payment: told })
  })

  describe('a dispute is about what was left when it was opened, whatever goes back later', () => {
    const back = (totalAmount: number, day: number, more: object = {}) => ({
      ...cancellation,
      totalAmount,
      requestedAt: `2026-01-0${day}T00:00:00Z`,
      ...more,
    })
    const chargeback = { reason: 'chargeback', trigger: 'CHARGEBACK' }
    const unresolved = { status: 'UNRESOLVED', createdAt: dispute.createdAt }

    test.each([
      ['won, then a part went back', dispute, [back(900, 4)], 'won', 9900n],
      ['won, then all went back', dispute, [back(9900, 4)], 'won', 9900n],
      ['a part had gone back before', dispute, [back(900, 1)], 'won', 9000n],
      ['a part before, the rest after', dispute, [back(900, 1), back(9000, 4)], 'won', 9000n],
      [
        'asked for before, and back only after it was opened',
        dispute,
        [back(900, 1, { cancelledAt: '2026-01-04T00:00:00Z' })],
        'won',
        9900n,
      ],
      ['one that failed before', dispute, [back(900, 1, { status: 'FAILED' })], 'won', 9900n],
      ['open, and a part went back meanwhile', unresolved, [back(900, 3)], 'open', 9900n],
      ['all had gone back before it was opened', unresolved, [back(9900, 1)], 'open', 1n],
      ['open while the bank took all back', unresolved, [back(9900, 3, chargeback)], 'open', 9900n],
      ['opened after the bank took all back', unresolved, [back(9900, 1, chargeback)], 'open', 1n],
    ])('%s', async (_what, told, cancellations, status, amount) => {
      const cancelled = cancellations.reduce((sum, one) => sum + one.totalAmount, 0)
      expect(
        await found({ amount: { total: 9900, cancelled }, cancellations, disputes: [told] }),
      ).toMatchObject({ payment: { dispute: { status, amount: won(amount) } } })
    })
  })

  test('what a bank took stays lost while another dispute is open, and whoever wins that one', async () => {
    const chargeback = { ...cancellation, totalAmount: 5000, reason: 'chargeback', trigger: 'CHARGEBACK' }
    const cancellations = [{ ...chargeback, requestedAt: dispute.resolvedAt }]
    const second = { status: 'UNRESOLVED', createdAt: '2026-01-05T00:00:00Z' }
    const lost = { amount: { total: 9900, cancelled: 5000 }, cancellations }
    const open = { status: 'open', amount: won(4900n), alreadyLost: won(5000n) }
    for (const disputes of [
      [dispute, second],
      [second, dispute],
    ])
      expect(await found({ ...lost, disputes })).toMatchObject({ payment: { dispute: open } })
    const resolved = { ...second, status: 'RESOLVED', resolvedAt: '2026-01-06T00:00:00Z' }
    expect(await found({ ...lost, disputes: [dispute, resolved] })).toMatchObject({
      payment: { dispute: { status: 'lost', amount: won(5000n) } },
    })
  })

  describe('once money went back the record shows no disputes, and says so', () => {
    const since = new Date('2026-01-04T00:00:00Z')
    const back = { ...cancellation, requestedAt: '2026-01-03T00:00:00Z', cancelledAt: since.toISOString() }
    const gone = { status: 'PARTIAL_CANCELLED', amount: { total: 9900, cancelled: 900 }, disputes: undefined }
    const chargeback = { ...back, reason: 'chargeback', trigger: 'CHARGEBACK' }
    const later = { ...back, cancelledAt: '2026-01-05T00:00:00Z' }
    const failed = { ...back, status: 'FAILED', cancelledAt: undefined }

    test.each([
      ['a part', { ...gone, cancellations: [back] }, null, since],
      ['all', { ...gone, status: 'CANCELLED', cancellations: [back] }, null, since],
      ['several times', { ...gone, cancellations: [later, failed, back] }, null, since],
      ['to the bank', { ...gone, cancellations: [chargeback] }, { status: 'lost' }, since],
      ['none', { disputes: [] }, null, undefined],
      ['none, and one failed', { disputes: [], cancellations: [failed] }, null, undefined],
      [
        'a part, and disputes are shown all the same',
        { ...gone, cancellations: [back], disputes: [dispute] },
        { status: 'won' },
        undefined,
      ],
    ])('%s', async (_what, body, shown, hiddenSince) => {
      const lookup = await found(body)
      if (lookup.kind !== 'found') throw new Error(`it is ${lookup.kind}`)
      const { dispute: told, disputesHiddenSince } = lookup.payment
      expect(told).toEqual(shown && expect.objectContaining(shown))
      expect(disputesHiddenSince).toEqual(hiddenSince)
    })
  })

  test('one that was ended before anything was taken is canceled', async () => {
    expect(await found({ status: 'CANCELLED', paidAt: undefined })).toMatchObject({
      payment: { status: 'canceled' },
    })
  })

  test.each([
    [404, { type: 'PAYMENT_NOT_FOUND' }, 'none'],
    [404, 'a proxy', 'unknown'],
    [401, { type: 'UNAUTHORIZED' }, 'credentials_refused'],
    [200, { ...paid, id: 'rl_another_payment' }, 'mismatch'],
    [200, { status: 'PAID' }, 'unknown'],
  ])('%i %j says %s', async (status, body, kind) => {
    script.will({ status, body })
    expect(await provider.findPayment(request.key)).toEqual({ kind })
  })
})

describe('a refund', () => {
  const refund = {
    key: 'rl_refund_0123456789',
    payment: { reference: request.key, providerId: request.key },
    amount: won(900n),
    remaining: won(9900n),
    reason: 'requested_by_customer',
  }
  const cancellation = {
    status: 'SUCCEEDED',
    id: 'c-1',
    totalAmount: 900,
    reason: `requested_by_customer [${refund.key}]`,
    requestedAt: '2026-01-02T00:00:00Z',
  }

  test.each([
    [200, { cancellation }, 'done'],
    [200, { cancellation: { ...cancellation, status: 'REQUESTED' } }, 'pending'],
    // A 200 may well say that it failed.
    [200, { cancellation: { ...cancellation, status: 'FAILED' } }, 'declined'],
    [200, { cancellation: { ...cancellation, totalAmount: 901 } }, 'mismatch'],
    [200, { cancellation: { ...cancellation, reason: 'another' } }, 'mismatch'],
    [200, {}, 'unknown'],
    [409, { type: 'CANCELLABLE_AMOUNT_CONSISTENCY_BROKEN' }, 'remaining_differs'],
    [409, { type: 'PAYMENT_ALREADY_CANCELLED' }, 'remaining_differs'],
    [409, { type: 'CANCEL_AMOUNT_EXCEEDS_CANCELLABLE_AMOUNT' }, 'remaining_differs'],
    [409, { type: 'PAYMENT_NOT_PAID' }, 'declined'],
    [404, { type: 'PAYMENT_NOT_FOUND' }, 'declined'],
    [409, { type: 'IDEMPOTENCY_OUTSTANDING_REQUEST' }, 'unknown'],
    [503, {}, 'unknown'],
    [401, { type: 'UNAUTHORIZED' }, 'credentials_refused'],
  ])('%i %j is %s', async (status, body, kind) => {
    script.will({ status, body })
    expect(await provider.refund(refund)).toEqual({ kind })
    expect(JSON.parse(script.sent[0]?.body ?? '')).toEqual({
      storeId: 'store-1',
      amount: 900,
      reason: `requested_by_customer [${refund.key}]`,
      currentCancellableAmount: 9900,
    })
  })

  test.each([
    [{ cancellations: [cancellation] }, 'done'],
    [{ cancellations: [{ ...cancellation, status: 'FAILED' }] }, 'declined'],
    [{ cancellations: [{ ...cancellation, totalAmount: 1 }] }, 'mismatch'],
    [{ disputes: [{ status: 'UNRESOLVED', createdAt: '2026-01-02T00:00:00Z' }] }, 'disputed'],
    [{}, 'unknown'],
  ])('that the gateway refused is read from the record %j: %s', async (more, kind) => {
    script.will(gatewayError, record({ ...paid, ...more }))
    expect(await provider.refund(refund)).toEqual({ kind })
  })
})

describe('notifications', () => {
  // Computed by the rule of Standard Webhooks and accepted by the official verifier.
  const secret = 'whsec_cG9ydG9uZS10ZXN0LXNlY3JldC0zMi1ieXRlcy1vayE='
  const body = Buffer.from(
    '{"type":"Transaction.Paid","timestamp":"2023-11-14T22:13:20.000Z","data":{"paymentId":"pay-0001","storeId":"store-1","transactionId":"tx-1"}}',
  )
  const headers = {
    'webhook-id': 'wh_0001',
    'webhook-timestamp': '1700000000',
    'webhook-signature': 'v1,hPUDxc+VgB4AxGOib0F0qhegWTcAu77xF4P3B1xa6YY=',
  }
  const other = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
  const at = (seconds: number) => new Date((1_700_000_000 + seconds) * 1000)

  test('the vector is verified by either of two secrets, five minutes both ways', () => {
    const verified = (secrets: string[], seconds = 0) =>
      provider.verifyWebhook({ headers, body, secrets, now: at(seconds) })
    expect(verified([secret])).toEqual({ eventId: 'wh_0001' })
    expect(verified([other, secret], 300)).toEqual({ eventId: 'wh_0001' })
    expect(verified([secret], -300)).toEqual({ eventId: 'wh_0001' })
    expect(verified([secret], 301)).toBeUndefined()
    expect(verified([secret], -301)).toBeUndefined()
    expect(verified([other])).toBeUndefined()
  })

  test('secrets of its own win over those of the delivery', () => {
    const own = portoneProvider({
      apiSecret: 'x',
      storeId: 's',
      channelKey: 'c',
      timeoutMs: 1,
      webhookSecrets: [other],
    })
    expect(own.verifyWebhook({ headers, body, secrets: [secret], now: at(0) })).toBeUndefined()
  })

  test('both versions of the body name the payment', () => {
    expect(provider.readWebhook(JSON.parse(body.toString()))).toEqual({
      type: 'Transaction.Paid',
      reference: 'pay-0001',
      live: null,
    })
    expect(provider.readWebhook({ payment_id: 'pay-0001', tx_id: 'tx-1', status: 'Paid' })).toMatchObject({
      reference: 'pay-0001',
    })
    expect(provider.readWebhook({ type: 'BillingKey.Deleted', data: { billingKey: 'k' } })).toEqual({
      type: 'BillingKey.Deleted',
      reference: null,
      live: null,
    })
  })
})

test.each([
  [200, { deletedAt: '2026-01-01T00:00:00Z' }, 'done'],
  [409, { type: 'BILLING_KEY_ALREADY_DELETED' }, 'done'],
  [404, { type: 'BILLING_KEY_NOT_FOUND' }, 'done'],
  [404, 'a proxy', 'unknown'],
  [409, { type: 'PAYMENT_SCHEDULE_ALREADY_EXISTS' }, 'unknown'],
  [502, { type: 'PG_PROVIDER' }, 'unknown'],
  [403, { type: 'FORBIDDEN' }, 'credentials_refused'],
])('deleting a card, answered %i %j, is %s', async (status, body, kind) => {
  script.will({ status, body })
  expect(await provider.forget('billing-key-1')).toEqual({ kind })
  expect(script.sent[0]).toMatchObject({
    method: 'DELETE',
    path: '/billing-keys/billing-key-1?storeId=store-1',
  })
})

test.each([
  [404, { type: 'BILLING_KEY_NOT_FOUND' }, 'invalid'],
  [502, { type: 'BILLING_KEY_NOT_FOUND' }, 'unknown'],
  [409, { type: 'IDEMPOTENCY_OUTSTANDING_REQUEST' }, 'unknown'],
  [429, { type: 'TOO_MANY' }, 'unknown'],
])('reading a card, answered %i %j, is %s', async (status, body, kind) => {
  script.will({ status, body })
  expect(await provider.describe('billing-key-1')).toEqual({ kind })
})

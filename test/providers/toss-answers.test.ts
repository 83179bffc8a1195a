import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Money } from '../../src/billing/money.ts'
import { isHard } from '../../src/billing/providers/port.ts'
import { tossProvider } from '../../src/billing/providers/toss/toss.ts'
import { openScript } from './scripted-answers.ts'

const secretKey = 'test_sk_example'
const billingKey = 'Z_t5vOvQxrj4499PeiJcjen28-V2RyqgYTwN44Rdzk0='
let script: Awaited<ReturnType<typeof openScript>>
let provider: ReturnType<typeof tossProvider>

beforeAll(async () => {
  script = await openScript()
  provider = tossProvider({ secretKey, baseUrl: `${script.url}/`, timeoutMs: 5000 })
})
afterAll(() => script.close())

const won = (minor: bigint): Money => ({ minor, currency: 'KRW' })
const request = {
  key: 'rl_0123456789',
  accountId: 'acct_1',
  amount: won(9900n),
  billingKey: `customer-1:${billingKey}`,
  description: 'Pro, December',
}
const payment = {
  paymentKey: 'tviva20220101',
  orderId: request.key,
  status: 'DONE',
  currency: 'KRW',
  totalAmount: 9900,
  balanceAmount: 9900,
  requestedAt: '2022-01-01T00:00:00+09:00',
  approvedAt: '2022-01-01T00:00:01+09:00',
  cancels: null,
  card: { issuerCode: '61', number: '43301234****123*' },
  failure: null,
  aFieldOfTomorrow: { is: 'ignored' },
}
const charged = async (status: number, body: unknown) => {
  script.will({ status, body })
  return provider.charge(request)
}

describe('a charge', () => {
  test('sends credentials by the documented vector, our reference twice, and the pair of keys', async () => {
    expect(await charged(200, payment)).toMatchObject({
      kind: 'done',
      payment: {
        reference: request.key,
        providerId: 'tviva20220101',
        card: { brand: 'hyundai', last4: '123*', expires: '' },
        at: new Date('2021-12-31T15:00:01Z'),
      },
    })
    const [sent] = script.sent
    expect(sent).toMatchObject({ method: 'POST', path: `/v1/billing/${encodeURIComponent(billingKey)}` })
    expect(sent?.headers).toMatchObject({
      authorization: 'Basic dGVzdF9za19leGFtcGxlOg==',
      'idempotency-key': request.key,
    })
    expect(JSON.parse(sent?.body ?? '')).toEqual({
      amount: 9900,
      customerKey: 'customer-1',
      orderId: request.key,
      orderName: 'Pro, December',
    })
  })

  test.each([
    [403, 'REJECT_CARD_PAYMENT', 'insufficient_funds', false],
    [403, 'REJECT_ACCOUNT_PAYMENT', 'insufficient_funds', false],
    [400, 'EXCEED_MAX_AMOUNT', 'limit_exceeded', false],
    [403, 'EXCEED_MAX_ONE_DAY_AMOUNT', 'limit_exceeded', false],
    [400, 'EXCEED_MAX_MONTHLY_PAYMENT_AMOUNT', 'limit_exceeded', false],
    [403, 'REJECT_CARD_COMPANY', 'do_not_honor', false],
    [400, 'INVALID_REJECT_CARD', 'do_not_honor', false],
    [400, 'INVALID_CARD_EXPIRATION', 'expired_card', true],
    [400, 'INVALID_CARD_NUMBER', 'invalid_card', true],
    [400, 'INVALID_STOPPED_CARD', 'invalid_card', true],
    [403, 'EXCEED_MAX_AUTH_COUNT', 'invalid_card', true],
    [400, 'INVALID_CARD_LOST_OR_STOLEN', 'lost_or_stolen', true],
    [400, 'NOT_SUPPORTED_CARD_TYPE', 'not_supported', true],
    [403, 'FDS_ERROR', 'not_supported', true],
    [400, 'NOT_AVAILABLE_PAYMENT', 'processing_error', false],
    [403, 'NOT_AVAILABLE_BANK', 'processing_error', false],
  ] as const)('%i %s is a decline: %s', async (status, raw, code, hard) => {
    expect(await charged(status, { code: raw, message: 'no' })).toEqual({ kind: 'declined', code, raw })
    expect(isHard(code)).toBe(hard)
  })

  test.each([
    [401, 'UNAUTHORIZED_KEY'],
    [400, 'INVALID_API_KEY'],
    [403, 'FORBIDDEN_REQUEST'],
    [403, 'INCORRECT_BASIC_AUTH_FORMAT'],
  ])('%i %s is about our credentials', async (status, code) => {
    expect(await charged(status, { code, message: '' })).toEqual({ kind: 'credentials_refused' })
  })

  test.each(['INVALID_BILL_KEY_REQUEST', 'NOT_MATCHES_CUSTOMER_KEY', 'ALREADY_REMOVED_BILLING_KEY'])(
    '%s is a billing key that is none',
    async (code) => {
      expect(await charged(400, { code })).toEqual({
        kind: 'refused',
        code: 'billing_key_invalid',
        raw: code,
      })
    },
  )

  test.each([
    [400, { code: 'PROVIDER_ERROR' }],
    [400, { code: 'CARD_PROCESSING_ERROR' }],
    [400, { code: 'DUPLICATED_ORDER_ID' }],
    [400, { code: 'ALREADY_PROCESSED_PAYMENT' }],
    [409, { code: 'IDEMPOTENT_REQUEST_PROCESSING' }],
    [403, { code: 'FORBIDDEN_CONSECUTIVE_REQUEST' }],
    [429, { code: 'TOO_MANY_REQUESTS' }],
    [500, { code: 'FAILED_INTERNAL_SYSTEM_PROCESSING' }],
    // What a server says that fails itself proves nothing.
    [500, { code: 'REJECT_CARD_PAYMENT' }],
    [502, 'a proxy'],
    [403, null],
    [403, { message: 'no code at all' }],
    [400, { code: 'A_CODE_OF_TOMORROW' }],
    [401, { error: 'another language' }],
    [200, {}],
    [200, { ...payment, status: 'IN_PROGRESS' }],
    [200, { ...payment, status: 'A_STATUS_OF_TOMORROW' }],
    [302, payment],
  ])('%i %j is unknown', async (status, body) => {
    expect(await charged(status, body)).toEqual({ kind: 'unknown' })
  })

  test.each([
    { orderId: 'rl_another_order' },
    { totalAmount: 9901 },
    { currency: 'USD' },
    { currency: 'XXX' },
  ])('a replay that names %j is a mismatch', async (other) => {
    expect(await charged(200, { ...payment, ...other })).toEqual({ kind: 'mismatch' })
  })

  test('a request that Toss refuses is no card’s fault, and its code is told', async () => {
    for (const raw of ['NOT_SUPPORTED_METHOD', 'INVALID_REQUEST'])
      expect(await charged(400, { code: raw })).toEqual({ kind: 'refused', code: 'provider_error', raw })
  })

  test('what Toss could not take is not sent: another currency, no key, a reference out of bounds', async () => {
    script.will()
    const refused = (code: string) => ({ kind: 'refused', code })
    expect(await provider.charge({ ...request, amount: { minor: 1n, currency: 'USD' } })).toEqual(
      refused('currency_not_supported'),
    )
    for (const none of ['..', '', 'ключ', 'x'.repeat(201), '../payments'])
      expect(await provider.charge({ ...request, billingKey: none })).toEqual(refused('billing_key_invalid'))
    for (const key of ['short', 'x'.repeat(65), 'with space', 'a/b/c/d/e'])
      expect(await provider.charge({ ...request, key })).toEqual(refused('provider_error'))
    expect(script.sent).toEqual([])
  })

  test('a billing key without its customer key is tried with the account', async () => {
    script.will({ status: 200, body: payment })
    await provider.charge({ ...request, billingKey })
    expect(JSON.parse(script.sent[0]?.body ?? '')).toMatchObject({ customerKey: 'acct_1' })
  })
})

describe('a lookup', () => {
  const found = async (body: object) => {
    script.will({ status: 200, body: { ...payment, ...body } })
    return provider.findPayment(request.key)
  }

  test('PARTIAL_CANCELED with a balance of zero is all given back', async () => {
    const cancels = [
      { cancelAmount: 900, cancelReason: 'requested_by_customer [rl_refund_1]', cancelStatus: 'DONE' },
      { cancelAmount: 9000, cancelReason: 'by hand in the console' },
    ]
    expect(await found({ status: 'PARTIAL_CANCELED', balanceAmount: 0, cancels })).toMatchObject({
      payment: {
        status: 'paid',
        refunded: won(9900n),
        refunds: [
          { reference: 'rl_refund_1', amount: won(900n), status: 'succeeded' },
          { reference: null, amount: won(9000n), status: 'succeeded' },
        ],
      },
    })
  })

  test.each([
    ['REJECT_CARD_COMPANY', 'do_not_honor'],
    ['PROVIDER_ERROR', 'processing_error'],
    ['A_CODE_OF_TOMORROW', 'unknown'],
  ])('an aborted one is declined for its reason: %s', async (code, declineCode) => {
    const aborted = { status: 'ABORTED', approvedAt: null, balanceAmount: 0, failure: { code, message: '' } }
    expect(await found(aborted)).toMatchObject({
      payment: { status: 'declined', declineCode, rawCode: code, refunded: won(0n) },
    })
  })

  test.each([
    [404, { code: 'NOT_FOUND_PAYMENT' }, 'none'],
    [404, { code: 'NOT_FOUND' }, 'unknown'],
    [404, 'a proxy', 'unknown'],
    [403, { code: 'FORBIDDEN_CONSECUTIVE_REQUEST' }, 'unknown'],
    [200, { ...payment, orderId: 'rl_another_order' }, 'mismatch'],
    [401, { code: 'UNAUTHORIZED_KEY' }, 'credentials_refused'],
  ])('%i %j says %s', async (status, body, kind) => {
    script.will({ status, body })
    expect(await provider.findPayment(request.key)).toEqual({ kind })
  })
})

describe('a refund', () => {
  const refund = {
    key: 'rl_refund_1',
    payment: { reference: request.key, providerId: 'tviva20220101' },
    amount: won(900n),
    remaining: won(9900n),
    reason: 'requested_by_customer',
  }
  const cancels = [
    { cancelAmount: 900, cancelReason: 'requested_by_customer [rl_refund_1]', cancelStatus: 'DONE' },
  ]
  const refunded = async (status: number, body: unknown) => {
    script.will({ status, body })
    return provider.refund(refund)
  }

  test('carries key, reference and the remainder we expect', async () => {
    expect(await refunded(200, { ...payment, cancels })).toEqual({ kind: 'done' })
    expect(script.sent[0]).toMatchObject({
      path: '/v1/payments/tviva20220101/cancel',
      headers: { 'idempotency-key': 'rl_refund_1' },
    })
    expect(JSON.parse(script.sent[0]?.body ?? '')).toEqual({
      cancelReason: 'requested_by_customer [rl_refund_1]',
      cancelAmount: 900,
      refundableAmount: 9900,
    })
  })

  test.each([
    [200, { ...payment, cancels: [{ ...cancels[0], cancelStatus: 'IN_PROGRESS' }] }, 'pending'],
    [200, { ...payment, cancels: [{ ...cancels[0], cancelStatus: 'ABORTED' }] }, 'declined'],
    [200, { ...payment, cancels: null }, 'mismatch'],
    [200, { ...payment, cancels: [{ ...cancels[0], cancelAmount: 901 }] }, 'mismatch'],
    [200, { ...payment, cancels, orderId: 'rl_another_order' }, 'mismatch'],
    [400, { code: 'NOT_MATCHES_REFUNDABLE_AMOUNT' }, 'remaining_differs'],
    [400, { code: 'ALREADY_CANCELED_PAYMENT' }, 'remaining_differs'],
    [403, { code: 'NOT_CANCELABLE_AMOUNT' }, 'remaining_differs'],
    [400, { code: 'REFUND_REJECTED' }, 'declined'],
    [403, { code: 'NOT_CANCELABLE_PAYMENT' }, 'declined'],
    [400, { code: 'PROVIDER_ERROR' }, 'unknown'],
    [500, { code: 'FAILED_REFUND_PROCESS' }, 'unknown'],
    [403, { code: 'FORBIDDEN_CONSECUTIVE_REQUEST' }, 'unknown'],
    [403, { code: 'FORBIDDEN_REQUEST' }, 'credentials_refused'],
  ])('%i %j is %s', async (status, body, kind) => {
    expect(await refunded(status, body)).toEqual({ kind })
  })
})

test('a listing asks in Korean time by whole seconds, and leaves out what lies outside', async () => {
  const at = (text: string) => ({
    transactionKey: `t${text}`,
    paymentKey: 'p',
    status: 'DONE',
    transactionAt: text,
  })
  const outside = [at('2022-01-01T08:59:59+09:00'), at('2022-01-01T09:00:02+09:00')]
  script.will(
    { status: 200, body: [...outside, at('2022-01-01T09:00:01+09:00')] },
    { status: 200, body: payment },
  )
  const listed = await provider.listPayments(
    new Date('2022-01-01T00:00:00.500Z'),
    new Date('2022-01-01T00:00:01.500Z'),
    null,
  )
  expect(listed).toMatchObject({ kind: 'page', payments: [{ reference: request.key }], next: null })
  const asked = new URL(script.sent[0]?.path ?? '', script.url).searchParams
  expect(asked.get('startDate')).toBe('2022-01-01T09:00:00')
  expect(asked.get('endDate')).toBe('2022-01-01T09:00:02')
})

test('an exchange answered for another customer is no card', async () => {
  script.will({ status: 200, body: { billingKey, customerKey: 'somebody-else', card: null } })
  expect(await provider.exchange('ak', 'customer-1')).toEqual({ kind: 'unknown' })
  script.will()
  expect(await provider.exchange('ak', 'not: a customer key')).toEqual({ kind: 'refused' })
  expect(script.sent).toEqual([])
})

test.each([
  [400, 'PROVIDER_ERROR'],
  [400, 'CARD_PROCESSING_ERROR'],
  [400, 'COMMON_ERROR'],
  [403, 'FAILED_CARD_COMPANY_RESPONSE'],
  [400, 'FAILED_INTERNAL_SYSTEM_PROCESSING'],
  [400, 'UNKNOWN_PAYMENT_ERROR'],
  [403, 'NOT_AVAILABLE_BANK'],
  [403, 'TOO_MANY_REQUESTS'],
  [409, 'IDEMPOTENT_REQUEST_PROCESSING'],
])('%i %s while a card is stored says nothing of the card', async (status, code) => {
  script.will({ status, body: { code } })
  expect(await provider.exchange('ak', 'customer-1')).toEqual({ kind: 'unknown' })
})

test('a hint names the payment, or none', () => {
  const type = 'PAYMENT_STATUS_CHANGED'
  expect(provider.readWebhook({ eventType: type, data: { orderId: 'rl_1' } })).toEqual({
    type,
    reference: 'rl_1',
    live: null,
  })
  expect(provider.readWebhook({ orderId: 'rl_1', status: 'DONE', secret: 's' })).toMatchObject({
    reference: 'rl_1',
  })
  for (const odd of [null, 7, [], {}, { data: null }, { data: { orderId: 7 } }, 'x'])
    expect(provider.readWebhook(odd)).toEqual({ type: 'unknown', reference: null, live: null })
})

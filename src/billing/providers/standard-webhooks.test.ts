import { describe, expect, test } from 'vitest'
import { signStandardWebhook } from '../../../test/sign-webhook.ts'
import { verifyStandardWebhook } from './standard-webhooks.ts'

const ascending = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
const other = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

const vectors = [
  {
    source: 'the standard',
    secret: ascending,
    id: 'msg_0001',
    at: 1_700_000_000,
    body: '{"type":"invoice.paid","timestamp":"2023-11-14T22:13:20Z","data":{"id":"inv_1"}}',
    signature: 'v1,kmzgsmZrpjOCwIP+i5LXxP42VzvqDPtrz7EdZkXHLKI=',
  },
  {
    source: 'the reference libraries',
    secret: other,
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    at: 1_614_265_330,
    body: '{"test": 2432232314}',
    signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  },
  {
    source: 'PortOne',
    secret: 'whsec_cG9ydG9uZS10ZXN0LXNlY3JldC0zMi1ieXRlcy1vayE=',
    id: 'wh_0001',
    at: 1_700_000_000,
    body: '{"type":"Transaction.Paid","timestamp":"2023-11-14T22:13:20.000Z","data":{"paymentId":"pay-0001","storeId":"store-1","transactionId":"tx-1"}}',
    signature: 'v1,hPUDxc+VgB4AxGOib0F0qhegWTcAu77xF4P3B1xa6YY=',
  },
]

const [standard] = vectors as [(typeof vectors)[number]]

type Changes = {
  headers?: Record<string, string | string[] | undefined>
  body?: string
  secrets?: string[]
  lateBySeconds?: number
}

function verify({
  headers,
  body = standard.body,
  secrets = [standard.secret],
  lateBySeconds = 0,
}: Changes = {}) {
  return verifyStandardWebhook({
    headers: {
      'webhook-id': standard.id,
      'webhook-timestamp': String(standard.at),
      'webhook-signature': standard.signature,
      ...headers,
    },
    body: Buffer.from(body),
    secrets,
    now: new Date((standard.at + lateBySeconds) * 1000),
  })
}

describe.each(vectors)('the vector of $source', ({ secret, id, at, body, signature }) => {
  const now = new Date(at * 1000)
  const headers = { 'webhook-id': id, 'webhook-timestamp': String(at), 'webhook-signature': signature }

  test('is what we sign', () => {
    expect(signStandardWebhook(secret, id, Buffer.from(body), now)).toEqual(headers)
  })

  test('is authentic, also when the secret lacks its prefix', () => {
    const delivery = { headers, body: Buffer.from(body), now }
    expect(verifyStandardWebhook({ ...delivery, secrets: [secret] })).toEqual({ eventId: id })
    expect(verifyStandardWebhook({ ...delivery, secrets: [secret.replace('whsec_', '')] })).toEqual({
      eventId: id,
    })
  })
})

test.each<[string, Changes]>([
  ['the second of two live secrets', { secrets: [other, ascending] }],
  [
    'one good signature among others',
    { headers: { 'webhook-signature': `v1a,AAAA v1,AAAA ${standard.signature}` } },
  ],
  ['300 s late', { lateBySeconds: 300 }],
  ['300 s early', { lateBySeconds: -300 }],
])('a notification is authentic with %s', (_what, changes) => {
  expect(verify(changes)).toEqual({ eventId: standard.id })
})

test.each<[string, Changes]>([
  ['no secret', { secrets: [] }],
  ['another secret', { secrets: [other] }],
  ['an empty secret', { secrets: ['', 'whsec_'] }],
  ['a body with one more space', { body: `${standard.body} ` }],
  ['another id', { headers: { 'webhook-id': 'msg_0002' } }],
  ['another time', { headers: { 'webhook-timestamp': String(standard.at + 1) } }],
  ['301 s late', { lateBySeconds: 301 }],
  ['301 s early', { lateBySeconds: -301 }],
  ['a time that is no number', { headers: { 'webhook-timestamp': 'NaN' } }],
  ['no id', { headers: { 'webhook-id': undefined } }],
  ['no time', { headers: { 'webhook-timestamp': undefined } }],
  ['no signature', { headers: { 'webhook-signature': undefined } }],
  ['an empty signature', { headers: { 'webhook-signature': 'v1,' } }],
  ['a scheme we do not know', { headers: { 'webhook-signature': standard.signature.replace('v1', 'v2') } }],
  ['the id twice as a list', { headers: { 'webhook-id': [standard.id, standard.id] } }],
  ['the id twice, joined', { headers: { 'webhook-id': `${standard.id}, ${standard.id}` } }],
  ['the time twice, joined', { headers: { 'webhook-timestamp': `${standard.at}, ${standard.at}` } }],
  [
    'the signature twice, joined',
    { headers: { 'webhook-signature': `${standard.signature}, ${standard.signature}` } },
  ],
  ['a dot in the id', { headers: { 'webhook-id': 'msg.0001' } }],
  [
    'more signatures than anyone needs',
    { headers: { 'webhook-signature': Array.from({ length: 17 }, () => standard.signature).join(' ') } },
  ],
])('a notification is refused with %s', (_what, changes) => {
  expect(verify(changes)).toBeUndefined()
})

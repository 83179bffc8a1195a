import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { verifyStripeSignature } from './stripe-signature.ts'

const secret = 'whsec_test_secret'
const at = 1_700_000_000
const body =
  '{"id":"evt_1","object":"event","type":"payment_intent.succeeded","data":{"object":{"id":"pi_1"}}}'
const v1 = 'v1=fefc9f342c93756902ead65ee7eabe2a78fcb81640dbc0b9b696542391939af2'
const byOldSecret = 'v1=132c4a4e331efe070705034b0e136bb09e3160eb845a98c163ecbdf9e329f17f'

type Changes = {
  header?: string | string[] | undefined
  body?: string
  secrets?: string[]
  lateBySeconds?: number
}

function verify(changes: Changes): boolean {
  return verifyStripeSignature({
    headers: { 'stripe-signature': 'header' in changes ? changes.header : `t=${at},${v1}` },
    body: Buffer.from(changes.body ?? body),
    secrets: changes.secrets ?? [secret],
    now: new Date((at + (changes.lateBySeconds ?? 0)) * 1000),
  })
}

test.each<[string, Changes]>([
  ['the published vector', {}],
  ['two secrets of the provider during a roll', { header: `t=${at},${byOldSecret},${v1},v0=ignored` }],
  ['the second of our secrets', { secrets: ['whsec_new', secret] }],
  [
    'the old secret, while it is live',
    { header: `t=${at},${byOldSecret}`, secrets: [secret, 'whsec_old_secret'] },
  ],
  ['300 s late', { lateBySeconds: 300 }],
  ['300 s early', { lateBySeconds: -300 }],
])('an event is authentic with %s', (_what, changes) => {
  expect(verify(changes)).toBe(true)
})

test.each<[string, Changes]>([
  ['no header', { header: undefined }],
  ['the header twice as a list', { header: [`t=${at},${v1}`, `t=${at},${v1}`] }],
  ['the header twice, joined', { header: `t=${at},${v1}, t=${at},${v1}` }],
  ['no time', { header: v1 }],
  ['no signature', { header: `t=${at}` }],
  ['only a scheme we do not know', { header: `t=${at},${v1.replace('v1', 'v0')}` }],
  ['another time', { header: `t=${at + 1},${v1}` }],
  ['a time that is no number', { header: `t=1e9,${v1}` }],
  ['upper case hex', { header: `t=${at},v1=${v1.slice(3).toUpperCase()}` }],
  ['half a signature', { header: `t=${at},${v1.slice(0, 35)}` }],
  ['another body', { body: body.replace('pi_1', 'pi_2') }],
  ['another secret', { secrets: ['whsec_other'] }],
  ['no secret', { secrets: [] }],
  ['301 s late', { lateBySeconds: 301 }],
  ['301 s early', { lateBySeconds: -301 }],
  [
    'more signatures than anyone needs',
    { header: `t=${at},${Array.from({ length: 17 }, () => v1).join(',')}` },
  ],
])('an event is refused with %s', (_what, changes) => {
  expect(verify(changes)).toBe(false)
})

test('an empty secret verifies nothing, not even what was signed with it', () => {
  const signature = createHmac('sha256', '').update(`${at}.${body}`).digest('hex')
  expect(verify({ header: `t=${at},v1=${signature}`, secrets: [''] })).toBe(false)
})

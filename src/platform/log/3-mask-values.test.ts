import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findValues, maskText, maskValues } from './3-mask-values.ts'
import { maskDecoded } from './decoded.ts'
import { isCardNumber, isPhoneNumber, isResidentNumber } from './personal-numbers.ts'

const hex = (text: string) => Buffer.from(text).toString('hex')
const base64 = (text: string) => Buffer.from(text).toString('base64')

test.each([
  ['a card number', '4111111111111111', '[masked]'],
  ['one between words', 'paid with 4111111111111111.', 'paid with [masked].'],
  ['one in groups', 'card 4111 1111 1111 1111 12/28', 'card [masked] 12/28'],
  ['one with dashes and a neighbour', '4111-1111-1111-1111-2026', '[masked]-2026'],
  ['American Express', '3782 822463 10005', '[masked]'],
  ['a Korean domestic card', '9410123456789010', '[masked]'],
  ['single digits', '4.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1', '[masked]'],
  ['full-width digits', '４１１１１１１１１１１１１１１１', '[masked]'],
  ['Arabic digits', '٤١١١١١١١١١١١١١١١', '[masked]'],
  ['zero-width characters', '4111\u200b1111\u200b1111\u200b1111', '[masked]'],
  ['percent escapes', 'x=%34111111111111111&y', 'x=[masked]&y'],
  ['doubled percent escapes', '%2534111111111111111', '[masked]'],
  ['Unicode escapes', String.raw`\u0034111111111111111`, '[masked]'],
  ['entities', '&#52;111111111111111', '[masked]'],
  ['base64', `got ${base64('pan 4111111111111111 x')}`, 'got [masked]=='],
  ['base64 behind a path', `/a/${base64('4111111111111111')}`, '[masked]=='],
  ['base64 of base64', base64(base64('4111111111111111')), '[masked]'],
  ['hexadecimal', hex('4111111111111111'), '[masked]'],
  ['a code beside its cue', 'cvc 123', 'cvc [masked]'],
  ['a code in camel case', '{"cardCvc":"1234"}', '{"cardCvc":"[masked]"}'],
  ['a code before its cue', 'it was 123 (cvv)', 'it was [masked] (cvv)'],
  ['a code in base64', 'security code: MTIz', 'security code: [masked]'],
  ['a Korean cue', '보안코드 123', '보안코드 [masked]'],
  ['a resident number', '900101-1234567', '[masked]'],
  ['one without separator', '9001011234568', '[masked]'],
  ['mobile phones', 'call 010-1234-5678 or 01012345678', 'call [masked] or [masked]'],
  ['international phones', 'tel:+82-10-1234-5678', 'tel:+[masked]'],
  ['land lines', '02-123-4567, 031) 123-4567', '[masked], [masked]'],
  ['American phones', '(415) 555-2671', '([masked]'],
  ['an e-mail address', 'to <hong.gildong+x@mail.example.co.kr>', 'to <[masked]>'],
  ['a password in a URL', 'postgres://app:p%40ss@db:5432/x', 'postgres://[masked]@db:5432/x'],
  ['our token', 'rl_test_abcDEF123', '[masked]'],
  ['provider keys', 'sk_live_abc test_sk_abc whsec_ab+/=', '[masked] [masked] [masked]'],
  ['billing keys', 'bk_test_ok pm_1abcdef billing-key-0193', '[masked] [masked] [masked]'],
  ['a Toss billing key', 'Z_t5vOvQxrj4499PeiJcjen28-V2RyqgYTwN44Rdzk0=', '[masked]'],
  ['a bearer token', 'Authorization: Bearer abc123def456', 'Authorization: Bearer [masked]'],
  ['a JWT', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln', '[masked]'],
  ['a PEM block', 'a -----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY----- b', 'a [masked] b'],
  ['half a PEM block', 'a -----BEGIN PRIVATE KEY-----\nMIIB', 'a [masked]'],
])('%s is masked', (_, text, masked) => {
  expect(maskText(text)).toBe(masked)
})

test.each([
  ['the reference of a payment', 'PAYMENT rl_60f4449b12b5946629b5016612ac0d67499fefe7  a1'],
  ['the name of a migration', '20261118T0220-billing-reconciliation-reason.sql'],
  ['which setting to correct', 'The sandbox refuses this key; correct PROVIDER_SECRET_KEY.'],
  ['which setting, at the end of a line', 'correct PROVIDER_SECRET_KEY.\nok    workers\n'],
  ['which setting, in JSON', '{"message": "correct PROVIDER_SECRET_KEY.", "setting": "TOSS_SECRET_KEY"}'],
  ['which setting, in the middle', 'correct TOSS_SECRET_KEY, an API key (sk) of a shop'],
])('%s is told', (_, text) => {
  expect(maskText(text)).toBe(text)
})

test.each([
  ['a setting with its value', 'STRIPE_SECRET_KEY=abc', 'STRIPE[masked]'],
  ["Stripe's secret of one payment", 'pi_1_secret_key_of_it', 'pi_1[masked]'],
  ['a key that begins like a migration', '20261118T0220-billing-reconciliation-Reason', '[masked]'],
  ['a longer word of hexadecimal digits', `rl_${'60f4449b12'.repeat(4)}a`, '[masked]'],
])('%s is masked all the same', (_, text, masked) => {
  expect(maskText(text)).toBe(masked)
})

test('numbers and keys of objects are looked at too', () => {
  expect(maskValues({ n: 4111111111111111, '010-1234-5678': [true, 7, null] })).toEqual({
    n: '[masked]',
    '[masked]': [true, 7, null],
  })
})

test('a card number needs issuer, length and check digit together', () => {
  expect(
    ['4111111111111111', '378282246310005', '30569309025904', '6304000000000000'].map(isCardNumber),
  ).toEqual([true, true, true, true])
  expect(
    ['4111111111111112', '411111111111111', '1111111111111117', '0000000000000000'].map(isCardNumber),
  ).toEqual([false, false, false, false])
})

test('a resident number needs a date, and its check digit unless it is younger than the check digit', () => {
  expect(isResidentNumber('9001011234568', false)).toBe(true)
  expect(isResidentNumber('9001011234561', false)).toBe(false)
  expect(isResidentNumber('9001011234561', true)).toBe(true)
  expect(isResidentNumber('2301013234561', false)).toBe(true)
  expect(isResidentNumber('9013011234568', true)).toBe(false)
})

test('a phone number begins with zero or the country code', () => {
  expect(['01012345678', '0212345678', '821012345678'].map(isPhoneNumber)).toEqual([true, true, true])
  expect(['1012345678', '0000012345', '20261115'].map(isPhoneNumber)).toEqual([false, false, false])
})

describe('the short way for harmless text', () => {
  const search = (text: string) => maskDecoded(text, findValues)
  const pieces = [
    'bk_',
    'pm_',
    'sk_live_',
    'bearer ',
    'key-',
    'billing-key-',
    '-----BEGIN ',
    '_secret_',
    'cvc',
    'ab',
    '_',
    '-',
    '/',
    ':',
    ' ',
    '1',
    '23',
    '.',
    'x',
    '@',
    'A',
    '%34',
    'rl_test_',
    'digest abcdefg_h',
    'akia',
    'xoxb-',
    'whsec_',
  ]

  test('gives what the full search gives', () => {
    const texts = fc.oneof(
      fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((parts) => parts.join('')),
      fc.string({ maxLength: 40 }),
      fc.stringMatching(/^[a-z_./:*{}, -]{0,30}\d?[a-z_-]{0,10}\d?$/),
    )
    fc.assert(
      fc.property(texts, (text) => {
        expect(maskText(text)).toBe(search(text))
      }),
      { numRuns: 20_000, seed: 1 },
    )
  })
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { InvariantError } from '../platform/invariant.ts'
import { type Currency, formatMoney, fromJson, isCurrency, type Money, subtract, toJson } from './money.ts'

const won = (minor: bigint): Money => ({ minor, currency: 'KRW' })
const dollars = (minor: bigint): Money => ({ minor, currency: 'USD' })

const anyMinor = fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n })

test('won and dollars never mix', () => {
  expect(() => subtract(won(1n), dollars(1n))).toThrow(InvariantError)
})

test('what is taken away leaves the rest, to the last unit', () => {
  fc.assert(
    fc.property(anyMinor, anyMinor, (a, b) => {
      expect(subtract(won(a + b), won(b))).toEqual(won(a))
    }),
  )
})

describe('in JSON', () => {
  test('an amount is a number of minor units and comes back unchanged', () => {
    expect(toJson(won(9900n))).toEqual({ amount: 9900, currency: 'KRW' })
    fc.assert(
      fc.property(fc.maxSafeInteger(), (amount) => {
        expect(toJson(fromJson({ amount, currency: 'USD' })!)).toEqual({
          amount,
          currency: 'USD',
        })
      }),
    )
  })

  test('an amount that a double cannot hold is never written', () => {
    expect(toJson(won(BigInt(Number.MAX_SAFE_INTEGER))).amount).toBe(Number.MAX_SAFE_INTEGER)
    expect(() => toJson(won(BigInt(Number.MAX_SAFE_INTEGER) + 1n))).toThrow(InvariantError)
    expect(() => toJson(won(-(2n ** 53n)))).toThrow(InvariantError)
  })

  test.each([
    [{ amount: 2 ** 53, currency: 'KRW' }],
    [{ amount: 19.5, currency: 'USD' }],
    [{ amount: Number.NaN, currency: 'USD' }],
    [{ amount: '19', currency: 'USD' }],
    [{ amount: 19n, currency: 'USD' }],
    [{ amount: 19, currency: 'usd' }],
    [{ amount: 19, currency: 'XXX' }],
    [{ amount: 19, currency: 'toString' }],
    [{ amount: 19, currency: undefined }],
  ])('%o is no money', (json) => {
    expect(fromJson(json)).toBeUndefined()
  })
})

test.each<[Money, string, string]>([
  [won(9900n), 'en-US', '₩9,900'],
  [won(9900n), 'ko-KR', '₩9,900'],
  [won(0n), 'en-US', '₩0'],
  [won(-9900n), 'en-US', '-₩9,900'],
  [dollars(1900n), 'en-US', '$19.00'],
  [dollars(5n), 'en-US', '$0.05'],
  [dollars(-5n), 'en-US', '-$0.05'],
  [dollars(1900n), 'ko-KR', 'US$19.00'],
  [{ minor: 290000n, currency: 'JPY' }, 'en-US', '¥290,000'],
  [{ minor: 1234567n, currency: 'EUR' }, 'de-DE', '12.345,67\u00A0€'],
  [{ minor: 1500n, currency: 'KWD' }, 'en-US', 'KWD\u00A01.500'],
  [{ minor: 1500n, currency: 'IQD' }, 'en-US', 'IQD\u00A01.500'],
  [dollars(900719925474099301n), 'en-US', '$9,007,199,254,740,993.01'],
])('%o reads in %s as %s', (money, locale, text) => {
  expect(formatMoney(money, locale)).toBe(text)
})

test.each<[Currency, number]>([
  ['KRW', 0],
  ['JPY', 0],
  ['VND', 0],
  ['CLP', 0],
  ['XOF', 0],
  ['USD', 2],
  ['EUR', 2],
  ['HUF', 2],
  ['KWD', 3],
  ['BHD', 3],
  ['TND', 3],
])('%s has %i digits after the point', (currency, digits) => {
  const text = formatMoney({ minor: 1n, currency }, 'en-US')
  expect(text.replace(/[^0-9.]/g, '')).toBe(digits === 0 ? '1' : `0.${'1'.padStart(digits, '0')}`)
})

test('retired codes, funds and metals are no currencies', () => {
  for (const code of [
    'HRK',
    'BGN',
    'ANG',
    'ZWL',
    'SLL',
    'DEM',
    'XAU',
    'XDR',
    'CHE',
    'UYI',
    'XTS',
    '',
    'krw',
  ]) {
    expect(isCurrency(code), code).toBe(false)
  }
})

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isToken, newToken, tokenIdOf } from './token.ts'

test('a new token is of its mode and of no other', () => {
  const token = newToken('test')
  expect(isToken(token)).toBe(true)
  expect(isToken(token, 'test')).toBe(true)
  expect(isToken(token, 'live')).toBe(false)
  expect(tokenIdOf(token)).toHaveLength(12)
})

test('a single wrong character is refused before anything is read', () => {
  const token = newToken('live')
  fc.assert(
    fc.property(fc.nat(token.length - 1), fc.constantFrom(...'0aZ9'), (at, letter) => {
      const typo = token.slice(0, at) + letter + token.slice(at + 1)
      expect(isToken(typo)).toBe(typo === token)
    }),
  )
})

test.each(['', 'rl_test_', 'Bearer x', 'rl_prod_abc', `${newToken('test')} `, newToken('test').slice(1)])(
  '"%s" is no token',
  (text) => expect(isToken(text)).toBe(false),
)

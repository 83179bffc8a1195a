import { createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openVault } from './vault.ts'

const first = { version: 1, key: randomBytes(32) }
const second = { version: 2, key: randomBytes(32) }

test('whatever is sealed opens again for the same row', () => {
  const vault = openVault([first])
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, row) => {
      expect(vault.open(vault.seal(text, row), row)).toBe(text)
    }),
  )
})

test('a value copied to another row does not open', () => {
  const vault = openVault([first])
  const sealed = vault.seal('bk_test_ok', 'payment_method:1')
  expect(() => vault.open(sealed, 'payment_method:2')).toThrow()
})

test('any flipped bit is noticed', () => {
  const vault = openVault([first])
  const sealed = vault.seal('bk_test_ok', 'row')
  for (let at = 0; at < sealed.length * 8; at++) {
    const bent = Buffer.from(sealed)
    bent[at >> 3]! ^= 1 << (at & 7)
    expect(() => vault.open(bent, 'row')).toThrow()
  }
})

test('after a rotation the old key still opens, the new one seals, and what is old can be told', () => {
  const old = openVault([first]).seal('bk_test_ok', 'row')
  const vault = openVault([second, first])
  expect(vault.open(old, 'row')).toBe('bk_test_ok')
  expect(vault.isCurrent(old)).toBe(false)
  expect(vault.isCurrent(vault.seal('x', 'row'))).toBe(true)
  expect(() => openVault([second]).open(old, 'row')).toThrow(/lacks key version 1/)
})

test('two seals of one text differ', () => {
  const vault = openVault([first])
  expect(vault.seal('x', 'row').equals(vault.seal('x', 'row'))).toBe(false)
})

test('each purpose has a key of its own, derived from the vault key as the decision page says', () => {
  const sealed = openVault([first]).seal('bk_test_ok', 'payment_method:1')
  const openedWith = (purpose: string) => {
    const key = Buffer.from(hkdfSync('sha256', first.key, Buffer.alloc(0), `rankledger vault ${purpose}`, 32))
    const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(5, 17))
      .setAAD(Buffer.concat([sealed.subarray(0, 5), Buffer.from('payment_method:1')]))
      .setAuthTag(sealed.subarray(17, 33))
    return Buffer.concat([decipher.update(sealed.subarray(33)), decipher.final()]).toString()
  }
  expect(openedWith('payment_method')).toBe('bk_test_ok')
  expect(() => openedWith('webhook')).toThrow()
})

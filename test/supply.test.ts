import { expect, test } from 'vitest'
import { isPermissive, licenceFaults, secretFaults, secretsIn } from '../tools/supply.ts'

test('every locked package has a permissive licence', () => {
  expect(licenceFaults()).toEqual([])
})

test('nothing that looks like a secret is committed', () => {
  expect(secretFaults()).toEqual([])
})

test.each([
  ['GPL-3.0', false],
  ['AGPL-3.0-only', false],
  ['MPL-2.0', false],
  ['(GPL-2.0 OR MIT)', true],
  ['MIT AND GPL-2.0', false],
  ['BSD-3-Clause', true],
  ['UNLICENSED', false],
])('licence %s: %s', (licence, fine) => {
  expect(isPermissive(licence, false)).toBe(fine)
})

test('the shapes of secrets are found', () => {
  const planted = [
    `sk_${'live'}_${'a1'.repeat(12)}`,
    `whsec_${'Ab1+'.repeat(8)}`,
    `rl_${'test'}_${'x9'.repeat(24)}`,
    `AKIA${'A1'.repeat(8)}`,
    `ghp_${'a'.repeat(36)}`,
    `-----BEGIN ${'PRIVATE'} KEY-----\n${'A'.repeat(64)}`,
  ]
  for (const secret of planted) expect(secretsIn('x', `key = "${secret}"`)).toHaveLength(1)
  expect(secretsIn('x', 'whsec_… sk_live_… rl_test_…')).toEqual([])
})

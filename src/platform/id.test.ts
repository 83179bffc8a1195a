import { expect, test } from 'vitest'
import { callerIdPattern, isId, newId } from './id.ts'

const noon = new Date('2026-11-15T12:00:00Z')

test('an id is its prefix and 26 characters that survive being read aloud', () => {
  expect(newId('sub_', noon)).toMatch(/^sub_[0-9a-hjkmnp-tv-z]{26}$/)
})

test('ids sort by the instant they were made, byte for byte, from 1970 to 3084', () => {
  const instants = [0, 1, 31, 32, 1023, 1e9, 1e12, noon.getTime(), noon.getTime() + 1, 4e12, 2 ** 45 - 1]
  const ids = instants.map((ms) => newId('evt_', new Date(ms)))
  expect([...ids].sort()).toEqual(ids)
})

test('ids made in one millisecond sort in the order of making, however many', () => {
  const ids = Array.from({ length: 5000 }, () => newId('inv_', noon))
  expect([...ids].sort()).toEqual(ids)
  expect(new Set(ids).size).toBe(5000)
})

test('a clock that steps back a little does not break the order', () => {
  const later = newId('pay_', new Date(noon.getTime() + 40))
  expect(newId('pay_', noon) > later).toBe(true)
})

test('a clock that was turned back far is believed, and prefixes do not disturb each other', () => {
  const nextYear = newId('run_', new Date('2027-11-15T12:00:00Z'))
  expect(newId('run_', noon) < nextYear).toBe(true)
  const other = newId('mdl_', noon)
  expect(other.slice(4, 14) < nextYear.slice(4, 14)).toBe(true)
})

test('two ids of the same instant share nothing that could be guessed', () => {
  const chance = Array.from({ length: 2000 }, () => newId('ref_', noon).slice(-16))
  expect(new Set(chance).size).toBe(2000)
  // Every character of the alphabet turns up at every place; the odds against are below 1 in 10^24.
  for (let place = 0; place < 16; place++) {
    expect(new Set(chance.map((text) => text[place])).size).toBe(32)
  }
})

test('an id outside the clock of the format is a defect', () => {
  expect(() => newId('req_', new Date(Number.NaN))).toThrow('an id needs a time')
  expect(() => newId('req_', new Date(-1))).toThrow('an id needs a time')
})

test.each([
  ['its own id', newId('sub_', noon), true],
  ['another prefix', newId('inv_', noon), false],
  ['no prefix', newId('sub_', noon).slice(4), false],
  ['one character short', newId('sub_', noon).slice(0, -1), false],
  ['one character long', `${newId('sub_', noon)}0`, false],
  ['upper case', `sub_${'A'.repeat(26)}`, false],
  ['a letter outside the alphabet', `${newId('sub_', noon).slice(0, -1)}u`, false],
  ['a trailing newline', `${newId('sub_', noon).slice(0, -1)}\n`, false],
  ['nothing', '', false],
  ['a number', 42, false],
  ['undefined', undefined, false],
])('as a subscription id, %s is judged by shape', (_, text, verdict) => {
  expect(isId('sub_', text)).toBe(verdict)
})

test.each([
  ['acct_1', true],
  ['a', true],
  ['A-Za.z0:9_', true],
  ['x'.repeat(64), true],
  ['x'.repeat(65), false],
  ['', false],
  ['a b', false],
  ['a/b', false],
  ['나이키', false],
  ['a\n', false],
])("a caller's id %j is accepted: %s", (text, verdict) => {
  expect(callerIdPattern.test(text)).toBe(verdict)
})

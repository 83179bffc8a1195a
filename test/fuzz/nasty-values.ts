import type { Random } from '../simulation/random.ts'
import { literally } from './sound-request.ts'

/** Texts that have broken other people's services. */
export const nastyTexts: readonly string[] = [
  '',
  ' ',
  '\u0000',
  'a\u0000b',
  '\ud800',
  'x\udfffy',
  '\udc00\ud800',
  '\u202eevil\u202c',
  '\u2066\u2069',
  '\ufeff',
  '\ufffe\uffff',
  '\u200b\u200d',
  '👩‍👩‍👧‍👦',
  'é'.normalize('NFD'),
  'ㅋㅋ',
  '\r\nX-Injected: yes',
  'NaN',
  'null',
  'undefined',
  '-0',
  '1e400',
  "'; drop table billing.payment; --",
  '$1',
  '%',
  '%s%n',
  '\\',
  '{{7*7}}',
  '../../etc/passwd',
  '__proto__',
  'constructor',
  'toString',
  '<script>alert(1)</script>',
  '2026-02-30',
  '9999-99-99',
  '0000-00-00',
  '2026-11-15T09:00:00',
  '2026-11-15T25:61:61Z',
  '+275760-09-13T00:00:00.001Z',
  '-271821-04-20T00:00:00Z',
  'P1Y2M',
  'P99999999999999D',
  'PT-1S',
  'Etc/GMT+99',
  'Asia/Seoul\u0000',
  'x'.repeat(65),
  'x'.repeat(513),
  '가'.repeat(2_000),
  'x'.repeat(10_000),
]

/** Texts that JSON can carry and PostgreSQL, or UTF-8, cannot. */
export const unstorableTexts: readonly string[] = ['\u0000', 'a\u0000b', '\ud800', 'x\udfffy']

/** Numbers at the edge of what machines count with, some of them only writable as text. */
export const nastyNumbers: readonly (number | string)[] = [
  0,
  -1,
  0.5,
  1.0000000001,
  literally('-9007199254740993'),
  Number.MAX_SAFE_INTEGER,
  2 ** 53,
  2 ** 31,
  2 ** 63,
  1e21,
  1e308,
  5e-324,
  literally('1e400'),
  literally('-1e400'),
  literally('-0'),
  literally('1.0'),
  literally('1E2'),
  literally('123456789012345678901234567890'),
]

/** A value of any JSON type. */
export function anyValue(random: Random): unknown {
  return random.pick<() => unknown>([
    () => null,
    () => random.chance(0.5),
    () => random.pick(nastyNumbers),
    () => random.pick(nastyTexts),
    () => [],
    () => ({}),
    () => [[[]]],
    () => [random.pick(nastyTexts)],
    () => ({ $ne: null }),
    () => ({ toString: 'x', valueOf: 1, length: -1 }),
  ])()
}

/** A card number: whatever is wrong with a request, no error may repeat it. */
export const plantedSecret = '4242424242424242'

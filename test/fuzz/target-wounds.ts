import type { Random } from '../simulation/random.ts'
import { nastyNumbers, nastyTexts, plantedSecret } from './nasty-values.ts'
import type { Field, Schema } from './operations.ts'
import type { Draft } from './sound-request.ts'
import type { Wound } from './wound.ts'

/** What can be wrong with where a request goes: its method, path and query. */
export const targetWounds: Readonly<Record<string, Wound>> = {
  'other method'(random, draft) {
    draft.method = random.pick(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
    return true
  },
  'odd method'(random, draft) {
    draft.method = random.pick(['TRACE', 'PROPFIND', 'get', 'QUERY', 'PURGE', 'BREW', 'G\u0000T', ''])
    draft.reaches = false
    draft.fresh = true
    draft.mayClose = true
    return true
  },
  'odd path value'(random, draft) {
    const at = placesOf(draft)
    if (at.length === 0) return false
    const segments = draft.path.split('/')
    const value = random.pick(pathValues(random))
    segments[random.pick(at)] = value
    draft.path = segments.join('/')
    // An empty value, or one with a slash, is another path.
    draft.reaches = value !== ''
    return true
  },
  'odd path'(random, draft) {
    const { path } = draft
    draft.path = random.pick([
      `${path}/`,
      `/${path}`,
      `${path};a=b`,
      `${path}%2f`,
      `${path}/../..${path}`,
      path.toUpperCase(),
      path.replaceAll('/', '//'),
      path.replaceAll('/', '%2f'),
      path.replace('api', '%61pi'),
      `http://example.com${path}`,
      path.slice(1),
      '*',
      `${path}#fragment`,
      `/docs/static/..%2f..%2f..%2fpackage.json`,
      `/docs/%2e%2e/%2e%2e/etc/passwd`,
      `${path}/${'x'.repeat(9_000)}`,
      `${path}/${'y'.repeat(30_000)}`,
    ])
    draft.reaches = false
    draft.fresh = true
    draft.mayClose = true
    return true
  },
  'query value': intoQuery((random, field) => encodeText(random.pick(valuesAgainst(random, field.schema)))),
  'query encoding': intoQuery((random) =>
    random.pick(['%', '%zz', '%c3%28', '%ed%a0%80', '%00', '%u0041', '+', 'a%']),
  ),
  'query unstorable'(random, draft) {
    const free = queryOf(draft).filter(
      ({ schema }) => schema.type === 'string' && !schema.pattern && !schema.enum,
    )
    if (free.length === 0) return false
    const { name } = random.pick(free)
    draft.query = draft.query.filter((pair) => !pair.startsWith(`${name}=`))
    draft.query.push(`${name}=${random.pick(['%00', 'a%00b', '%ed%a0%80'])}`)
    return true
  },
  'query repeated'(random, draft) {
    const fields = queryOf(draft)
    if (fields.length === 0) return false
    const { name } = random.pick(fields)
    draft.query.push(`${name}=1`, `${name}=2`)
    draft.expects = [400]
    return true
  },
  'query unknown'(random, draft) {
    if (queryOf(draft).length === 0) return false
    draft.query.push(
      random.pick(['surplus=1', 'surplus', 'limit[]=5', 'Limit=5', 'constructor=1', 'toString=1']),
    )
    draft.expects = [400]
    return true
  },
  'query odd'(random, draft) {
    draft.query.push(random.pick(['&&&', '=', '=1', '?', '__proto__=1', '%00=%00', 'x=1&'.repeat(2_000)]))
    return true
  },
  'query endless'(random, draft) {
    draft.query.push(`q=${'q'.repeat(random.pick([2_000, 9_000, 40_000]))}`)
    draft.fresh = true
    draft.mayClose = true
    return true
  },
  'cursor of nobody': (random, draft) => {
    if (!queryOf(draft).some(({ name }) => name === 'cursor')) return false
    draft.query = draft.query.filter((pair) => !pair.startsWith('cursor='))
    draft.query.push(`cursor=${encodeText(random.pick(cursors(random)))}`)
    return true
  },
}

function queryOf({ operation }: Draft): Field[] {
  return operation.fields.filter((field) => field.in === 'query')
}

function intoQuery(value: (random: Random, field: Field) => string): Wound {
  return (random, draft) => {
    const fields = queryOf(draft)
    if (fields.length === 0) return false
    const field = random.pick(fields)
    draft.query = draft.query.filter((pair) => !pair.startsWith(`${field.name}=`))
    draft.query.push(`${field.name}=${value(random, field)}`)
    return true
  }
}

/** Which segments of the path hold values. */
function placesOf({ operation }: Draft): number[] {
  return operation.path.split('/').flatMap((segment, at) => (segment.includes('{') ? [at] : []))
}

function pathValues(random: Random): string[] {
  return [
    '',
    '.',
    '..',
    '%2e%2e',
    '%00',
    'a%00b',
    '%ff',
    '%c3%28',
    '%ed%a0%80',
    '%zz',
    '%',
    '%2f%2e%2e%2f',
    '..%5c..%5c',
    'undefined',
    '-1',
    `${random.pick(['sub_', 'inv_', 'ref_', 'run_', 'mdl_', 'pay_'])}01`,
    `inv_${'0'.repeat(26)}`,
    `sub_${'Z'.repeat(26)}`,
    plantedSecret,
    'x'.repeat(65),
    'x'.repeat(5_000),
    '%EA%B0%80'.repeat(81),
    encodeText(random.pick(nastyTexts)),
  ]
}

function valuesAgainst(random: Random, schema: Schema): string[] {
  return [
    ...nastyNumbers.map((number) => String(number).replaceAll('\u{f0000}', '')),
    random.pick(nastyTexts),
    random.pick(nastyTexts),
    String((schema.maximum ?? 100) + 1),
    String((schema.minimum ?? 1) - 1),
    'x'.repeat((schema.maxLength ?? 64) + 1),
    '0x10',
    '1,2',
    'true',
    plantedSecret,
  ]
}

/** Cursors that no list wrote: broken, empty, of another shape, or of the right shape around nonsense. */
function cursors(random: Random): string[] {
  const written = (values: unknown) => Buffer.from(JSON.stringify(values)).toString('base64url')
  const odd = () => random.pick(nastyTexts)
  return [
    '',
    'x',
    '====',
    '%%%',
    'x'.repeat(513),
    written(null),
    written({}),
    written([]),
    written([1]),
    written(['']),
    written([odd()]),
    written([odd(), odd()]),
    written([odd(), odd(), odd()]),
    written([odd(), odd(), odd(), odd()]),
    written(['2026-11-15T00:00:00.000Z', odd()]),
    written(['infinity', 'inv_1']),
    written(['9999999999999999999999', '-1']),
    written(['2026-02-30', 'naver', 'mobile', 'KR']),
    Buffer.from('["\u0000"]').toString('base64url'),
  ]
}

/** Percent-encodes bytes, so that also a lone surrogate gets onto the wire. */
function encodeText(text: string): string {
  return [...text]
    .map((char) =>
      /^[\ud800-\udfff]$/u.test(char)
        ? '%ed%a0%80'
        : [...Buffer.from(char)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
    )
    .join('')
}

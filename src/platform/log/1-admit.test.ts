import { describe, expect, test } from 'vitest'
import { admission } from './1-admit.ts'
import type { FieldKind } from './events.ts'

const spec = {
  'probe.seen': {
    route: 'text',
    account_id: 'id',
    account_ids: 'ids',
    commit: 'hash',
    status: 'int',
    ms: 'number',
    live: 'bool',
    due: 'time',
    error: 'error',
    body: 'withheld',
  },
} as const
const admit = admission(spec)

test('a registered event with fitting fields is admitted as it is', () => {
  const fields = {
    route: '/api/billing/invoices/:invoice_id.pdf',
    account_id: 'acct_1',
    account_ids: ['ws-7', 'Acme.Prod:eu'],
    commit: '4b825dc642cb6eb9a060e54bf8d69288fbee4904',
    status: 200,
    live: true,
  }
  expect(admit('probe.seen', fields)).toEqual({ event: 'probe.seen', ...fields })
})

test('times become ISO 8601, measurements are rounded, withheld text leaves only its length', () => {
  const line = admit('probe.seen', {
    due: new Date(0),
    ms: 1.23456,
    body: 'secret',
    status: null,
    route: undefined,
  })
  expect(line).toEqual({
    event: 'probe.seen',
    due: '1970-01-01T00:00:00.000Z',
    ms: 1.235,
    body: '[6 characters]',
    status: null,
  })
})

test('an unknown event leaves a line that names it and nothing else', () => {
  expect(admit('made.up', { a: 1, b: 2 })).toEqual({ event: 'log.refused', of: 'made.up', fields: 2 })
  expect(admit('card 4111111111111111', {})).toEqual({ event: 'log.refused', of: '[unnamed]', fields: 0 })
})

test('unknown and misfitting fields are left out and counted', () => {
  const line = admit('probe.seen', { status: '200', route: 'two words', account_id: 'acct_1', name: 'Kim' })
  expect(line).toEqual({ event: 'probe.seen', account_id: 'acct_1', refused: 3 })
})

describe.each<[FieldKind, readonly unknown[]]>([
  [
    'text',
    [
      '4111111111111111',
      '/x/4111-1111-1111-1111',
      'a@b.co',
      'x=y',
      'name:Kim',
      'sk_live_abc',
      '%34',
      'x'.repeat(201),
    ],
  ],
  [
    'id',
    [
      'bk_test_ok',
      'pm_1abcdef',
      'live_gsk_YZ1veOCRuhc9',
      'cvc:123',
      '010-1234-5678',
      '900101-1234567',
      'NDExMTExMTExMTExMTExMQ',
      'Y3ZjIDEyMw',
      '34313131313131313131313131313131',
    ],
  ],
  [
    'id',
    [
      'eyJhbGciOiJIUzI1NiJ9',
      'acct_4111111111111111',
      'billing-key-0193',
      '415-555-2671',
      '821012345678',
      '',
      'a b',
      7,
    ],
  ],
  ['hash', ['4111111111111111', 'abc', '34'.repeat(20), '61'.repeat(32)]],
  ['int', [4111111111111111, 1.5, Number.NaN, '7', 1e11]],
  ['number', [4111111111111111.5, Number.POSITIVE_INFINITY, '7']],
  ['time', ['2026-11-15', new Date(Number.NaN), 7]],
])('a field of kind %s', (kind, values) => {
  test.each(values.map((value) => [value]))('refuses %j', (value) => {
    expect(admission({ 'a.b': { field: kind } })('a.b', { field: value })).toEqual({
      event: 'a.b',
      refused: 1,
    })
  })
})

test.each(['name', 'customer_email', 'billing_key', 'token', 'level', 'Route', 'a b'])(
  'a field called %j cannot be registered',
  (field) => {
    expect(() => admission({ 'a.b': { [field]: 'text' } })).toThrow()
  },
)

describe('an error', () => {
  const errorOf = (error: unknown) => admit('probe.seen', { error })['error'] as Record<string, unknown>

  test('becomes type, code and frames of the repository, and never its message', () => {
    const described = errorOf(
      Object.assign(new RangeError('card 4111111111111111'), { code: '23505', detail: 'x@y.co' }),
    )
    expect(described).toMatchObject({ type: 'RangeError', code: '23505' })
    expect(described['frames']).toContainEqual(
      expect.stringMatching(/^src\/platform\/log\/1-admit\.test\.ts:\d+:\d+$/),
    )
    expect(JSON.stringify(described)).not.toMatch(/4111|x@y/)
  })

  test('describes its causes and its parts likewise', () => {
    const cause = Object.assign(new Error('secret'), { code: 'ECONNREFUSED' })
    const described = errorOf(new AggregateError([new TypeError('secret')], 'secret', { cause }))
    expect(described).toMatchObject({
      type: 'AggregateError',
      cause: { type: 'Error', code: 'ECONNREFUSED' },
      errors: [{ type: 'TypeError' }],
    })
    expect(JSON.stringify(described)).not.toContain('secret')
  })

  test('whose message looks like frames gains none from it', () => {
    const forged = new Error(`x\n    at f (${process.cwd()}/src/hunter/two.ts:1:1)`)
    expect(JSON.stringify(errorOf(forged))).not.toContain('hunter')
    forged.message = 'changed afterwards'
    expect(JSON.stringify(errorOf(forged))).not.toContain('hunter')
  })

  test.each(['sk_live_abc', 'card 4111', 'a@b.co', 41111])(
    'with %j as name and code shows neither',
    (value) => {
      const described = errorOf(Object.assign(new Error('x'), { name: value, code: value }))
      expect(described['type']).toBe('Error')
      expect(described['code']).toBeUndefined()
    },
  )

  test('that was no error is told by its type alone', () => {
    expect(errorOf('secret')).toEqual({ type: 'thrown_string' })
  })
})

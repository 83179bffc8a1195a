import { expect, test } from 'vitest'
import { maskNames } from './2-mask-names.ts'
import type { Plain } from './plain.ts'
import { isSensitiveName } from './sensitive-names.ts'

test.each<[string, Plain, Plain]>([
  [
    'a key at any depth',
    { a: [{ b: { Card_Number: 'x', ok: 1 } }] },
    { a: [{ b: { Card_Number: '[masked]', ok: 1 } }] },
  ],
  ['a whole object', { billingKey: { value: 'x', list: [1] } }, { billingKey: '[masked]' }],
  ['JSON in a string', '{"cvc":"123","ok":1}', '{"cvc":"[masked]","ok":1}'],
  ['numbers in JSON', '{"cvc":123,"ok":1}', '{"cvc":[masked],"ok":1}'],
  ['lists in JSON', '{"phone":["1","2"],"ok":1}', '{"phone":[masked],"ok":1}'],
  [
    'JSON in JSON',
    String.raw`{"raw":"{\"email\":\"a \\\"b\\\" c\"}"}`,
    String.raw`{"raw":"{\"email\":\"[masked]\"}"}`,
  ],
  ['a query string', '/x?a=1&token=abc&b=2', '/x?a=1&token=[masked]&b=2'],
  ['a form with brackets', 'card%5Bcvc%5D=123&a=1', 'card%5Bcvc%5D=[masked]&a=1'],
  ['an escaped name', '{"\\u0063vc":"123"}', '{"\\u0063vc":"[masked]"}'],
  [
    'header lines',
    'host: x\r\nAuthorization: Bearer a b\r\nv: 1',
    'host: x\r\nAuthorization: [masked]\r\nv: 1',
  ],
  ['a flat header list', ['host', 'x', 'Cookie', 'a=b'], ['host', 'x', 'Cookie', '[masked]']],
  [
    'header pairs',
    [
      ['x-api-key', 'abc'],
      ['host', 'x'],
    ],
    [
      ['x-api-key', '[masked]'],
      ['host', 'x'],
    ],
  ],
  [
    'header objects',
    { header: 'authorization', value: 'abc' },
    { header: 'authorization', value: '[masked]' },
  ],
  ['a name with spaces in it', "holderName='Kim Minsu', amount", "holderName='[masked]', amount"],
  ['Korean names', '이름: 김민수', '이름: [masked]'],
  ['a PEM block', `private_key=-----BEGIN X-----\nabc\n-----END X-----\nok`, 'private_key=[masked]\nok'],
])('masks what %s names', (_, value, masked) => {
  expect(maskNames(value)).toEqual(masked)
})

test.each([
  'password',
  'DB_PASSWORD',
  'x-api-key',
  'billingKey',
  'customer.name',
  'name',
  'accessToken',
  'cardCvc',
  '주민등록번호',
])('%s is a sensitive name', (name) => expect(isSensitiveName(name)).toBe(true))

test.each([
  'account_id',
  'token_id',
  'token_count',
  'route',
  'hostname',
  'event',
  'status',
  'japan',
  'hotel',
  'plan_id',
  'key_version',
  'req_1m7ehqcvv0m24p7jqa3ak4ak0a',
])('%s is not', (name) => expect(isSensitiveName(name)).toBe(false))

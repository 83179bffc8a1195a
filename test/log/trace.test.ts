import { expect, test } from 'vitest'
import type { Planted } from './planted-secrets.ts'
import { traceOf } from './trace.ts'

const code: Planted = {
  kind: 'card_code',
  key: 'CVV2',
  spelled: '525',
  sentence: 'CVC: 525',
  traces: ['525'],
  isEncodedPlainly: true,
}

test('the digits of a form field’s own name are no trace of a card code, and those of its value are', () => {
  const line = (value: string) => `{"event":"probe.seen","body":"a=b&card%5BCVV2%5D=${value}"}\n`
  expect(traceOf(code, line('[masked]'))).toBeUndefined()
  for (const value of ['525', '５２５', '%35%32%35', 'NTI1']) expect(traceOf(code, line(value))).toBeDefined()
})

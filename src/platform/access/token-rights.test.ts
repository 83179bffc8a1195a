import { expect, test } from 'vitest'
import { expiryOf, lackingOf, rightsOf, tokenStatus } from './token-rights.ts'

const now = new Date('2026-11-15T00:00:00Z')

test('admin is for all and need not say so; asked for less, it is not given', () => {
  expect(rightsOf(['admin'], { workspace: null, account: null })).toMatchObject({
    workspace: '*',
    account: '*',
  })
  expect(rightsOf(['admin', 'batch:read'], { workspace: 'ws_1', account: null })).toBeUndefined()
  expect(rightsOf(['batch:read'], { workspace: 'ws_1', account: null })).toEqual({
    scopes: ['batch:read'],
    workspace: 'ws_1',
    account: null,
  })
})

test.each([
  [['billing:read'], null, null, ['account']],
  [['billing:refund'], 'ws_1', null, ['account']],
  [['batch:write'], null, 'acct_1', ['workspace']],
  [['billing:write', 'batch:read'], null, null, ['account', 'workspace']],
  [['batch:read'], 'ws_1', null, []],
  [['billing:read'], null, '*', []],
  [['billing:read', 'batch:read'], '*', 'acct_1', []],
  [['admin', 'billing:read'], null, null, []],
] as const)(
  'of %j for workspace %s and account %s, what is lacking: %j',
  (scopes, workspace, account, lacking) => {
    expect(lackingOf(rightsOf(scopes, { workspace, account })!)).toEqual(lacking)
  },
)

test.each([
  ['never', 'live', null],
  [undefined, 'sandbox', null],
  [undefined, 'live', '2027-11-15T00:00:00.000Z'],
  ['P90D', 'sandbox', '2027-02-13T00:00:00.000Z'],
  ['PT0S', 'live', undefined],
  ['-P1D', 'live', undefined],
  ['soon', 'sandbox', undefined],
])('a token for %s in %s mode ends at %s', (text, mode, end) => {
  const at = expiryOf(text, now, { mode, timeZone: 'UTC' })
  expect(at instanceof Date ? at.toISOString() : at).toBe(end)
})

test('a revoked token is told so whatever else it is, and one ends with its instant', () => {
  const none = { revokedAt: null, expiresAt: null, replacedBy: null }
  expect(tokenStatus(none, now)).toBe('valid')
  expect(tokenStatus({ ...none, replacedBy: 'another' }, now)).toBe('replaced')
  expect(tokenStatus({ ...none, expiresAt: now, replacedBy: 'another' }, now)).toBe('expired')
  expect(tokenStatus({ revokedAt: now, expiresAt: now, replacedBy: 'another' }, now)).toBe('revoked')
})

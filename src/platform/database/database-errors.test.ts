import { expect, onTestFinished, test, vi } from 'vitest'
import { explainConnecting, troubleOf } from './database-errors.ts'

const url = 'postgres://role:password@db.example:6432/rankledger?sslmode=verify-full'
const given = `${url}&sslrootcert=/etc/ca.crt`

test.each([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', given, 'correct sslrootcert in DATABASE_URL'],
  ['SELF_SIGNED_CERT_IN_CHAIN', url, 'add sslrootcert'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', url, 'add sslrootcert'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', given, 'let DATABASE_URL name the host'],
  ['CERT_HAS_EXPIRED', given, 'renew it'],
  ['ENOENT', given, 'correct sslrootcert'],
])('a connection that fails with %s says which setting to change, and no password', (code, at, advice) => {
  const error = Object.assign(new Error('self-signed certificate'), { code })
  const { message } = explainConnecting(error, { setting: 'DATABASE_URL', url: at, timeoutMs: 5000 })
  expect(message).toContain(advice)
  expect(message).toMatch(/^[^.]+(\.\S+[^.]*)*\.$/)
  expect(message).not.toContain('password')
})

test('a socket file that is not there is a server that does not serve, and no missing certificate', () => {
  const local = 'postgres://role:password@127.0.0.1:6432/rankledger?host=%2Frun%2Fpostgres'
  const error = Object.assign(new Error('connect'), { code: 'ENOENT', syscall: 'connect' })
  expect(troubleOf(error)).toBe('unreachable')
  const { message } = explainConnecting(error, { setting: 'DATABASE_URL', url: local, timeoutMs: 5000 })
  expect(message).toBe(
    'No PostgreSQL listens at /run/postgres/.s.PGSQL.6432; start it, or correct DATABASE_URL.',
  )
  expect(troubleOf(Object.assign(new Error('open'), { code: 'ENOENT', syscall: 'open' }))).toBeUndefined()
})

test('the server that is named is the one that the driver asks', () => {
  const error = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  const told = (at: string) => explainConnecting(error, { setting: 'X', url: at, timeoutMs: 5000 }).message
  expect(told('postgres://a:b@near/x?host=far&host=db.example&port=7000')).toContain('at db.example:7000;')
  expect(told('postgres://a:b@%2Frun%2Fpg/x')).toContain('at /run/pg/.s.PGSQL.5432;')
  expect(told('postgres://a:b@[::1]:7000/x')).toContain('at [::1]:7000;')
  vi.stubEnv('PGHOST', 'from.environment')
  onTestFinished(() => void vi.unstubAllEnvs())
  expect(told('postgres:///x')).toContain('at from.environment:5432;')
})

test('a server without TLS is told apart from one that is away', () => {
  const error = new Error('The server does not support SSL connections')
  const { message } = explainConnecting(error, { setting: 'DATABASE_URL', url, timeoutMs: 5000 })
  expect(message).toContain('take sslmode out of DATABASE_URL')
})

test('a table that cannot be made while shards move is trouble that goes by; any other fault of that code is ours', () => {
  const say = (message: string) => troubleOf(Object.assign(new Error(message), { code: 'XX000' }))
  expect(say('could not acquire the lock required to colocate distributed table batch.rank')).toBe('too_slow')
  expect(say('cache lookup failed for relation 1')).toBeUndefined()
})

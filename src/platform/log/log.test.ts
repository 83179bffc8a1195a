import { expect, test } from 'vitest'
import type { EventSpec } from './events.ts'
import { createLog, type LogOptions } from './log.ts'
import { createSecretSet } from './secret-set.ts'

const events = {
  'http.failed': { route: 'text', request_id: 'id', error: 'error' },
  'job.done': { task: 'text', count: 'int' },
} as const satisfies EventSpec

function openLog(options: Partial<LogOptions> = {}) {
  const lines: Record<string, unknown>[] = []
  const secrets = createSecretSet()
  const destination = { write: (bytes: Uint8Array) => lines.push(JSON.parse(Buffer.from(bytes).toString())) }
  return { lines, secrets, log: createLog(events, { level: 'info', secrets, destination, ...options }) }
}

test('an internal error is logged as type, code, frames, route pattern and request id, without its message', () => {
  const { lines, log } = openLog()
  const error = Object.assign(new TypeError('Kim paid with 4111111111111111'), { code: '23505' })
  log.error('http.failed', {
    route: '/api/billing/refund',
    request_id: 'req_1h3kq9w2v05t8mz4c7xj0r6yde',
    error,
  })
  expect(lines).toEqual([
    {
      level: 'error',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$/),
      event: 'http.failed',
      route: '/api/billing/refund',
      request_id: 'req_1h3kq9w2v05t8mz4c7xj0r6yde',
      error: { type: 'TypeError', code: '23505', frames: expect.any(Array) },
    },
  ])
})

test('the compiler refuses unknown events, unknown fields and wrong types, and at run time they are left out', () => {
  const { lines, log } = openLog()
  // @ts-expect-error: no such event
  log.info('job.lost', {})
  // @ts-expect-error: no such field
  log.info('job.done', { customer: 'Kim' })
  // @ts-expect-error: a count is a number
  log.info('job.done', { task: 'predict', count: '7' })
  expect(lines.map(({ level: _, time: __, ...line }) => line)).toEqual([
    { event: 'log.refused', of: 'job.lost', fields: 0 },
    { event: 'job.done', refused: 1 },
    { event: 'job.done', task: 'predict', refused: 1 },
  ])
})

test('a secret that became known after the log was made is covered from then on', () => {
  const { lines, log, secrets } = openLog()
  log.info('job.done', { task: 'swordfish-one' })
  secrets.add('swordfish-one')
  log.info('job.done', { task: 'swordfish-one' })
  expect(lines.map((line) => line['task'])).toEqual(['swordfish-one', '[masked]'])
})

test('lines below the level are not written', () => {
  const { lines, log } = openLog({ level: 'warn' })
  log.info('job.done', {})
  log.warn('job.done', {})
  expect(lines).toHaveLength(1)
})

test('a field that throws when it is read costs its line, not the caller', () => {
  const { lines, log } = openLog()
  const trap = {
    get task(): string {
      throw new Error('4111111111111111')
    },
  }
  log.info('job.done', trap)
  expect(lines).toEqual([{ level: 'error', event: 'log.withheld' }])
})

test('what a command prints keeps the names of plans and loses secrets', () => {
  const { log, secrets } = openLog()
  secrets.add('swordfish-one')
  const printed = '{"name":"Starter","customer_name":"Kim","card":"4111111111111111","note":"swordfish-one"}'
  expect(Buffer.from(log.sanitize(printed)).toString()).toBe(
    '{"name":"Starter","customer_name":"[masked]","card":"[masked]","note":"[masked]"}',
  )
})

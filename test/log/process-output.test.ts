import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Bundle, bundle } from '../bundle.ts'

let program: Bundle
beforeAll(async () => {
  program = await bundle(new URL('talkative-process.ts', import.meta.url))
})
afterAll(() => program.remove())

function run(way: string) {
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    ['--enable-source-maps', program.file, way],
    { encoding: 'utf8' },
  )
  return { stdout, stderr, status }
}

describe.each([
  ['console', 'process.wrote', 0, { stream: 'stdout' }],
  ['stderr', 'process.wrote', 0, { stream: 'stderr', text: '[42 characters]' }],
  ['warning', 'process.warned', 0, { warning: { type: 'SlipWarning' } }],
  ['exception', 'process.crashed', 1, { reason: 'uncaught_exception', error: { type: 'RangeError' } }],
  ['rejection', 'process.crashed', 1, { reason: 'unhandled_rejection', error: { type: 'RangeError' } }],
])('what slips out by %s', (way, event, code, fields) => {
  test(`becomes ${event} without its text, and the process exits with ${code}`, () => {
    const { stdout, stderr, status } = run(way)
    expect(stdout + stderr).not.toMatch(/4111|swordfish|Kim/)
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toMatchObject({ event, ...fields })
    expect(stdout).toContain('test/log/talkative-process.ts:')
    expect(status).toBe(code)
  })
})

test('what a command prints goes out line by line, without what is secret', () => {
  expect(run('results').stdout).toBe('plan starter, card [masked]\nkey [masked]\nno newline: [masked]')
})

test('a token that is shown once is the one thing that goes past the guard', () => {
  expect(run('show').stdout).toBe('rl_test_shown\n')
})

test('a guard that was taken off leaves the streams as they were', () => {
  expect(run('uninstalled').stdout).toBe('as it was\n')
})

import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { boundServerLog, openServerLog, readServerLog } from './server-log.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'server-log-test-'))
})

afterEach(() => rm(folder, { recursive: true }))

test('a log that grew too long is cut while it is being written, and its last part kept once', async () => {
  const log = await openServerLog(folder)
  for (const part of ['first', 'second', 'third']) {
    await log.write(`${part} ${'.'.repeat(100)}\n`)
    await boundServerLog(folder, 100)
  }
  await log.write('after\n')
  await boundServerLog(folder, 100)
  await log.close()
  expect(await readFile(join(folder, 'postgres.log'), 'utf8')).toBe('after\n')
  expect(await readFile(join(folder, 'postgres.log.1'), 'utf8')).toMatch(/^third/)
})

test('only the owner may read it, and it is read from where a start began', async () => {
  const log = await openServerLog(folder)
  await log.write('old\nnew\n')
  await log.close()
  expect((await stat(join(folder, 'postgres.log'))).mode & 0o777).toBe(0o600)
  expect(await readServerLog(folder, 4)).toBe('new\n')
})

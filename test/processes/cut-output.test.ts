import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'
import { startService } from './service-process.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

/** Runs a command whose reader has gone, as `| head -1` does after its line. */
async function runUnread(args: string[], which: 'stdout' | 'stderr') {
  const service = startService(args, world.environment)
  service.child[which]!.destroy()
  const code = await new Promise<number | null>((resolve) => service.child.on('close', resolve))
  return { code, output: service.output() }
}

test('a command whose output nobody reads any more ends quietly, with the code it would have had', async () => {
  expect(await runUnread(['audit', 'list', '--json'], 'stdout')).toEqual({ code: 0, output: '' })
  expect(await runUnread(['help'], 'stdout')).toEqual({ code: 0, output: '' })
  expect(await runUnread(['token', 'list'], 'stdout')).toEqual({ code: 0, output: '' })
  expect(await runUnread(['no-such-command'], 'stderr')).toEqual({ code: 2, output: '' })
})

test.skipIf(!existsSync('/dev/full'))(
  'a result that found no room on the disk is a failure, told in one sentence',
  () => {
    const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
    for (const args of [['help'], ['plan', 'list'], ['check-ledger', '--json']]) {
      const full = openSync('/dev/full', 'w')
      const env = { PATH: process.env['PATH'] ?? '', ...world.environment }
      const { status, stderr } = spawnSync(process.execPath, [main, ...args], {
        env,
        stdio: ['ignore', full, 'pipe'],
        encoding: 'utf8',
      })
      closeSync(full)
      expect({ args, status, stderr }).toEqual({
        args,
        status: 1,
        stderr: 'The output could not be written (ENOSPC).\n',
      })
    }
  },
)

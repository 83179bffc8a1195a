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

import { networkInterfaces } from 'node:os'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { findFreePort } from '../../src/platform/embedded-postgres/free-port.ts'
import { openWorld, type World } from '../world.ts'
import { runCommand, type ServiceProcess, startService } from './service-process.ts'

let world: World
let provider: ServiceProcess | undefined
beforeAll(async () => {
  world = await openWorld()
})
afterEach(async () => {
  await provider?.stop()
})
afterAll(() => world.close())

/** An address of this machine that others can reach it by. */
const outside = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address

async function start(...args: string[]): Promise<{ port: string; output: string }> {
  // Where the API listens is nothing to the provider.
  provider = startService(['sandbox', '--port', '0', ...args], { ...world.environment, HOST: '0.0.0.0' })
  const { port } = new URL(await provider.url())
  await fetch(`http://127.0.0.1:${port}/`)
  return { port, output: provider.output() }
}

test.skipIf(outside === undefined).each([
  ['the provider', []],
  ['a provider in the language of another', ['--as', 'toss']],
  ['a source', ['--as', 'serpapi']],
])('%s is reached from this machine alone unless --host says otherwise', async (_, as) => {
  const { port, output } = await start(...as)
  await expect(fetch(`http://${outside}:${port}/`)).rejects.toThrow()
  expect(output).not.toContain('sandbox.exposed')
})

test.each([
  ['the provider', [], 'its_key'],
  ['a provider in the language of another', ['--as', 'toss'], 'any_credentials'],
  ['a source', ['--as', 'serpapi'], 'any_credentials'],
])('%s that listens beyond this machine says to whom it opens', async (_, as, opensTo) => {
  await start(...as, '--host', '0.0.0.0')
  expect(await provider!.event('sandbox.exposed')).toMatchObject({
    level: 'warn',
    host: '0.0.0.0',
    opens_to: opensTo,
  })
})

test('an empty address, which would be every address, is a misuse', async () => {
  const { code, output } = await runCommand(['sandbox', '--host', ''], world.environment)
  expect(code).toBe(2)
  expect(output).toContain('--host takes an address.')
})

test('of all processes serve alone takes SANDBOX_PORT, and a port that is taken is one clear sentence', async () => {
  const port = String(await findFreePort())
  const environment = { ...world.environment, SANDBOX_PORT: port }
  provider = startService(['serve', '--no-worker'], environment)
  await provider.url()
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(401)

  expect(
    await runCommand(['reconcile', '--from', '2020-01-01', '--to', '2020-02-01'], environment),
  ).toMatchObject({ code: 0 })
  const second = await runCommand(['serve'], environment)
  expect(second.code).toBe(1)
  expect(second.output.trim()).toMatch(
    new RegExp(
      `^Port ${port}, where the sandbox provider is to listen, is taken; .* \\(0 = any free one\\)\\.$`,
    ),
  )
})

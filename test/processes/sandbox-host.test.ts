import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { tossProvider } from '../../src/billing/providers/toss/toss.ts'
import { findFreePort } from '../../src/platform/embedded-postgres/free-port.ts'
import { newId } from '../../src/platform/id.ts'
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

test('a simulator of Toss notifies with the settings of its recipe alone, and leaves no secret behind', async () => {
  const heard: string[] = []
  const merchant = createServer((request, response) => {
    heard.push(request.url ?? '')
    request.resume().on('end', () => response.end('{}'))
  })
  await new Promise<void>((resolve) => merchant.listen(0, '127.0.0.1', resolve))
  const { port } = merchant.address() as AddressInfo
  const { DATABASE_URL = '', VAULT_KEYS = '' } = world.environment
  const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-toss-'))
  provider = startService(
    ['sandbox', '--as', 'toss', '--port', '0', '--webhook-url', `http://127.0.0.1:${port}/hints/secret`],
    {
      DATABASE_URL,
      VAULT_KEYS,
      RANKLEDGER_DATA: dataDir,
      PAYMENT_PROVIDER: 'toss',
      TOSS_SECRET_KEY: 'test_sk_try',
      TOSS_BASE_URL: 'http://127.0.0.1:9',
      HINT_SECRET: 'h'.repeat(32),
    },
  )
  try {
    const toss = tossProvider({
      secretKey: 'test_sk_try',
      baseUrl: await provider.url(),
      timeoutMs: 10_000,
    })
    const amount = { minor: 9900n, currency: 'KRW' as const }
    const key = newId('pay_')
    const charged = await toss.charge({
      key,
      accountId: 'acct_1',
      amount,
      billingKey: 'bk_test_ok',
      description: 'Pro',
    })
    if (charged.kind !== 'done') throw new Error(charged.kind)
    const { payment } = charged
    await toss.refund({ key: newId('ref_'), payment, amount, remaining: amount, reason: 'other' })
    await expect.poll(() => heard, { timeout: 30_000 }).toEqual(['/hints/secret'])
    expect(existsSync(join(dataDir, 'webhook-secret'))).toBe(false)
  } finally {
    merchant.closeAllConnections()
    merchant.close()
    rmSync(dataDir, { recursive: true })
  }
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

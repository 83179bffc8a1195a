import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { consoleRoutes } from '../../src/installation/console-routes.ts'
import { buildHttp, type Http } from '../../src/platform/http/http.ts'

const folder = mkdtempSync(join(tmpdir(), 'rankledger-console-'))
const nobody = async () => Promise.reject(new Error('nobody is asked for'))
const open = (from: string): Http => {
  const http = buildHttp({
    access: { identify: nobody, identifySession: nobody },
    limiter: { admit: nobody },
    openPrefixes: [],
    onAnswer: () => {},
    onFault: () => {},
  })
  consoleRoutes(http, from)
  return http
}
let built: Http
beforeAll(() => {
  mkdirSync(join(folder, 'assets'))
  writeFileSync(
    join(folder, 'index.html'),
    '<meta property="csp-nonce" nonce="__NONCE__"><div id="root"></div>',
  )
  writeFileSync(join(folder, 'assets/main-1a2b3c.js'), 'export {}')
  built = open(folder)
})
afterAll(() => rmSync(folder, { recursive: true }))

test('every page of the console is index.html with a nonce of its own and a policy without unsafe-*', async () => {
  const pages = await Promise.all(
    ['/console', '/console/invoices/inv_1', '/console/index.html'].map((url) => built.inject(url)),
  )
  const nonces = pages.map(({ statusCode, headers, body }) => {
    expect(statusCode).toBe(200)
    const policy = String(headers['content-security-policy'])
    expect(policy).not.toContain('unsafe')
    expect(policy).toContain("script-src 'self';")
    expect(headers['cache-control']).toBe('no-store')
    const nonce = /'nonce-([\w-]{22})'/.exec(policy)![1]!
    expect(body).toContain(`nonce="${nonce}"`)
    return nonce
  })
  expect(new Set(nonces).size).toBe(3)
})

test('files with a hash in their name are kept for ever, and come packed to whoever takes that', async () => {
  const plain = await built.inject('/console/assets/main-1a2b3c.js')
  expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable')
  expect(plain.body).toBe('export {}')
  const packed = await built.inject({
    url: '/console/assets/main-1a2b3c.js',
    headers: { 'accept-encoding': 'gzip' },
  })
  expect(packed.headers['content-encoding']).toBe('gzip')
})

test('there is nothing outside the folder, and no page in place of a missing file', async () => {
  for (const url of ['/console/assets/gone.js', '/console/assets/../../package.json'])
    expect((await built.inject(url)).statusCode).toBe(404)
  expect((await built.inject('/console/..%2f..%2fpackage.json')).body).not.toContain('rankledger')
})

test('where it was not built, the answer says how to get it', async () => {
  const answer = await open(join(folder, 'none')).inject('/console')
  expect(answer.statusCode).toBe(404)
  expect(answer.body).toContain('npm run build')
})

import { readFileSync } from 'node:fs'
import { Compile } from 'typebox/compile'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  codesListed,
  exampleOf,
  isSecured,
  openCodeCheck,
  resolved,
  saidBeforeRoutes,
} from './api-document.ts'
import { knownCodes } from './fuzz/known-codes.ts'
import { openWorld, type World } from './world.ts'

const kept = () => readFileSync(new URL('../openapi.json', import.meta.url), 'utf8')
/** No caller's doing. */
const ofOurFault: Readonly<Record<string, number>> = {
  internal_error: 500,
  provider_error: 502,
  provider_unavailable: 503,
  service_unavailable: 503,
}

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const served = async () => (await world.get('/openapi.json')).body as object
const operationsOf = async () =>
  Object.entries(resolved(await served()).paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method} ${path}`,
      path,
      method,
      operation,
    })),
  )

test('the checked-in openapi.json is what the service answers; `npm run openapi` writes it anew', async () => {
  expect(await served()).toEqual(JSON.parse(kept()))
})

test('it is OpenAPI 3.1, and small enough to be read by machines of all kinds', async () => {
  expect((await served()) as { openapi: string }).toMatchObject({ openapi: expect.stringMatching(/^3\.1\./) })
  expect(Buffer.byteLength(kept())).toBeLessThan(150_000)
})

test('every operation has an id of its own, an area, words, and says whether it asks for a token', async () => {
  const operations = await operationsOf()
  const ids = operations.map(({ operation }) => operation.operationId)
  expect(ids.filter((id, at) => !/^[a-z][A-Za-z]+$/.test(id ?? '') || ids.indexOf(id) !== at)).toEqual([])
  for (const { name, path, operation } of operations) {
    expect([name, operation.tags?.length]).toEqual([name, 1])
    expect([name, operation.summary, operation.description]).not.toContain(undefined)
    const withToken = path.startsWith('/api/') && !/webhook(\/|$)|hints|post \/api\/session/.test(name)
    expect([name, isSecured(operation)]).toEqual([name, withToken])
    if (withToken)
      expect([name, Object.keys(operation.responses)]).toEqual([name, expect.arrayContaining(['4XX', '5XX'])])
  }
})

test('every operation shows a request and an answer that a service really gave, each of its schema', async () => {
  for (const { name, path, operation } of await operationsOf()) {
    const answers = Object.values(operation.responses).flatMap(({ content }) => Object.values(content ?? {}))
    const asked = Object.values(operation.requestBody?.content ?? {})
    const shown = answers.filter((answer) => exampleOf(answer) !== undefined)
    expect([name, shown.length]).toEqual([name, 1])
    for (const media of [...shown, ...asked])
      expect([name, Compile(media.schema as never).Errors(exampleOf(media))]).toEqual([name, []])
    // The provider's notifications are bytes, whatever they hold.
    if (/webhook/.test(path)) expect(asked).toEqual([])
  }
})

test('the codes it lists are those that callers know, each at its status', async () => {
  const operations = await operationsOf()
  const listed = operations.flatMap(({ operation }) =>
    Object.keys(operation.responses)
      .filter((status) => /^[45]/.test(status))
      .flatMap((status) =>
        codesListed(operation, Number(status.replace('XX', '99'))).map((code) => [status, code] as const),
      ),
  )
  for (const [status, code] of listed) {
    const known = knownCodes[code]?.[0] ?? ofOurFault[code]
    expect([code, known]).toEqual([code, expect.any(Number)])
    expect(`${known}`).toMatch(new RegExp(`^${status.replace('XX', '\\d\\d')}$`))
  }
  const told = new Set(listed.map(([, code]) => code))
  expect(Object.keys(knownCodes).filter((code) => !told.has(code) && !saidBeforeRoutes.has(code))).toEqual([])
})

test('a code that an operation does not list is found', () => {
  const check = openCodeCheck(() => JSON.parse(kept()))
  const asked = { method: 'POST', path: '/api/billing/cancel?x=1' }
  expect(check(asked, 409, 'already_canceled')).toBeUndefined()
  expect(check(asked, 409, 'request_in_progress')).toBeUndefined()
  expect(check(asked, 401, 'unauthorized')).toBeUndefined()
  expect(check(asked, 409, 'trial_already_used')).toMatch(/does not list/)
  expect(check(asked, 404, 'already_canceled')).toMatch(/does not list/)
})

test('the docs page comes from this process alone', async () => {
  const html = (await world.get('/docs')).text
  expect(html).toContain('swagger-ui')
  expect(html).not.toMatch(/(?:src|href)="https?:\/\//)
})

test('docs/api.md shows every route; `npm run api-docs` writes it anew', async () => {
  const page = readFileSync(new URL('../docs/api.md', import.meta.url), 'utf8')
  const missing = Object.entries(resolved(await served()).paths).flatMap(([path, operations]) =>
    Object.keys(operations)
      .map((method) => `${method.toUpperCase()} ${path}`)
      .filter(
        (name) => !new RegExp(name.replaceAll(/\{\w+\}/g, '[^/\\n`]+').replaceAll('.', '\\.')).test(page),
      ),
  )
  expect(missing.filter((name) => !name.startsWith('HEAD'))).toEqual([])
})

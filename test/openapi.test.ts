import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from './world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

type Operation = { responses: Record<string, unknown>; security?: unknown; tags?: string[] }
const document = async () =>
  (await world.get('/openapi.json')).body as {
    openapi: string
    paths: Record<string, Record<string, Operation>>
  }

test('the checked-in openapi.json is what the service answers; `npm run openapi` writes it anew', async () => {
  const kept = JSON.parse(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'))
  expect(await document()).toEqual(kept)
})

test('it is OpenAPI 3.1 and names every route with its area, answers and token', async () => {
  const { openapi, paths } = await document()
  expect(openapi).toMatch(/^3\.1\./)
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const name = `${method} ${path}`
      expect([name, operation.tags?.length]).toEqual([name, 1])
      const withToken = path.startsWith('/api/') && !/webhook|hints/.test(path)
      expect([name, operation.security !== undefined]).toEqual([name, withToken])
      if (withToken)
        expect([name, Object.keys(operation.responses)]).toEqual([
          name,
          expect.arrayContaining(['4XX', '5XX']),
        ])
    }
  }
})

test('the docs page comes from this process alone', async () => {
  const html = (await world.get('/docs')).text
  expect(html).toContain('swagger-ui')
  expect(html).not.toMatch(/(?:src|href)="https?:\/\//)
})

test('docs/api.md shows every route; `npm run api-docs` writes it anew', async () => {
  const page = readFileSync(new URL('../docs/api.md', import.meta.url), 'utf8')
  const missing = Object.entries((await document()).paths).flatMap(([path, operations]) =>
    Object.keys(operations)
      .map((method) => `${method.toUpperCase()} ${path}`)
      .filter(
        (name) => !new RegExp(name.replaceAll(/\{\w+\}/g, '[^/\\n`]+').replaceAll('.', '\\.')).test(page),
      ),
  )
  expect(missing.filter((name) => !name.startsWith('HEAD'))).toEqual([])
})

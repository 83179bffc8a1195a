import fastify from 'fastify'
import Type from 'typebox'
import { afterAll, expect, test } from 'vitest'
import { envelope, nullable, success } from '../../src/platform/http/answers.ts'
import { longAnswer } from '../../src/platform/http/long-answer.ts'

const Item = Type.Object({ name: Type.String(), notes: Type.Array(Type.String()) })
const Page = success(
  Type.Object({
    title: Type.String(),
    items: Type.Array(Item),
    other: Type.Optional(Type.Object({ items: Type.Array(Item) })),
    next_cursor: nullable(Type.String()),
  }),
)

const http = fastify()
let turns = 0
let isWhole = false
http.get('/page', { schema: { response: { 200: Page } } }, async ({ query }) => {
  const { count, other } = query as { count: string; other?: string }
  const items = Array.from({ length: Number(count) }, (_, at) => ({
    name: `"items":[] 가 \u2028 \\ ${at} ${'x'.repeat(2000)}`,
    notes: at % 2 ? [] : ['a', '"'],
    unlisted: 'not said',
  }))
  return envelope({ title: '"items":[]', items, next_cursor: null, ...(other && { other: { items: [] } }) })
})
http.addHook('preSerialization', async (_request, reply, payload) => {
  if (isWhole) return payload
  let going = true
  const count = () => {
    turns++
    if (going) setImmediate(count)
  }
  setImmediate(count)
  const answer = await longAnswer(reply, payload)
  going = false
  return answer
})
afterAll(() => http.close())

const ask = async (path: string, whole: boolean, method: 'GET' | 'HEAD' = 'GET') => {
  isWhole = whole
  turns = 0
  return http.inject({ method, url: path })
}

test.each([
  '/page?count=0',
  '/page?count=25',
  '/page?count=26',
  '/page?count=1000',
  '/page?count=60&other=1',
])('%s in pieces is to the byte what it is as a whole', async (path) => {
  const whole = await ask(path, true)
  const inPieces = await ask(path, false)
  expect(inPieces.statusCode).toBe(200)
  expect(inPieces.rawPayload.equals(whole.rawPayload)).toBe(true)
  for (const name of ['content-type', 'content-length'])
    expect([name, inPieces.headers[name]]).toEqual([name, whole.headers[name]])
})

test('others have their turn while a long page is made', async () => {
  await ask('/page?count=1000', false)
  expect(turns).toBeGreaterThan(30)
})

test('HEAD tells the length of a long page and sends none of it', async () => {
  const whole = await ask('/page?count=100', true)
  const head = await ask('/page?count=100', false, 'HEAD')
  expect([head.statusCode, head.payload]).toEqual([200, ''])
  expect(head.headers['content-length']).toBe(whole.headers['content-length'])
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import type { SourceWire } from '../../src/sandbox/sources/source-sandbox.ts'
import type { World } from '../world.ts'
import { openWorldAtSerpapi } from './serpapi-world.ts'
import { trackerBody } from './tracker-body.ts'

let world: World
let close: () => Promise<void>
const endings: Record<string, string> = {
  plain: '/page',
  zero: '/\u0000page',
  bell: '/\u0007page',
  'line break': '/pa\nge',
  delete: '/page\u007f',
  long: `/${'a'.repeat(2048)}`,
}
const words = Object.keys(endings).sort()

/** Every search finds the site first, under an address that ends as its keyword says. */
const wire: SourceWire = {
  ...serpapiWire,
  answer(request, context) {
    const ending = endings[request.query.get('q') ?? '']
    const organic_results = [{ position: 1, link: `https://www.example.com${ending}` }]
    const body = { search_metadata: { status: 'Success' }, organic_results }
    return ending === undefined ? serpapiWire.answer(request, context) : { status: 200, paid: true, body }
  },
}

beforeAll(async () => {
  ;({ world, close } = await openWorldAtSerpapi(words, { source: { wire } }))
})
afterAll(() => close())

test('an address that no rank may have is left out, and the rank and those beside it are stored', async () => {
  expect((await world.ask('PUT', '/api/batch/trackers/main', { body: trackerBody() })).status).toBe(200)
  expect((await world.advanceTo('2030-01-16T00:00:00Z')).status).toBe(200)
  const stored = await world.query<{ keyword: string; position: number; url: string | null }>(
    `select k.display as keyword, r.position, r.url from batch.rank r
     join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id order by k.display`,
  )
  expect(stored).toEqual(
    words.map((keyword) => ({
      keyword,
      position: 1,
      url: keyword === 'plain' ? 'https://www.example.com/page' : null,
    })),
  )
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import {
  openSourceSandbox,
  type SourceSandbox,
  type SourceWire,
} from '../../src/sandbox/sources/source-sandbox.ts'
import { openWorld, type World } from '../world.ts'
import { trackerBody } from './tracker-body.ts'

let world: World
let source: SourceSandbox
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
  source = await openSourceSandbox({ wire, slowMs: 1 })
  world = await openWorld({
    now: '2030-01-15T00:00:00Z',
    environment: {
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: source.url,
      SERPAPI_RATE: '900',
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: words })
})
afterAll(async () => {
  await world.close()
  await source.close()
})

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

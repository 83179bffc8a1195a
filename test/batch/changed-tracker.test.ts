import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BatchApp } from '../../src/batch/app.ts'
import { failed } from '../../src/batch/sources/answers.ts'
import type { RankPage, RankSource, SourceFailure } from '../../src/batch/sources/port.ts'
import { collectRanks } from '../../src/batch/tracking/collect-ranks.ts'
import { naverSearchWire } from '../../src/sandbox/sources/naver-search-wire.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'
import { openWorld, type World } from '../world.ts'
import { trackerBody } from './tracker-body.ts'

let world: World
let google: SourceSandbox
let naver: SourceSandbox
const words = Array.from({ length: 10 }, (_, n) => `word ${n}`)
const web = openWeb('web')

const atGoogle = { source: 'serpapi', engine: 'google', depth: 20 }
const atNaver = { source: 'naver_search', engine: 'naver_web_api', depth: 300 }
const put = async (settings: Record<string, unknown>, id = 'main') => {
  const body = trackerBody(settings)
  expect((await world.ask('PUT', `/api/batch/trackers/${id}`, { body })).status).toBe(200)
}
const turnTo = async (instant: string) => {
  const body = JSON.stringify({ advance_to: instant })
  for (const { url } of [google, naver]) await fetch(`${url}/__sandbox/clock`, { method: 'POST', body })
  await world.app.clock.moveTo(new Date(instant))
}
const collect = async (app: BatchApp = world.app.batch) => {
  const started = await world.post('/api/batch/trigger', { task: 'collect_ranks' })
  await collectRanks(app, { runId: started.body.data.run_id })
  expect((await world.get(`/api/batch/runs/${started.body.data.run_id}`)).body.data.status).toBe('succeeded')
}
const checks = () =>
  world.query<{ source: string; status: string; count: number }>(
    `select source, status, count(*)::int as count from batch.rank_check
     where day = (select max(day) from batch.rank_check) group by source, status order by source, status`,
  )
const ranksOf = (day: string) =>
  world.query<{ keyword: string; engine: string; device: string; status: string; position: number | null }>(
    `select k.display as keyword, r.engine, r.device, r.status, r.position from batch.rank r
     join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id
     where r.day = $1 order by r.engine, k.id`,
    [day],
  )
/** A day of which half the checks have failed once at Google's source, and the others have not been asked. */
const failHalf = async (day: string) => {
  await turnTo(`${day}T00:01:00Z`)
  await put(atGoogle)
  await collect()
  await turnTo(`${day}T12:00:00Z`)
  google.setFaults({ unavailable: 1 })
  await collect()
  google.setFaults({ unavailable: 0 })
  const tries = await world.query<{ tries: number }>('select tries from batch.rank_check where day = $1', [
    day,
  ])
  expect(tries).toHaveLength(words.length)
  expect([...new Set(tries.map((row) => row.tries))].sort()).toEqual([0, 1])
}
type Told = Promise<RankPage | SourceFailure>
/** Another way to read a page of Google's results, for this run alone. */
const readingWith = (readPage: (real: () => Told) => Told): BatchApp => {
  const { batch } = world.app
  const source = batch.sources.get('serpapi')!
  const real = source.ranks as Extract<RankSource, { readPage: object }>
  const ranks = {
    ...real,
    readPage: (...ask: Parameters<typeof real.readPage>) => readPage(() => real.readPage(...ask)),
  }
  return { ...batch, sources: new Map([...batch.sources, ['serpapi', { ...source, ranks }]]) }
}

beforeAll(async () => {
  google = await openSourceSandbox({ wire: serpapiWire, slowMs: 5 })
  naver = await openSourceSandbox({ wire: naverSearchWire, slowMs: 5 })
  world = await openWorld({
    now: '2030-01-15T00:00:00Z',
    environment: {
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: google.url,
      SERPAPI_RATE: '900',
      NAVER_CLIENT_ID: 'sandbox-id',
      NAVER_CLIENT_SECRET: 'sandbox-secret',
      NAVER_SEARCH_BASE_URL: naver.url,
      NAVER_SEARCH_RATE: '900',
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: words })
})
afterAll(async () => {
  await world.close()
  await google.close()
  await naver.close()
})

test('a tracker that changes its source has the rest of its day checked there, also what had failed', async () => {
  await failHalf('2030-01-15')
  const asked = google.book.calls
  await put(atNaver)
  expect(await checks()).toEqual([{ source: 'naver_search', status: 'due', count: words.length }])
  await turnTo('2030-01-15T22:05:00Z')
  await collect()
  expect(google.book.calls).toBe(asked)
  const told = await ranksOf('2030-01-15')
  expect(told.map(({ keyword, engine, status }) => [keyword, engine, status === 'failed'])).toEqual(
    words.map((word) => [word, 'naver_web_api', false]),
  )
})

test('a check that is asked while its tracker changes the source, and comes to nothing, is asked at the new one', async () => {
  await put(atGoogle)
  await turnTo('2030-01-16T22:05:00Z')
  let calls = 0
  const told = naver.book.calls
  await collect(
    readingWith(async () => {
      if (++calls === 1) await put(atNaver)
      return failed('throttled', 'rate')
    }),
  )
  // All of them were asked at once. None is asked again where nobody wants it any more.
  expect(calls).toBe(words.length)
  expect(naver.book.calls).toBe(told)
  await collect()
  expect(await checks()).toEqual([{ source: 'naver_search', status: 'done', count: words.length }])
  expect((await ranksOf('2030-01-16')).map(({ engine }) => engine)).toEqual(words.map(() => 'naver_web_api'))
})

test('what is asked while its tracker changes the series is stored in the series it was asked for', async () => {
  await put(atGoogle)
  await turnTo('2030-01-17T22:05:00Z')
  let calls = 0
  await collect(
    readingWith(async (real) => {
      if (++calls === 1) await put({ ...atGoogle, device: 'desktop', depth: 30 })
      return real()
    }),
  )
  const told = await ranksOf('2030-01-17')
  expect(told).toHaveLength(words.length)
  for (const { keyword, device, position } of told) {
    const day = '2030-01-17'
    const results = web.results({ keyword, engine: 'google', device: 'mobile', location: 'KR', day })
    const at = results.slice(0, 20).findIndex((url) => /\/\/([a-z]+\.)?example\.com\//.test(url))
    expect([keyword, device, position]).toEqual([keyword, 'mobile', at < 0 ? null : at + 1])
  }
})

test('a tracker that changes its source and leaves out keywords has only the others checked', async () => {
  await failHalf('2030-01-18')
  await put({ ...atNaver, keywords: words.slice(0, 5) })
  await turnTo('2030-01-18T22:05:00Z')
  await collect()
  expect((await ranksOf('2030-01-18')).map(({ keyword }) => keyword)).toEqual(words.slice(0, 5))
})

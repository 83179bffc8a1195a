import { afterAll, beforeAll, expect, test } from 'vitest'
import { collectVolumes } from '../../src/batch/tracking/volumes/collect-volumes.ts'
import { naverSearchadWire, searchadSecret } from '../../src/sandbox/sources/naver-searchad-wire.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'
import { openWorld, type World } from '../world.ts'

let world: World
let source: SourceSandbox
let volumes: SourceSandbox
const words = Array.from({ length: 40 }, (_, n) => `keyword ${n}`)

const tracker = {
  workspace_id: 'ws',
  site: 'example.com',
  match: 'host',
  engine: 'google',
  device: 'mobile',
  location: 'KR',
  depth: 20,
  source: 'serpapi',
  every: 'day',
  keywords: 'all',
}
const put = (id: string, changes: Record<string, unknown> = {}, token?: string) =>
  world.ask('PUT', `/api/batch/trackers/${id}`, { body: { ...tracker, ...changes }, ...(token && { token }) })
const figures = async () => (await world.get('/api/batch/trackers/main?workspace_id=ws')).body.data
const rows = () =>
  world.query<{ day: string; status: string; reason: string | null; count: number }>(
    `select day, status, reason, count(*)::int as count from batch.rank where workspace_id = 'ws'
     group by day, status, reason order by day, status, reason`,
  )

const collectOnce = async () => {
  const started = await world.post('/api/batch/trigger', { task: 'collect_volumes' })
  expect(started.status).toBe(202)
  await collectVolumes(world.app.batch, { runId: started.body.data.run_id })
  return (await world.get(`/api/batch/runs/${started.body.data.run_id}`)).body.data
}

beforeAll(async () => {
  source = await openSourceSandbox({ wire: serpapiWire, slowMs: 5 })
  volumes = await openSourceSandbox({ wire: naverSearchadWire })
  world = await openWorld({
    now: '2030-01-15T12:00:00Z',
    environment: {
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: source.url,
      SERPAPI_RATE: '900',
      NAVER_SEARCHAD_API_KEY: 'sandbox-key-0002',
      NAVER_SEARCHAD_SECRET: searchadSecret,
      NAVER_SEARCHAD_CUSTOMER: '1234',
      NAVER_SEARCHAD_BASE_URL: volumes.url,
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: words })
})
afterAll(async () => {
  await world.close()
  await source.close()
  await volumes.close()
})

test.each([
  ['an unknown source', { source: 'nowhere' }, 422, 'source_not_configured'],
  ['a source without keys', { source: 'serper' }, 422, 'source_not_configured'],
  ['a depth that the source cannot give', { depth: 101 }, 422, 'depth_not_supported'],
  ['an engine that the source does not know', { engine: 'bing' }, 422, 'engine_not_supported'],
  ['an impossible pattern', { match: 'regex', site: '(a' }, 400, 'validation_failed'],
  ['a site with a path that does not say how', { site: 'example.com/shop' }, 400, 'validation_failed'],
  [
    'a zone that is none',
    { window: { from: '01:00', to: '06:00', zone: 'Nowhere' } },
    400,
    'validation_failed',
  ],
  ['an empty window', { window: { from: '01:00', to: '01:00' } }, 400, 'validation_failed'],
  ['a keyword that is none', { keywords: ['ok', '!'] }, 400, 'invalid_keyword'],
  ['no keywords', { keywords: [] }, 400, 'validation_failed'],
])('%s is refused, and nothing is stored or spent', async (_, changes, status, code) => {
  const refused = await put('main', changes)
  expect([refused.status, refused.body.error.code]).toEqual([status, code])
  expect(await world.query('select 1 from batch.tracker')).toEqual([])
  expect(source.book.calls).toBe(0)
})

test('a tracker tells what it does and when; a series has one tracker', async () => {
  const made = await put('main')
  expect(made.status).toBe(200)
  expect(made.body.data).toMatchObject({
    tracker_id: 'main',
    workspace_id: 'ws',
    site: 'example.com',
    keywords: 'all',
    window: { from: '00:00', to: '24:00', zone: 'UTC' },
    active: true,
    checked_today: 0,
    spent_today: 0,
    last_check_at: null,
  })
  expect((await put('second')).body.error.code).toBe('series_taken')
  expect((await put('second', { device: 'desktop' })).status).toBe(200)
  expect((await put('second', { device: 'mobile' })).body.error.code).toBe('series_taken')
  expect((await put('main', { site: 'WWW.Example.com' })).body.data.site).toBe('www.example.com')
  const listed = (await world.get('/api/batch/trackers?workspace_id=ws')).body.data.trackers
  expect(listed.map(({ tracker_id }: { tracker_id: string }) => tracker_id)).toEqual(['main', 'second'])
  const path = '/api/batch/trackers/second?workspace_id=ws'
  expect((await world.ask('DELETE', path)).status).toBe(200)
  expect((await world.ask('DELETE', path)).body.error.code).toBe('tracker_not_found')
  expect((await world.get(path)).status).toBe(404)
})

test('a tenant spends nothing of the operator’s unless there is a budget for it', async () => {
  const tenant = await world.makeToken({ workspace: 'ws', account: null, scopes: ['batch:write'] })
  expect((await put('main', {}, tenant)).status).toBe(403)
  const check = { keywords: ['keyword 1'] }
  expect((await world.post('/api/batch/trackers/main/check', check, { token: tenant })).status).toBe(403)
})

test('a move of the clock makes the checks that fall due: each keyword one row a day, paid for once', async () => {
  const moved = await world.advanceTo('2030-01-16T00:00:00Z')
  expect(moved.body.data.done.checks_made).toBe(words.length)
  const first = await rows()
  expect(first.map(({ day }) => day)).toEqual(first.map(() => '2030-01-15'))
  expect(first.reduce((sum, { count }) => sum + count, 0)).toBe(words.length)
  expect(first.map(({ status }) => status)).not.toContain('failed')
  expect(source.book.paidAgain).toBe(0)
  await world.advanceTo('2030-01-17T00:00:00Z')
  expect(
    (await rows()).filter(({ day }) => day === '2030-01-16').reduce((sum, { count }) => sum + count, 0),
  ).toBe(words.length)
  const [{ spent, reserved, lost }] = (await world.query(
    `select sum(spent)::int as spent, sum(reserved)::int as reserved, sum(lost)::int as lost from batch.source_spending where scope = ''`,
  )) as [{ spent: number; reserved: number; lost: number }]
  expect({ spent, reserved, lost }).toEqual({ spent: source.book.paid, reserved: 0, lost: 0 })
  expect((await figures()).last_check_at).not.toBeNull()
})

test('every row is what the web showed on its day', async () => {
  const web = openWeb('web')
  const stored = await world.query<{
    keyword: string
    day: string
    status: string
    position: number
    url: string
  }>(
    `select k.display as keyword, r.day, r.status, r.position, r.url from batch.rank r
     join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id`,
  )
  expect(stored).toHaveLength(2 * words.length)
  for (const { keyword, day, status, position, url } of stored) {
    const results = web.results({ keyword, engine: 'google', device: 'mobile', location: 'KR', day })
    const at = results.slice(0, 20).findIndex((one) => one.startsWith('https://www.example.com/'))
    expect([keyword, day, status, position, url]).toEqual([
      keyword,
      day,
      at < 0 ? 'not_in_depth' : 'ranked',
      at < 0 ? null : at + 1,
      at < 0 ? null : results[at],
    ])
  }
})

test('volumes are asked once a month for every keyword; what is missing is asked once more alone', async () => {
  await world.post('/api/batch/keywords', {
    workspace_id: 'ws',
    keywords: ['나이키 운동화', '나이키운동화', '검색 없음'],
  })
  // No worker lives here to take up what the schedule has started.
  await world.query(`delete from batch.run where task = 'collect_volumes'`)
  const before = volumes.book.calls
  const run = await collectOnce()
  expect(run).toMatchObject({ status: 'succeeded', metrics: { no_data: 1, failed: 0, lost: 0 } })
  // 40 keywords and one spelling of two, five to a call, and the missing one again.
  expect(volumes.book.calls - before).toBe(Math.ceil((words.length + 2) / 5) + 1)
  const told = await world.query<{ key: string; volume: string; volume_max: string }>(
    `select key, volume, volume_max from batch.volume_observation where source = 'naver_searchad' order by key`,
  )
  expect(told).toHaveLength(words.length + 2)
  const spellings = told.filter(({ key }) => key.startsWith('나이키'))
  expect(spellings[0]!.volume).toBe(spellings[1]!.volume)
  expect((await collectOnce()).metrics).toMatchObject({ asked: 0, calls: 0 })
})

test('what was asked more than 13 months ago and spent more than 400 days ago is forgotten, and nothing younger', async () => {
  await world.query(
    `insert into batch.volume_check (source, month, key, status, spent_on)
     select 'naver_searchad', month, 'old ' || n, 'done', month
     from unnest(array['2028-11-01', '2028-12-01']::date[]) as month, generate_series(1, 5001) as n`,
  )
  await world.query(
    `insert into batch.source_spending (source, day, scope, spent)
     select 'serpapi', day, scope, 1
     from unnest(array['2028-12-12', '2028-12-13']::date[]) as day, unnest(array['', 'workspace ws']) as scope`,
  )
  const counts = (table: string, column: string) =>
    world.query(
      `select ${column}::text as of, count(*)::int as rows from batch.${table} where ${column} < '2029-01-01' group by 1 order by 1`,
    )
  const younger = (await world.query('select 1 from batch.volume_check')).length
  expect(await collectOnce()).toMatchObject({ status: 'succeeded' })
  expect(await counts('volume_check', 'month')).toEqual([{ of: '2028-12-01', rows: 5001 }])
  expect(await counts('source_spending', 'day')).toEqual([{ of: '2028-12-13', rows: 2 }])
  expect(await world.query('select 1 from batch.volume_check')).toHaveLength(younger - 5001)
  await world.query(`delete from batch.volume_check where month < '2029-01-01'`)
})

test('movements tell what rose, fell, entered and left since the last good check, and nothing from failed ones', async () => {
  const workspace_id = 'moves'
  const keywords = ['rose', 'fell', 'entered', 'left', 'held', 'failed', 'hidden']
  await world.post('/api/batch/keywords', { workspace_id, keywords })
  const told = async (day: string, places: Record<string, number | null | 'failed'>, searched_depth = 50) => {
    const observations = Object.entries(places).map(([keyword, place]) => ({
      keyword,
      day,
      searched_depth,
      ...(place === 'failed'
        ? { status: 'failed', reason: 'timeout' }
        : place === null
          ? { status: 'not_in_depth' }
          : { status: 'ranked', position: place }),
    }))
    expect((await world.post('/api/batch/ranks', { workspace_id, observations })).body.data.rejected).toBe(0)
  }
  await told('2030-01-10', { rose: 9, fell: 2, entered: null, left: 40, held: 5, failed: 3 })
  await told('2030-01-10', { hidden: null }, 10)
  await told('2030-01-12', { rose: 'failed', fell: 7, held: 5 })
  await told('2030-01-13', {
    rose: 3,
    fell: 8,
    entered: 12,
    left: null,
    held: 5,
    failed: 'failed',
    hidden: 20,
  })
  const ask = async (day: string) =>
    (await world.get(`/api/batch/movements?workspace_id=${workspace_id}&day=${day}&limit=100`)).body.data
  const { movements, shares } = await ask('2030-01-13')
  const place = { engine: 'naver', device: 'mobile', location: 'KR' }
  expect(movements).toEqual([
    { keyword: 'entered', ...place, from: null, to: 12, change: 'entered', days: 3 },
    { keyword: 'fell', ...place, from: 7, to: 8, change: 'fell', days: 1 },
    { keyword: 'left', ...place, from: 40, to: null, change: 'left', days: 3 },
    { keyword: 'rose', ...place, from: 9, to: 3, change: 'rose', days: 3 },
  ])
  expect(shares).toEqual([{ ...place, keywords: 6, failed: 1, top_3: 1, top_10: 3, top_100: 5 }])
  // A page after the first goes by the count of the first, unless its caller is to see a write.
  const second = async (headers: Record<string, string>) => {
    const first = await world.get(`/api/batch/movements?workspace_id=${workspace_id}&day=2030-01-13&limit=3`)
    await told('2030-01-13', { held: 3 })
    const path = `/api/batch/movements?workspace_id=${workspace_id}&day=2030-01-13&cursor=${first.body.data.next_cursor}`
    const { data } = (await world.get(path, { headers })).body
    await told('2030-01-13', { held: 5 })
    return [data.movements.map(({ keyword }: { keyword: string }) => keyword), data.shares[0].top_3]
  }
  expect(await second({})).toEqual([['rose'], 1])
  expect(await second({ 'x-write-position': '0/0' })).toEqual([['rose'], 2])
  // A third of that day's checks failed: it tells nothing.
  expect((await ask('2030-01-12')).movements).toEqual([])

  const { keywords: listed } = (await world.get(`/api/batch/keywords?workspace_id=${workspace_id}&days=30`))
    .body.data
  const rose = listed.find(({ keyword }: { keyword: string }) => keyword === 'rose')
  expect(
    rose.ranks.map(({ day, status, position }: Record<string, unknown>) => [day, status, position]),
  ).toEqual([
    ['2030-01-10', 'ranked', 9],
    ['2030-01-12', 'failed', null],
    ['2030-01-13', 'ranked', 3],
  ])
})

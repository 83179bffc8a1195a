import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'

let world: World
let workspaces = 0

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
  for (const month of ['2029-10-01', '2029-11-01', '2029-12-01', '2030-01-01'])
    await world.query('select batch.ensure_rank_month($1)', [month])
})
afterAll(() => world.close())

async function newWorkspace(...keywords: string[]): Promise<string> {
  const workspace_id = `ws_recent_${++workspaces}`
  await world.post('/api/batch/keywords', { workspace_id, keywords })
  return workspace_id
}

/** Stores a rank of each of so many series on each of so many days up to today. */
const fill = (workspace_id: string, keyword: string, days: number, series: number) =>
  world.query(
    `insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, checked_at)
     select $1, (select id from batch.keyword where workspace_id = $1 and key = $2), date '2030-01-15' - d, 'naver', 'mobile',
            'place-' || s, 'ranked', 1 + s % 100, 100, timestamptz '2030-01-15 10:00Z'
     from generate_series(0, $3::int - 1) d, generate_series(1, $4::int) s`,
    [workspace_id, keyword, days, series],
  )

type Listed = { keyword: string; ranks: { day: string; location: string }[] }
const list = async (workspace_id: string, query: string) =>
  (await world.get(`/api/batch/keywords?workspace_id=${workspace_id}${query}`)).body.data as {
    keywords: Listed[]
    next_cursor: string | null
  }

async function pagesOf(workspace_id: string, query: string): Promise<Listed[][]> {
  const pages: Listed[][] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const page = await list(workspace_id, query + (cursor && `&cursor=${cursor}`))
    pages.push(page.keywords)
    cursor = page.next_cursor
  }
  return pages
}
const counted = (pages: Listed[][]) =>
  pages.map((page) => page.map(({ keyword, ranks }) => [keyword, ranks.length]))

test('a hundred keywords with four series over 92 days are one page, each oldest first', async () => {
  const keywords = Array.from({ length: 100 }, (_, at) => `shoe ${String(at).padStart(2, '0')}`)
  const workspace = await newWorkspace(...keywords.toReversed())
  for (const keyword of keywords) await fill(workspace, keyword, 100, 4)
  const pages = await pagesOf(workspace, '&days=92&limit=100')
  expect(counted(pages)).toEqual([keywords.map((keyword) => [keyword, 368])])
  const { ranks } = pages[0]![7]!
  const sorted = ranks.toSorted((a, b) => (a.day + a.location < b.day + b.location ? -1 : 1))
  expect(ranks).toEqual(sorted)
  expect([ranks[0]!.day, ranks.at(-1)!.day]).toEqual(['2029-10-16', '2030-01-15'])
})

test('a page ends before the keyword whose ranks would make it too long, and its cursor goes on with that one', async () => {
  const workspace = await newWorkspace('d', 'many e', 'many c', 'b', 'many a')
  await fill(workspace, 'many a', 50, 500)
  await fill(workspace, 'many c', 50, 500)
  await fill(workspace, 'd', 3, 1)
  await fill(workspace, 'many e', 3, 1)
  expect(counted(await pagesOf(workspace, '&days=92'))).toEqual([
    [
      ['b', 0],
      ['d', 3],
      ['many a', 25_000],
    ],
    [
      ['many c', 25_000],
      ['many e', 3],
    ],
  ])
  expect(counted(await pagesOf(workspace, '&days=92&q=many'))).toEqual([
    [['many a', 25_000]],
    [
      ['many c', 25_000],
      ['many e', 3],
    ],
  ])
  // Fewer days of them fit.
  expect(counted(await pagesOf(workspace, '&days=2'))).toEqual([
    [
      ['b', 0],
      ['d', 2],
      ['many a', 1000],
      ['many c', 1000],
      ['many e', 2],
    ],
  ])
})

test('of a keyword that has more ranks than a page holds, the newest are told', async () => {
  const workspace = await newWorkspace('crowded', 'z')
  await fill(workspace, 'crowded', 41, 1000)
  await fill(workspace, 'z', 2, 2)
  const pages = await pagesOf(workspace, '&days=92')
  expect(counted(pages)).toEqual([[['crowded', 40_000]], [['z', 4]]])
  const { ranks } = pages[0]![0]!
  expect([ranks[0]!.day, ranks.at(-1)!.day]).toEqual(['2029-12-07', '2030-01-15'])
})

test('pages with ranks are made one at a time if there are other tokens, however few keywords each asks for', {
  retry: 3,
}, async () => {
  const workspace = await newWorkspace('shoes')
  const path = (query: string) => `/api/batch/keywords?workspace_id=${workspace}&limit=1${query}`
  const [token, other] = [await world.makeToken({}), await world.makeToken({})]
  const blocker = new pg.Client({ connectionString: world.databaseUrl })
  await blocker.connect()
  const underWay = async () => {
    const [row] = await world.query<{ count: number }>(
      `select count(*)::int as count from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and query like '%batch.rank%'`,
    )
    return row!.count
  }
  try {
    await blocker.query('begin')
    await blocker.query('lock table batch.rank in access exclusive mode')
    await world.get(path(''), { token: other })
    const asked = Array.from({ length: 6 }, () => world.get(path('&days=1'), { token }))
    await expect.poll(underWay).toBeGreaterThan(0)
    // Each of these leaves those that wait the time for their own statements.
    for (let round = 0; round < 5; round++)
      expect((await world.get(path(''), { token: other })).status).toBe(200)
    expect(await underWay()).toBe(1)
    await blocker.query('rollback')
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(Array(6).fill(200))
  } finally {
    await blocker.end()
  }
})

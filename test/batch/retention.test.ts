import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openArchive } from '../../src/batch/retention/archive.ts'
import { detachMonth } from '../../src/batch/retention/month-rows.ts'
import { rankArchive } from '../../src/batch/retention/rank-archive.ts'
import { importFile } from '../../src/cli/import.ts'
import { retention } from '../../src/cli/retention.ts'
import { runCommand } from '../billing/run-command.ts'
import { openWorld, type World } from '../world.ts'

let world: World
let folder: string

beforeAll(async () => {
  world = await openWorld({ now: '2026-06-15T12:00:00Z' })
  folder = mkdtempSync(join(tmpdir(), 'rankledger-archive-'))
  for (const workspace_id of ['ws_a', 'ws_b'])
    await world.post('/api/batch/keywords', {
      workspace_id,
      keywords: ['나이키 운동화', 'Running Shoes', 'gone'],
    })
  await store('ws_a', ['2023-02-01', '2023-11-30', '2025-01-31', '2025-02-01', '2026-05-01', '2026-06-14'])
  await store('ws_b', ['2023-02-01', '2025-02-28', '2026-06-14'])
  // One is corrected, one failed, one carries a link, and a keyword goes away.
  await store('ws_a', ['2025-02-01'], { position: 9, checked_at: '2025-02-01T23:00:00.123Z' })
  await store('ws_b', ['2025-02-27'], { status: 'failed', position: undefined, reason: 'timeout' })
  await store('ws_b', ['2025-02-26'], { url: 'https://example.com/길?a=b' })
  await world.ask('DELETE', '/api/batch/keywords', { body: { workspace_id: 'ws_a', keywords: ['gone'] } })
})
afterAll(async () => {
  await world.close()
  rmSync(folder, { recursive: true, force: true })
})

async function store(workspace_id: string, days: string[], more: object = {}): Promise<void> {
  const keywords = ['나이키 운동화', 'running shoes', 'gone']
  const observations = keywords.flatMap((keyword, at) =>
    days.map((day) => ({
      keyword,
      day,
      engine: 'naver',
      device: 'mobile',
      location: 'KR',
      status: 'ranked',
      position: 3 + at,
      searched_depth: 100,
      checked_at: `${day}T10:00:00Z`,
      ...more,
    })),
  )
  const answer = await world.post('/api/batch/ranks', { workspace_id, observations })
  expect(answer.body.data).toMatchObject({ rejected: 0 })
}

const run = (...args: string[]) => runCommand(retention, args, world.environment)
const restore = (...args: string[]) => runCommand(importFile, ['ranks', ...args], world.environment)
const months = async () =>
  (
    await world.query(
      `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'batch.rank'::regclass`,
    )
  )
    .map(({ name }) => name)
    .sort()
const history = () =>
  world.query(
    `select r::text as row from batch.rank r order by workspace_id, keyword_id, day, engine, device, location`,
  )

test('without --yes it only tells what would go', async () => {
  const before = [await months(), await history()]
  const told = await run('--keep', '15m', '--json')
  expect(told.code).toBe(0)
  const plan = JSON.parse(told.output)
  expect(plan).toMatchObject({ kept_from: '2025-03-01', dropped: false, leaving: [] })
  expect(plan.months.map(({ period, from, to }: Record<string, string>) => [period, from, to])).toEqual([
    ['2023', '2023-01-01', '2024-01-01'],
    ['2025-01', '2025-01-01', '2025-02-01'],
    ['2025-02', '2025-02-01', '2025-03-01'],
  ])
  expect((await run('--keep', '15m')).output).toMatch(/2025-02[\s\S]*Nothing was changed/)
  expect([await months(), await history()]).toEqual(before)
})

test.each([[[]], [['--keep', '0m']], [['--keep', '25']], [['--keep', '25m', 'now']]])(
  '%j is misuse',
  async (args) => {
    expect((await run(...args)).code).toBe(2)
  },
)

test('a month is archived, dropped, and comes back row for row, also after a run that died on the way', async () => {
  const before = await history()
  // An earlier run died after it had taken the oldest month out.
  const oldest = { history: 'rank', table: 'rank_2023', to: '2024-01-01' } as const
  await world.app.batch.db.transaction().execute((tx) => detachMonth(tx, oldest, 1_000))
  const dropped = await run('--keep', '15m', '--archive', folder, '--yes', '--json')
  expect(dropped.code).toBe(0)
  expect(
    JSON.parse(dropped.output).months.map(({ period, rows }: { period: string; rows: number }) => [
      period,
      rows,
    ]),
  ).toEqual([
    ['2023', 9],
    ['2025-01', 3],
    ['2025-02', 12],
  ])
  expect(readdirSync(folder).sort()).toEqual([
    'ranks-2023.parquet',
    'ranks-2025-01.parquet',
    'ranks-2025-02.parquet',
  ])
  expect(await months()).not.toContain('batch.rank_2025_01')
  expect((await history()).length).toBe(before.length - 24)

  for (const file of readdirSync(folder)) {
    const back = await restore(join(folder, file), '--json')
    expect(JSON.parse(back.output)).toMatchObject({ updated: 0, unchanged: 0, rejected: 0 })
  }
  expect(await history()).toEqual(before)
  const again = await restore(join(folder, 'ranks-2025-02.parquet'), '--workspace', 'ws_b', '--json')
  expect(JSON.parse(again.output)).toMatchObject({ inserted: 0, updated: 0, unchanged: 9, rejected: 0 })
  expect(await history()).toEqual(before)
})

test('an archive holds every column, and is never written over', async () => {
  const columns = await world.query(
    `select attname as name from pg_attribute where attrelid = 'batch.rank'::regclass and attnum > 0 and not attisdropped`,
  )
  const archive = await openArchive(rankArchive, join(folder, 'ranks-2025-02.parquet'))
  const [first] = (await archive.groups().next()).value!
  const named = new Set(Object.keys(first!))
  expect(columns.map(({ name }) => name).filter((name) => name !== 'keyword_id' && !named.has(name))).toEqual(
    [],
  )
  expect(first).toMatchObject({ workspace_id: 'ws_a', keyword: 'gone', url: null })

  await run('--keep', '15m', '--archive', folder, '--yes')
  expect(readdirSync(folder).filter((name) => name.startsWith('ranks-2025-02'))).toHaveLength(2)
})

test('a process that remembers a month notices that it is gone', async () => {
  await world.post('/api/batch/keywords', { workspace_id: 'ws_a', keywords: ['gone'] })
  await store('ws_a', ['2025-01-05'])
  expect((await run('--keep', '15m', '--yes')).code).toBe(0)
  expect(await months()).not.toContain('batch.rank_2025_01')
  await store('ws_a', ['2025-01-06'])
  const file = join(folder, 'one.csv')
  writeFileSync(
    file,
    'keyword,day,engine,device,location,status,position,searched_depth\nrunning shoes,2025-01-07,naver,mobile,KR,ranked,4,100\n',
  )
  expect((await run('--keep', '15m', '--yes')).code).toBe(0)
  expect(JSON.parse((await restore(file, '--workspace', 'ws_a', '--json')).output)).toMatchObject({
    inserted: 1,
  })
})

test('a reader of the history is waited for, and not everybody behind it', async () => {
  await store('ws_a', ['2025-01-08'])
  const reader = await world.app.pool.connect()
  await reader.query('begin')
  await reader.query('select count(*) from batch.rank')
  const dropping = run('--keep', '15m', '--yes')
  await sleep(500)
  await store('ws_b', ['2026-06-13'])
  expect(await months()).toContain('batch.rank_2025_01')
  await reader.query('commit')
  reader.release()
  expect((await dropping).code).toBe(0)
  expect(await months()).not.toContain('batch.rank_2025_01')
})

test('another file is refused in a sentence, and a rank of an unknown keyword is rejected', async () => {
  const file = join(folder, 'other.parquet')
  writeFileSync(file, 'PAR1 nothing of ours PAR1')
  const refused = await restore(file)
  expect([refused.code, refused.error]).toEqual([1, expect.stringContaining('is no archive of ranks')])

  await world.query(`update batch.keyword set key = 'renamed' where workspace_id = 'ws_b' and key = 'gone'`)
  const rejects = join(folder, 'rejects.csv')
  const back = await restore(join(folder, 'ranks-2025-02.parquet'), '--rejects', rejects, '--json')
  expect(JSON.parse(back.output)).toMatchObject({ rejected: 3, rejects })
})

test('the best place ever outlives its month, and a day that ties with it does not take its date', async () => {
  await world.post('/api/batch/keywords', { workspace_id: 'ws_best', keywords: ['summit', 'other'] })
  const tell = async (day: string, position: number | null, more: object = {}) => {
    const place = position === null ? { status: 'failed' } : { status: 'ranked', position }
    const observation = { keyword: 'summit', day, checked_at: `${day}T10:00:00Z`, ...place, ...more }
    const answer = await world.post('/api/batch/ranks', {
      workspace_id: 'ws_best',
      observations: [observation],
    })
    expect(answer.body.data).toMatchObject({ rejected: 0 })
  }
  const best = async () =>
    (await world.get('/api/batch/ranks/summit?workspace_id=ws_best')).body.data.best.map(
      ({ engine, position, mean_position, day }: Record<string, unknown>) => [
        engine,
        position,
        mean_position,
        day,
      ],
    )
  const mean = { engine: 'google_search_console', position: 2 }
  await tell('2025-01-10', 2)
  await tell('2025-01-09', 1, { checked_at: '2025-01-09T10:00:00Z' })
  await tell('2025-01-09', 6, { checked_at: '2025-01-09T11:00:00Z' })
  await tell('2025-02-10', 2)
  await tell('2025-02-11', null)
  await tell('2026-06-10', 4)
  await tell('2025-01-03', 2, { ...mean, mean_position: 2.4 })
  await tell('2025-02-03', 2, { ...mean, mean_position: 1.6 })
  await tell('2026-06-03', 2, { ...mean, mean_position: 1.9 })
  const before = [
    ['google_search_console', 2, 1.6, '2025-02-03'],
    ['naver', 2, null, '2025-01-10'],
  ]
  expect(await best()).toEqual(before)

  // The newer month goes first, and the older one was taken out by a release that kept nothing.
  await world.query('alter table batch.rank detach partition batch.rank_2025_01')
  await world.query('alter table batch.rank_2025_01 rename to rank_2025_01_leaving')
  expect((await run('--keep', '15m', '--yes')).code).toBe(0)
  expect(await months()).not.toContain('batch.rank_2025_02')
  expect(await best()).toEqual(before)

  await tell('2026-06-11', 2)
  expect(await best()).toEqual(before)
  await tell('2026-06-12', 1)
  expect(await best()).toEqual([before[0], ['naver', 1, null, '2026-06-12']])
  // A correction takes it back.
  await tell('2026-06-12', 9, { checked_at: '2026-06-12T12:00:00Z' })
  expect(await best()).toEqual(before)
  const other = await world.get('/api/batch/ranks/other?workspace_id=ws_best')
  expect(other.body.data.best).toEqual([])
  const next = (await world.get('/api/batch/ranks/summit?workspace_id=ws_best&limit=1')).body.data.next_cursor
  const later = await world.get(`/api/batch/ranks/summit?workspace_id=ws_best&limit=1&cursor=${next}`)
  expect(later.body.data).not.toHaveProperty('best')
})

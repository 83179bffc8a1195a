import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { columnOf, featuresOf } from '../../src/batch/dataset/features.ts'
import { dayName } from '../../src/batch/dataset/history.ts'
import { readHistory, withHistoryInParts } from '../../src/batch/dataset/history-rows.ts'
import { gatherSurroundings } from '../../src/batch/dataset/surroundings.ts'
import { removeKeywords } from '../../src/batch/keywords/remove-keywords.ts'
import type { BatchTables } from '../../src/batch/tables.ts'
import { aggregateVolumes } from '../../src/batch/volumes/aggregate-volumes.ts'
import { recordVolumes } from '../../src/batch/volumes/record-volumes.ts'
import { openDb, openPool } from '../../src/platform/database/db.ts'
import { openWorld, type World } from '../world.ts'
import { store } from './batch-story.ts'

let world: World

beforeAll(async () => {
  world = await openWorld({ now: '2030-03-15T12:00:00Z' })
  // Told out of order, over two months.
  await store(world, 'ws_b', [
    { keyword: 'Shoes', day: '2030-02-02', status: 'ranked', position: 4, url: 'https://a.example/1' },
    { keyword: 'Shoes', day: '2030-01-30', status: 'ranked', position: 7, url: 'https://a.example/2' },
    { keyword: 'Shoes', day: '2030-01-31', status: 'not_in_depth', searched_depth: 50 },
    { keyword: 'Shoes', day: '2030-02-01', status: 'failed' },
    { keyword: 'Shoes', day: '2030-02-02', status: 'ranked', position: 9, engine: 'google' },
  ])
  await store(world, 'ws_a', [
    { keyword: 'hats', day: '2030-02-01', status: 'ranked', position: 1 },
    { keyword: 'shoes', day: '2030-02-01', status: 'ranked', position: 2 },
  ])
  const volume = (keyword: string, month: string, source: string, value: object) => ({
    keyword,
    source,
    kind: 'month' as const,
    day: `${month}-01`,
    ...value,
  })
  await recordVolumes(world.app.batch, [
    volume('shoes', '2029-12', 'naver', { volume: 300 }),
    volume('shoes', '2029-12', 'google', { volume: 200 }),
    volume('shoes', '2030-01', 'naver', { volume_max: 9 }),
    volume('shoes', '2030-02', 'naver', { volume: 999 }),
  ])
  await aggregateVolumes(world.app.batch)
})
afterAll(() => world.close())

const read = (until?: string) => readHistory(world.app.batch.db, { until })

test('usable ranks come series by series, each in day order; failed checks are not among them', async () => {
  const { history, series } = await read()
  const ranks = series.map(({ workspaceId, engine }, at) => {
    const rows = Array.from(
      { length: history.starts[at + 1]! - history.starts[at]! },
      (_, row) => history.starts[at]! + row,
    )
    return [workspaceId, engine, rows.map((row) => [dayName(history.days[row]!), history.places[row]])]
  })
  expect(ranks).toEqual([
    ['ws_a', 'naver', [['2030-02-01', 1]]],
    ['ws_a', 'naver', [['2030-02-01', 2]]],
    ['ws_b', 'google', [['2030-02-02', 9]]],
    [
      'ws_b',
      'naver',
      [
        ['2030-01-30', 7],
        ['2030-01-31', -51],
        ['2030-02-02', 4],
      ],
    ],
  ])
  expect([...history.sites]).toEqual([0, 0, 1, 1])
  // The same keyword in two workspaces is one; a page that changed can be told, and one not known is none.
  expect([...history.keywords]).toEqual([0, 1, 1, 1])
  const [first, second, third] = history.urls.slice(history.starts[3], history.starts[4])
  expect(second).toBe(0)
  expect(first).not.toBe(third)
})

test('read in parts of any size it tells the same features, and which keywords are registered', async () => {
  const { history, series } = await read()
  const every = history.days.map((_, at) => at)
  const whole = featuresOf(history, every, every).map((column) => [...column])
  for (const size of [1, 3, 100]) {
    const parts = await withHistoryInParts(
      world.app.batch.db,
      async ({ calendar, each, eachWithoutVolumes }) => {
        const gathering = gatherSurroundings(calendar!, false)
        await eachWithoutVolumes(async (part) => gathering.add(part.history))
        const around = gathering.end()
        const found: { columns: Float32Array[]; names: unknown[] }[] = []
        await each(async (part) => {
          const own = part.history.days.map((_, at) => at)
          found.push({ columns: featuresOf(part.history, own, own, around), names: part.series })
        })
        return found
      },
      { size },
    )
    // A keyword is never torn apart, so the two series of shoes in ws_b come together.
    expect(parts.map(({ names }) => names.length)).toEqual({ 1: [1, 1, 2], 3: [2, 2], 100: [4] }[size])
    const joined = whole.map((_, feature) => parts.flatMap(({ columns }) => [...columns[feature]!]))
    expect(joined).toEqual(whole)
    expect(parts.flatMap(({ names }) => names)).toEqual(
      series.map((name) => ({ ...name, isRegistered: true })),
    )
  }
})

test('a reader that gets no core for a while is not taken for a dead one', async () => {
  await world.query(
    `do $$ begin execute format('alter database %I set idle_in_transaction_session_timeout = 100', current_database()); end $$`,
  )
  // As behind a pooler that takes no settings at sign-in: the database's own hold.
  const pool = openPool({
    url: world.databaseUrl,
    max: 1,
    name: 'slow',
    serverLimits: false,
    onError() {},
  })
  try {
    const parts = await withHistoryInParts(
      openDb<BatchTables>(pool),
      async ({ each }) => {
        let met = 0
        await each(async () => {
          met++
          await sleep(300)
        })
        return met
      },
      { size: 100 },
    )
    expect(parts).toBe(1)
  } finally {
    await pool.end()
  }
})

test('volumes end before the month of the last rank, source by source; a bound counts as its middle', async () => {
  const { history } = await read()
  // Hats have none; of shoes google told one month and naver two.
  expect([...history.sourceStarts]).toEqual([0, 0, 2])
  expect([...history.volumeStarts]).toEqual([0, 1, 3])
  expect([...history.volumeMonths]).toEqual([2029 * 12 + 11, 2029 * 12 + 11, 2030 * 12])
  expect([...history.volumes]).toEqual([200, 300, 4.5])
})

test('an observation dated after a day changes neither its features nor the snapshot up to it', async () => {
  const window = (day: string, volume: number) => ({
    keyword: 'hats',
    source: 'naver',
    kind: 'rolling_30d' as const,
    day,
    volume,
  })
  const featuresOn = async (until: string) => {
    const { history, sha256 } = await read(until)
    const every = history.days.map((_, at) => at)
    return { columns: featuresOf(history, every, every), sha256 }
  }
  await recordVolumes(world.app.batch, [window('2030-01-28', 3000)])
  await aggregateVolumes(world.app.batch)
  const before = await featuresOn('2030-02-02')
  expect(before.columns[columnOf.volume]![0]).toBeCloseTo(Math.log1p(3100))
  // It covers days of January, and nobody knew it in the first days of February.
  await recordVolumes(world.app.batch, [window('2030-02-13', 90_000)])
  await aggregateVolumes(world.app.batch)
  expect(await featuresOn('2030-02-02')).toEqual(before)
})

test('the hash stands for the rows: the same until one of them changes, and for the past also then', async () => {
  const before = (await read()).sha256
  expect((await read()).sha256).toBe(before)
  const january = (await read('2030-01-31')).sha256
  await store(world, 'ws_b', [{ keyword: 'shoes', day: '2030-02-03', status: 'ranked', position: 4 }])
  expect((await read()).sha256).not.toBe(before)
  expect((await read('2030-02-02')).sha256).toBe(before)
  expect((await read('2030-01-31')).sha256).toBe(january)
  await store(world, 'ws_b', [{ keyword: 'shoes', day: '2030-01-31', status: 'ranked', position: 8 }])
  expect((await read('2030-01-31')).sha256).not.toBe(january)
})

test('a keyword that was removed still teaches', async () => {
  const { series } = await read()
  await removeKeywords(world.app.batch, 'ws_a', ['hats'])
  expect((await read()).series).toEqual(series)
})

test('an empty history is one', async () => {
  const { history, series } = await read('2001-01-01')
  expect(series).toEqual([])
  expect([...history.starts]).toEqual([0])
})

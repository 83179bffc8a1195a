import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openArchive } from '../../src/batch/retention/archive.ts'
import { detachMonth } from '../../src/batch/retention/month-rows.ts'
import { volumeArchive } from '../../src/batch/retention/volume-archive.ts'
import { aggregateVolumes } from '../../src/batch/volumes/aggregate-volumes.ts'
import { importFile } from '../../src/cli/import.ts'
import { retention } from '../../src/cli/retention.ts'
import { runCommand } from '../billing/run-command.ts'
import { openWorld, type World } from '../world.ts'

let world: World
let folder: string

beforeAll(async () => {
  world = await openWorld({ now: '2026-06-15T12:00:00Z' })
  folder = mkdtempSync(join(tmpdir(), 'rankledger-volumes-'))
  await record([
    ...days('daily', '2025-01', 31, 10),
    ...days('daily', '2025-02', 28, 20),
    ...days('daily', '2025-03', 31, 30),
    { ...told('window', '2025-02-20', 'rolling_30d'), volume: 3_000 },
    { ...told('window', '2025-03-10', 'rolling_30d'), volume: 600, pc: 100, mobile: 500 },
    { ...told('나이키 운동화', '2024-05-03', 'month'), volume_max: 9 },
    { ...told('reported', '2025-02-01', 'month'), volume: 100_000_000_000 },
  ])
  await aggregateVolumes(world.app.batch)
  // Corrected, and not aggregated before the month is asked to go.
  await record([
    { ...told('daily', '2025-02-28', 'day'), volume: 48 },
    { ...told('reported', '2025-02-01', 'month'), volume: 99_999_999_999 },
  ])
})
afterAll(async () => {
  await world.close()
  rmSync(folder, { recursive: true, force: true })
})

const told = (keyword: string, day: string, kind: string) => ({ keyword, source: 'naver', kind, day })
const days = (keyword: string, month: string, length: number, volume: number) =>
  Array.from({ length }, (_, at) => ({
    ...told(keyword, `${month}-${String(at + 1).padStart(2, '0')}`, 'day'),
    volume,
  }))
const post = (observations: unknown) => world.post('/api/batch/volumes', { observations })
async function record(observations: unknown): Promise<void> {
  expect((await post(observations)).status).toBe(200)
}

const run = (...args: string[]) => runCommand(retention, args, world.environment)
const bring = (...args: string[]) => runCommand(importFile, ['volumes', ...args], world.environment)
const parts = async () =>
  (
    await world.query(
      `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'batch.volume_observation'::regclass`,
    )
  ).map(({ name }) => name)
const observations = () =>
  world.query(`select o::text as row from batch.volume_observation o order by key, source, day, kind`)
const volumes = () =>
  world.query(`select v::text as row from batch.monthly_volume v order by key, source, month`)
const volumeOf = async (keyword: string, month: string) =>
  (await world.get(`/api/batch/volumes/${encodeURIComponent(keyword)}`)).body.data.months.find(
    (one: { month: string }) => one.month === month,
  )?.volume

test('without --yes it only tells what would go, and of what', async () => {
  const before = [await parts(), await observations()]
  const plan = JSON.parse((await run('--keep', '15m', '--json')).output)
  expect(plan.months.map(({ of, period }: Record<string, string>) => [of, period])).toEqual([
    ['volumes', '2024'],
    ['volumes', '2025-01'],
    ['volumes', '2025-02'],
  ])
  expect((await run('--keep', '15m', '--only', 'ranks')).output).toMatch(
    /no month or year of ranks ends before 2025-03-01/,
  )
  expect((await run('--keep', '15m', '--only', 'models')).code).toBe(2)
  expect([await parts(), await observations()]).toEqual(before)
})

test('a year that is one table goes as a whole, and nobody is told that it holds nothing', async () => {
  // It holds an observation of May 2024.
  const { code, output } = await run('--keep', '20m', '--only', 'volumes')
  expect(code).toBe(0)
  expect(output).toContain('Nothing to drop: no month or year of volumes ends before 2024-10-01.')
})

test('months go, what waited is aggregated first, and monthly volumes stay as they are', async () => {
  const before = await observations()
  const dropped = JSON.parse((await run('--keep', '15m', '--archive', folder, '--yes', '--json')).output)
  expect(dropped.months.map(({ of, period, rows }: Record<string, unknown>) => [of, period, rows])).toEqual([
    ['volumes', '2024', 1],
    ['volumes', '2025-01', 31],
    ['volumes', '2025-02', 30],
  ])
  expect(await parts()).not.toContain('batch.volume_observation_2025_02')
  expect(await observations()).toHaveLength(before.length - 62)
  expect(await volumeOf('daily', '2025-02')).toBe(27 * 20 + 48)

  // A window that ends in a kept month reaches back into a dropped one, which is no longer whole.
  const aggregated = await volumes()
  await record([{ ...told('daily', '2025-03-02', 'rolling_30d'), volume: 9_000 }])
  await aggregateVolumes(world.app.batch)
  expect(await volumes()).toEqual(aggregated)
  expect(await world.query('select 1 from batch.dirty_month')).toEqual([])
})

test('an observation of a dropped time is refused, but for the report of a whole month', async () => {
  const before = [await observations(), await volumes()]
  const refused = await post([
    { ...told('daily', '2026-06-14', 'day'), volume: 1 },
    { ...told('daily', '2025-02-28', 'day'), volume: 1 },
    { ...told('daily', '2019-07-01', 'rolling_30d'), volume: 1 },
  ])
  expect([refused.status, refused.body.error.code]).toEqual([400, 'validation_failed'])
  expect(refused.body.error.details.map(({ path, code }: Record<string, string>) => [path, code])).toEqual([
    ['observations[1].day', 'day_not_kept'],
    ['observations[2].day', 'day_not_kept'],
  ])
  const file = join(folder, 'late.csv')
  writeFileSync(
    file,
    'keyword,source,kind,day,volume\ndaily,naver,day,2025-01-31,7\ndaily,naver,day,2025-03-31,30\n',
  )
  const brought = JSON.parse((await bring(file, '--json')).output)
  expect(brought).toMatchObject({ inserted: 0, unchanged: 1, rejected: 1 })
  expect(readFileSync(brought.rejects, 'utf8')).toContain('2,day_not_kept,"daily,naver,day,2025-01-31,7"')
  expect([await observations(), await volumes()]).toEqual(before)

  await record([
    { ...told('reported', '2025-02-03', 'month'), volume: 5 },
    { ...told('new', '2025-01-01', 'month'), volume: 6 },
  ])
  await aggregateVolumes(world.app.batch)
  expect([await volumeOf('reported', '2025-02'), await volumeOf('new', '2025-01')]).toEqual([5, 6])
})

test('what was reported after the month had gone is newer than any archive of it', async () => {
  const brought = await bring(join(folder, 'volumes-2025-02.parquet'), '--json')
  expect(JSON.parse(brought.output)).toMatchObject({ inserted: 29, updated: 0, unchanged: 1 })
  await aggregateVolumes(world.app.batch)
  expect(await volumeOf('reported', '2025-02')).toBe(5)
})

test('what was archived comes back row for row, and changes no monthly volume', async () => {
  // Leaves what the test before has told of the dropped months.
  expect((await run('--keep', '15m', '--yes')).code).toBe(0)
  const [kept, aggregated] = [await observations(), await volumes()]
  const files = readdirSync(folder).filter((name) => name.endsWith('.parquet'))
  expect(files.sort()).toEqual(['volumes-2024.parquet', 'volumes-2025-01.parquet', 'volumes-2025-02.parquet'])
  const archived: string[] = []
  for (const file of files) {
    for await (const group of (await openArchive(volumeArchive, join(folder, file))).groups())
      archived.push(...group.map(({ key, day }) => `${key} ${day}`))
    expect(JSON.parse((await bring(join(folder, file), '--json')).output)).toMatchObject({
      updated: 0,
      unchanged: 0,
      rejected: 0,
    })
  }
  expect(archived).toHaveLength(62)
  expect(await observations()).toHaveLength(kept.length + 62)
  await aggregateVolumes(world.app.batch)
  // Nor that of February's report, of which the archive knows an older one.
  expect(await volumes()).toEqual(aggregated)

  const all = await observations()
  const again = await bring(join(folder, 'volumes-2025-02.parquet'), '--json')
  expect(JSON.parse(again.output)).toMatchObject({ inserted: 0, updated: 0, unchanged: 30 })
  expect(await observations()).toEqual(all)

  // Once more out and in: everything is as it was, corrections and bounds included.
  const second = join(folder, 'second')
  expect((await run('--keep', '15m', '--archive', second, '--yes')).code).toBe(0)
  for (const file of readdirSync(second)) await bring(join(second, file))
  expect(await observations()).toEqual(all)
  expect(all.map(({ row }) => row)).toContain('(daily,naver,2025-02-28,day,48,,,,2)')
})

test('in another database the archive makes the monthly volumes too', async () => {
  const other = await openWorld({ now: '2026-06-15T12:00:00Z' })
  try {
    for (const file of ['volumes-2025-01.parquet', 'volumes-2025-02.parquet'])
      await runCommand(importFile, ['volumes', join(folder, file)], other.environment)
    await aggregateVolumes(other.app.batch)
    const { body } = await other.get('/api/batch/volumes/daily')
    expect(body.data.months.map(({ volume }: { volume: number }) => volume)).toEqual([310, 588])
  } finally {
    await other.close()
  }
})

test('a month that a run left behind half gone is brought to an end', async () => {
  await record([{ ...told('reported', '2025-01-03', 'month'), volume: 5 }])
  await aggregateVolumes(world.app.batch)
  const month = {
    history: 'volume_observation',
    table: 'volume_observation_2025_01',
    to: '2025-02-01',
  } as const
  await world.app.batch.db.transaction().execute((tx) => detachMonth(tx, month, 1_000))
  const plan = JSON.parse((await run('--keep', '15m', '--json')).output)
  expect(plan.leaving).toMatchObject([{ of: 'volumes', table: 'volume_observation_2025_01_leaving' }])
  expect((await run('--keep', '15m', '--yes')).output).toMatch(/Dropped volumes of 2025-01/)
  expect(await world.query(`select 1 from pg_class where relname ~ '_leaving$'`)).toEqual([])
})

test('what is written while months go is in the monthly volume or refused, never lost between', async () => {
  await record(days('busy', '2025-04', 29, 10))
  await aggregateVolumes(world.app.batch)
  const writer = await world.app.pool.connect()
  await writer.query('begin')
  await writer.query(
    `insert into batch.volume_observation (key, source, day, kind, volume) values ('busy', 'naver', '2025-04-30', 'day', 110)`,
  )
  await writer.query(
    `insert into batch.dirty_month (key, source, month) values ('busy', 'naver', '2025-04-01')`,
  )
  const dropping = run('--keep', '13m', '--yes', '--archive', join(folder, 'busy'))
  await sleep(700)
  expect(await parts()).toContain('batch.volume_observation_2025_04')
  await writer.query('commit')
  writer.release()
  expect((await dropping).code).toBe(0)
  expect(await volumeOf('busy', '2025-04')).toBe(29 * 10 + 110)
  // This process remembers the month as made.
  const refused = await post([{ ...told('busy', '2025-04-30', 'day'), volume: 1 }])
  expect(refused.body.error.details).toMatchObject([{ code: 'day_not_kept' }])
  await record([{ ...told('busy', '2025-04-30', 'month'), volume: 7 }])
})

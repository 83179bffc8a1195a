import { readdir, readFile } from 'node:fs/promises'
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { runDue } from '../../src/batch/due.ts'
import { dropIfThere } from '../drop-database.ts'
import { databaseUrl } from '../postgres.ts'
import { openWorld, type World } from '../world.ts'

let world: World

beforeAll(async () => {
  world = await openWorld({ now: '2026-06-15T12:00:00Z' })
})
afterAll(() => world.close())

const monthsIn = async (history: string) =>
  (
    await world.query<{ name: string }>(
      `select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass order by 1`,
      [`batch.${history}`],
    )
  ).map(({ name }) => name.replace(`batch.${history}_`, ''))

const observe = (keyword: string, days: string[]) =>
  world.post('/api/batch/volumes', {
    observations: days.map((day, at) => ({ keyword, source: 'naver', kind: 'day', day, volume: 10 + at })),
  })

test('this month and the next are there before anybody stores in them', async () => {
  await runDue(world.app.batch)
  for (const history of ['rank', 'volume_observation'])
    expect(await monthsIn(history)).toEqual(expect.arrayContaining(['2026_06', '2026_07']))
})

test('observations stand in the months of their days, and in years before 2025', async () => {
  const answer = await observe('shoes', ['2021-02-03', '2021-11-30', '2025-03-31', '2025-04-01'])
  expect(answer.body.data).toEqual({ inserted: 4, updated: 0, unchanged: 0 })
  expect(await monthsIn('volume_observation')).toEqual(expect.arrayContaining(['2021', '2025_03', '2025_04']))
  const again = await observe('shoes', ['2021-02-03', '2021-11-30', '2025-03-31', '2025-04-01'])
  expect(again.body.data).toEqual({ inserted: 0, updated: 0, unchanged: 4 })
})

test('a month that was dropped meanwhile is made again, also by a process that knows it as made', async () => {
  await observe('boots', ['2025-08-01'])
  await world.query('drop table batch.volume_observation_2025_08')
  expect((await observe('boots', ['2025-08-02'])).body.data).toMatchObject({ inserted: 1 })
  expect(await monthsIn('volume_observation')).toContain('2025_08')
})

test('ranks of unknown keywords make no month', async () => {
  const answer = await world.post('/api/batch/ranks', {
    workspace_id: 'ws_months',
    observations: [{ keyword: 'nobody knows', day: '2025-01-15', status: 'not_in_depth' }],
  })
  expect(answer.body.data).toMatchObject({ inserted: 0, rejected: 1 })
  expect(await monthsIn('rank')).not.toContain('2025_01')
})

test('no other table grows months', async () => {
  await expect(world.query(`select batch.ensure_month('keyword', '2026-01-01')`)).rejects.toThrow(
    /no history/,
  )
})

test('what was observed before observations stood in months is kept, with the rights to it', async () => {
  const folder = new URL('../../migrations/', import.meta.url)
  const files = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  const at = files.findIndex((name) => name.endsWith('-batch-months.sql'))
  const name = `before_months_${process.pid}`
  // A role that every server has; only what it is granted here counts.
  const role = 'pg_monitor'
  const server = await connect(inject('postgresUrl'))
  await server.query(`create database ${name}`)
  const client = await connect(databaseUrl(inject('postgresUrl'), name))
  try {
    await client.query('create schema platform')
    for (const file of files.slice(0, at)) await client.query(await readFile(new URL(file, folder), 'utf8'))
    await client.query(`grant usage on schema batch to ${role};
                        grant select, insert on batch.volume_observation to ${role}`)
    await client.query(`
      insert into batch.volume_observation (key, source, day, kind, volume, volume_max, pc, mobile, revision) values
        ('shoes', 'naver', '2019-05-05', 'day', 5, null, 2, 3, 1), ('shoes', 'naver', '2024-12-31', 'rolling_30d', 7, null, null, null, 2),
        ('shoes', 'naver', '2025-01-01', 'month', null, 9, null, null, 1), ('길', 'other', '2026-11-01', 'day', 0, null, null, null, 1)`)
    const rows = async () =>
      (await client.query('select o::text as row from batch.volume_observation o order by key, day')).rows
    const before = await rows()
    await client.query(await readFile(new URL(files[at]!, folder), 'utf8'))
    expect(await rows()).toEqual(before)
    const { rows: parts } = await client.query(
      `select count(distinct tableoid)::int as n from batch.volume_observation`,
    )
    expect(parts[0].n).toBe(4)
    const { rows: rights } = await client.query(
      `select has_table_privilege($1, 'batch.volume_observation', 'insert') as insert,
              has_table_privilege($1, 'batch.volume_observation', 'delete') as delete,
              has_function_privilege($1, 'batch.ensure_month(text, date)', 'execute') as make`,
      [role],
    )
    expect(rights).toEqual([{ insert: true, delete: false, make: true }])
  } finally {
    await client.end()
    await dropIfThere(server, name)
    await server.end()
  }
})

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return client
}

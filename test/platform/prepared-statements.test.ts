import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Db, openDb } from '../../src/platform/database/db.ts'
import { openWorld, type World } from '../world.ts'

type Tables = { 'public.thing': { id: number; name: string } }
let world: World
let db: Db<Tables>

beforeAll(async () => {
  world = await openWorld()
  await world.query('create table public.thing (id integer primary key, name text not null)')
  await world.query("insert into public.thing values (1, 'one'), (2, 'two')")
  db = openDb<Tables>(world.app.pool)
})
afterAll(() => world.close())

const preparedLike = (start: string) =>
  sql<{ statement: string }>`select statement from pg_prepared_statements where statement like ${`${start}%`}`

test('a statement that comes again is planned once for its connection, and answers each time for its own values', async () => {
  await db.connection().execute(async (one) => {
    const nameOf = (id: number) => sql<{ name: string }>`select name from public.thing where id = ${id}`
    const prepared = async () => (await preparedLike('select name from').execute(one)).rows.length
    expect((await nameOf(1).execute(one)).rows).toEqual([{ name: 'one' }])
    expect(await prepared()).toBe(0)
    expect((await nameOf(2).execute(one)).rows).toEqual([{ name: 'two' }])
    expect((await nameOf(1).execute(one)).rows).toEqual([{ name: 'one' }])
    expect(await prepared()).toBe(1)
  })
})

test('a column added under a running process breaks no statement, not even one that asks for all columns', async () => {
  await db.connection().execute(async (one) => {
    const all = () => one.selectFrom('public.thing').selectAll().where('id', '=', 1).execute()
    const named = () => one.selectFrom('public.thing').select('name').where('id', '=', 1).execute()
    for (let use = 0; use < 7; use++) await Promise.all([all(), named()])
    await world.query("alter table public.thing add column colour text not null default 'red'")
    expect(await all()).toEqual([{ id: 1, name: 'one', colour: 'red' }])
    expect(await named()).toEqual([{ name: 'one' }])
  })
})

test('statements of ever new shapes do not fill the memory of a connection', async () => {
  await db.connection().execute(async (one) => {
    for (let shape = 1; shape <= 1_100; shape++) {
      const text = sql.raw(`select ${shape} as shape, `)
      for (let use = 0; use < 2; use++) await sql`${text} ${use}::integer as use`.execute(one)
    }
    const { rows } = await preparedLike('select % as shape').execute(one)
    expect(rows.length).toBeGreaterThan(800)
    expect(rows.length).toBeLessThanOrEqual(1_000)
  })
})

test('a transaction by key goes by the index where the table looks small, and leaves its connection as it was', async () => {
  await world.query('analyze public.thing')
  const planOf = async (one: Db<Tables>) => {
    const { rows } = await sql<{ 'QUERY PLAN': string }>`explain select name from public.thing
      where id = any ((select '{1,2}'::text)::integer[])`.execute(one)
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
  await openDb<Tables>(world.app.pool, { byKey: true })
    .connection()
    .execute(async (one) => {
      await one.transaction().execute(async (tx) => {
        expect(await planOf(tx)).toContain('thing_pkey')
      })
      expect(await planOf(one)).toContain('Seq Scan on thing')
    })
})

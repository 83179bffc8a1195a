import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { distribute } from '../../src/batch/distribution/distribute.ts'
import { putTrend } from '../../src/batch/trends/put-trend.ts'
import { db } from '../../src/cli/db.ts'
import { migrate } from '../../src/platform/database/migrate.ts'
import { migrateQueue } from '../../src/platform/queue/queue.ts'
import { runCommand } from '../billing/run-command.ts'
import { createClusterDatabase, dropOnNodes } from '../citus.ts'
import { openWorld, type World } from '../world.ts'

const nodes = inject('citusNodes')
const run = (world: World, ...args: string[]) => runCommand(db, args, world.environment)

describe.skipIf(nodes.length > 0)('on an ordinary PostgreSQL', () => {
  let world: World
  beforeAll(async () => {
    world = await openWorld()
  })
  afterAll(() => world.close())

  test('distributing is refused in one sentence that says what is missing, and changes nothing', async () => {
    const refused = await run(world, 'distribute', '--json')
    expect(refused.code).toBe(1)
    expect(refused.error).toMatch(/^This database has no Citus: .*create extension citus[^\n]*$/)
    expect(JSON.parse((await run(world, 'status', '--json')).output)).toMatchObject({ distribution: null })
    const foreignKeys = await world.query(
      `select from pg_constraint where conname = 'prediction_model_id_fkey'`,
    )
    expect(foreignKeys).toHaveLength(1)
  })

  test.each([
    [['distribute', '--shards', '0']],
    [['distribute', '--volume-shards', 'many']],
    [['distribute', 'now']],
    [['status', '--shards', '4']],
  ])('%j is misuse', async (args) => {
    expect((await run(world, ...args)).code).toBe(2)
  })
})

describe.runIf(nodes.length > 0)('on a cluster', () => {
  const name = `filled_${process.pid}`
  const words = Array.from({ length: 40 }, (_, at) => `keyword ${at}`)
  const trend = {
    key: 'keyword 7',
    source: 'naver_datalab',
    every: 'month',
    from: '2026-01-01',
    to: '2026-01-31',
    values: [{ period: '2026-01-01', ratio: 100 }],
  } as const
  const workspaces = Array.from({ length: 8 }, (_, at) => `ws_${at}`)
  let world: World

  beforeAll(async () => {
    const url = await createClusterDatabase(nodes, name)
    await migrate(url)
    await migrateQueue(url)
    world = await openWorld({ environment: { DATABASE_URL: url } })
    for (const workspace_id of workspaces) {
      await world.post('/api/batch/keywords', { workspace_id, keywords: words })
      const observations = words.flatMap((keyword, at) =>
        ['2026-01-31', '2026-02-01', '2026-02-02'].map((day) => ({
          keyword,
          day,
          status: 'ranked',
          position: at + 1,
        })),
      )
      await world.post('/api/batch/ranks', { workspace_id, observations })
    }
    await world.post('/api/batch/volumes', {
      observations: words.map((keyword, at) => ({
        keyword,
        source: 'naver',
        kind: 'month',
        day: '2026-01-31',
        volume: at,
      })),
    })
    await putTrend(world.app.batch, { ...trend, askedOn: '2026-02-03' })
  })
  afterAll(async () => {
    await world?.close()
    await dropOnNodes(nodes, name)
  })

  const read = async () => [
    await Promise.all(
      workspaces.map(async (workspace) => {
        const ranks = await world.get(`/api/batch/ranks/keyword%207?workspace_id=${workspace}`)
        return [ranks.status, ranks.body.data]
      }),
    ),
    await world.query(`
      select r.workspace_id, k.key, r.day, r.position from batch.rank r
      join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id order by 1, 2, 3`),
    await world.query('select key, source, day, volume from batch.volume_observation order by 1, 2, 3'),
    await world.query('select key, source, month from batch.dirty_month order by 1, 2, 3'),
    [(await world.get('/api/batch/trends/keyword%207')).body.data],
  ]
  const distributed = async () =>
    (
      await world.query<{ name: string }>(
        `select logicalrelid::text as name from pg_dist_partition where partmethod = 'h' order by 1`,
      )
    ).map(({ name: table }) => table.replace('batch.', ''))

  test('ended half way it goes on, readers never see a difference, and old rows leave the coordinator', async () => {
    const before = await read()
    const reading = { answers: 0, wrong: 0, stop: false }
    const readers = [1, 2].map(async () => {
      while (!reading.stop) {
        reading.answers++
        if (JSON.stringify(await read(), text) !== JSON.stringify(before, text)) reading.wrong++
      }
    })

    // Somebody writes volumes for long: the first group is spread, the second has to wait, and there we end it.
    const writer = new pg.Client({ connectionString: world.environment['DATABASE_URL']! })
    await writer.connect()
    await writer.query('begin; lock table batch.dirty_month in row exclusive mode')
    const ended = distribute(world.environment['DATABASE_URL']!, {
      workspaceShards: 4,
      volumeShards: 2,
    }).then(
      () => 'done',
      () => 'ended',
    )
    await expect
      .poll(() =>
        world.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and application_name = 'rankledger distribute'
             and wait_event_type = 'Lock' and query like 'lock table batch.volume_observation%'`,
        ),
      )
      .toHaveLength(1)
    expect(await ended).toBe('ended')
    await writer.query('rollback')
    await writer.end()
    expect(await distributed()).toEqual(expect.arrayContaining(['keyword', 'prediction', 'rank']))
    expect(await distributed()).not.toContain('dirty_month')
    expect(JSON.parse((await run(world, 'status', '--json')).output).distribution).toMatchObject({
      whole: false,
    })

    const done = await run(world, 'distribute', '--shards', '4', '--volume-shards', '2', '--json')
    reading.stop = true
    await Promise.all(readers)
    expect(reading).toMatchObject({ wrong: 0 })
    expect(reading.answers).toBeGreaterThan(2)
    expect(JSON.parse(done.output)).toMatchObject({
      distributed: [
        { table: 'volume_observation', rows: 40 },
        { table: 'monthly_volume', rows: 0 },
        { table: 'dirty_month', rows: 40 },
        { table: 'keyword_trend', rows: 1 },
      ],
      nodes: 2,
      whole: true,
    })
    expect(await read()).toEqual(before)
    // What was asked for before is older news, also where the row is on a node.
    await putTrend(world.app.batch, { ...trend, values: [], askedOn: '2026-02-02' })
    expect(await read()).toEqual(before)
    const [left] = await world.query<{ bytes: number }>(
      `select sum(pg_relation_size(c.oid))::float8 as bytes from pg_class c
       join pg_dist_partition p on p.logicalrelid = c.oid where c.relkind = 'r' and p.partmethod = 'h'`,
    )
    expect(left!.bytes).toBe(0)
  })

  test('run once more it finds nothing to do, and the others tell of it', async () => {
    const again = await run(world, 'distribute')
    expect([again.code, again.output]).toEqual([0, expect.stringContaining('distributed already')])
    expect((await run(world, 'status')).output).toMatch(/distributed over 2 nodes \(Citus/)
  })

  test('how large a history is, is known although its tables are shells', async () => {
    const [found] = await world.query<{ spread: number; shell: number; local: number }>(
      `select batch.heap_bytes('batch.rank_2026_02')::float8 as spread,
              pg_relation_size('batch.rank_2026_02')::float8 as shell, batch.heap_bytes('batch.run')::float8 as local`,
    )
    expect(found).toMatchObject({ shell: 0, local: 0 })
    expect(found!.spread).toBeGreaterThan(0)
  })

  test('rows of one workspace lie together, and a month made later is spread beside them', async () => {
    await world.query(`select batch.ensure_month('rank', '2027-03-01')`)
    await world.query(`select batch.ensure_month('volume_observation', '2027-03-01')`)
    expect(await distributed()).toEqual(
      expect.arrayContaining(['rank_2027_03', 'volume_observation_2027_03']),
    )
    const together = await world.query(
      `select count(distinct colocationid)::int as groups from pg_dist_partition
       where logicalrelid::text in ('batch.keyword', 'batch.rank', 'batch.prediction', 'batch.rank_2027_03')`,
    )
    expect(together).toEqual([{ groups: 1 }])
    const elsewhere = await world.query(
      `select logicalrelid::text as name from pg_dist_partition
       where logicalrelid::text ~ '^(billing|platform|graphile_worker|sandbox)\\.|batch\\.(run|model|schedule|tracker)'`,
    )
    expect(elsewhere).toEqual([])
  })

  function text(_: string, value: unknown) {
    return typeof value === 'bigint' ? String(value) : value
  }
})

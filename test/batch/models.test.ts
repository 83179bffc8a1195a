import { afterAll, beforeAll, expect, test } from 'vitest'
import { activateModel, retireModel } from '../../src/batch/models/change-model.ts'
import { openWorld, type World } from '../world.ts'
import { aimlessWeek, run, store } from './batch-story.ts'

let world: World
let first: string
let second: string

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z', worker: true })
  await store(world, 'ws', aimlessWeek())
  first = (await run(world, 'classifier')).model_id
  // With the first one active, an aimless week makes a model that is not better than class shares; the same one, none.
  await store(world, 'ws', [
    { keyword: 'aimless 0', day: '2030-01-08', status: 'ranked', position: 1500, searched_depth: 10_000 },
  ])
  second = (await run(world, 'classifier')).model_id
})
afterAll(() => world.close())

const statusOf = async (id: string) => (await world.get(`/api/batch/models/${id}`)).body.data.status
const activeIds = async () =>
  (await world.query<{ id: string }>(`select id from batch.model where status = 'active'`)).map(
    ({ id }) => id,
  )

test('class shares stay active when the next candidate is no better', async () => {
  expect([await statusOf(first), await statusOf(second)]).toEqual(['active', 'rejected'])
})

test('models are listed newest first, for every token that may read, and can be narrowed down', async () => {
  const reader = await world.makeToken({ scopes: ['batch:read'], workspace: 'ws_other', account: null })
  const ids = async (query: string) => {
    const { models, next_cursor } = (await world.get(`/api/batch/models${query}`, { token: reader })).body
      .data
    return { ids: models.map(({ model_id }: { model_id: string }) => model_id), next_cursor }
  }
  expect(await ids('')).toEqual({ ids: [second, first], next_cursor: null })
  expect((await ids('?status=active')).ids).toEqual([first])
  expect((await ids('?task=train_classifier')).ids).toEqual([second, first])
  const page = await ids('?limit=1')
  expect(page.ids).toEqual([second])
  expect(await ids(`?limit=1&cursor=${page.next_cursor}`)).toEqual({ ids: [first], next_cursor: null })
  expect((await world.get('/api/batch/models?status=lost', { token: reader })).status).toBe(400)
})

test.each(['mdl_00000000000000000000000000', 'mdl_1', 'x'])('%s is no model', async (id) => {
  const { status, body } = await world.get(`/api/batch/models/${id}`)
  expect([status, body.error.code]).toEqual([404, 'model_not_found'])
})

test('one model is active at any time, whoever activates which at once', async () => {
  await retireModel(world.app.batch, first)
  await Promise.all(
    Array.from({ length: 12 }, (_, at) => activateModel(world.app.batch, at % 2 === 0 ? first : second)),
  )
  expect(await activeIds()).toHaveLength(1)
  await activateModel(world.app.batch, second)
  expect(await activeIds()).toEqual([second])
  expect(await statusOf(first)).toBe('retired')
})

test('the schema itself allows no second active model', async () => {
  await expect(world.query(`update batch.model set status = 'active'`)).rejects.toMatchObject({
    code: '23505',
  })
})

test('a run makes one model: the schema allows no second', async () => {
  await expect(
    world.query(`update batch.model set run_id = (select run_id from batch.model where id = $1)`, [first]),
  ).rejects.toMatchObject({ code: '23505' })
})

test('retiring leaves no model active, and what is not active cannot be retired', async () => {
  expect(await retireModel(world.app.batch, first)).toBe(false)
  expect(await retireModel(world.app.batch, second)).toBe(true)
  expect(await activeIds()).toEqual([])
  await expect(retireModel(world.app.batch, 'mdl_00000000000000000000000000')).rejects.toMatchObject({
    code: 'model_not_found',
  })
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'
import { aimlessWeek, run, store } from './batch-story.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z', worker: true })
})
afterAll(() => world.close())

const historyOf = async (keyword: string) => {
  const { body } = await world.get(
    `/api/batch/predictions/${encodeURIComponent(keyword)}/history?workspace_id=ws`,
  )
  return body.data.predictions as Record<string, unknown>[]
}
const ranked = (keyword: string, day: string, position: number) => ({
  keyword,
  day,
  status: 'ranked' as const,
  position,
  searched_depth: 10_000,
})

test('what was said of days that are over is not said anew by a later model, and is judged as it was said', async () => {
  await store(world, 'ws', aimlessWeek())

  const first = (await run(world, 'classifier')).model_id
  await run(world, 'predict')
  const [said] = await historyOf('aimless 1')
  expect(said).toMatchObject({ day: '2030-01-14', horizon_days: 1, model_id: first, outcome: null })

  // Nobody checks it for days, in which another model takes over.
  await world.post(`/api/batch/models/${first}/retire`, {})
  await world.app.clock.moveTo(new Date('2030-01-20T12:00:00Z'))
  await store(world, 'ws', [ranked('aimless 2', '2030-01-18', 500), ranked('aimless 2', '2030-01-19', 500)])
  const second = (await run(world, 'classifier')).model_id
  expect(second).not.toBe(first)
  await run(world, 'predict')
  expect((await historyOf('aimless 2'))[0]).toMatchObject({ day: '2030-01-19', model_id: second })
  expect(await historyOf('aimless 1')).toEqual([said])

  await store(world, 'ws', [ranked('aimless 1', '2030-01-15', 1)])
  await run(world, 'predict')
  const [, judged] = await historyOf('aimless 1')
  expect(judged).toEqual({ ...said, outcome: 'rise' })
  const examplesOf = async (id: string) =>
    (await world.get(`/api/batch/models/${id}`)).body.data.live_quality?.examples ?? 0
  expect([await examplesOf(first), await examplesOf(second)]).toEqual([1, 0])

  // What is said for the first time of days that are over is told what became of it, and proves nothing.
  const [late] = await historyOf('aimless 1')
  expect(late).toMatchObject({ day: '2030-01-15', model_id: second, outcome: null })
  await store(world, 'ws', [ranked('aimless 1', '2030-01-16', 500)])
  await run(world, 'predict')
  expect((await historyOf('aimless 1'))[1]).toEqual({ ...late, outcome: 'fall' })
  expect([await examplesOf(first), await examplesOf(second)]).toEqual([1, 0])
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2026-03-05T09:00:00Z' })
  await world.post('/api/batch/keywords', { workspace_id: 'ws_1', keywords: ['one', 'two', 'three'] })
  await world.post('/api/batch/keywords', { workspace_id: 'ws_2', keywords: ['one'] })
  const gone = { workspace_id: 'ws_1', keywords: ['three'] }
  await world.ask('DELETE', '/api/batch/keywords', { body: gone })
})
afterAll(() => world.close())

const summary = async (query = '', token?: string) =>
  (await world.get(`/api/batch/summary${query}`, token === undefined ? {} : { token })).body.data

test('the summary counts the keywords of one workspace, of all, or of the token’s own', async () => {
  expect(await summary()).toMatchObject({ workspace_id: null, workspaces: ['ws_1', 'ws_2'], keywords: 3 })
  expect(await summary('?workspace_id=ws_1')).toMatchObject({ workspace_id: 'ws_1', keywords: 2 })
  const token = await world.makeToken({ scopes: ['batch:read'], workspace: 'ws_2', account: null })
  expect(await summary('', token)).toMatchObject({
    workspace_id: 'ws_2',
    workspaces: ['ws_2'],
    keywords: 1,
  })
})

test('the summary says when it counted, by service time', async () => {
  const before = world.app.clock().getTime()
  const { as_of } = await summary()
  expect(as_of).toMatch(/\+00:00$/)
  expect(Date.parse(as_of)).toBeGreaterThanOrEqual(before)
  expect(Date.parse(as_of)).toBeLessThanOrEqual(world.app.clock().getTime())
})

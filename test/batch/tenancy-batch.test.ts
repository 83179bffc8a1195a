import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'

let world: World
let mine: string
let theirs: string

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
  mine = await world.makeToken({ workspace: 'ws_mine', scopes: ['batch:write'], account: null })
  theirs = await world.makeToken({ workspace: 'ws_theirs', scopes: ['batch:write'], account: null })
  for (const [token, workspace_id, position] of [
    [mine, 'ws_mine', 1],
    [theirs, 'ws_theirs', 2],
  ] as const) {
    const keywords = ['shared', `only ${workspace_id}`]
    const observations = keywords.map((keyword) => ({
      keyword,
      day: '2030-01-14',
      status: 'ranked',
      position,
    }))
    await world.post('/api/batch/keywords', { workspace_id, keywords }, { token })
    await world.post('/api/batch/ranks', { workspace_id, observations }, { token })
  }
})
afterAll(() => world.close())

test('each workspace sees its own keywords and ranks, named or not', async () => {
  for (const query of ['', '?workspace_id=ws_mine']) {
    const keywords = (await world.get(`/api/batch/keywords${query}`, { token: mine })).body.data.keywords
    expect(keywords.map(({ keyword }: { keyword: string }) => keyword)).toEqual(['only ws_mine', 'shared'])
    const { ranks } = (await world.get(`/api/batch/ranks/shared${query}`, { token: mine })).body.data
    expect(ranks.map(({ position }: { position: number }) => position)).toEqual([1])
  }
  expect((await world.get('/api/batch/ranks/only%20ws_theirs', { token: mine })).status).toBe(404)
})

test('a search or a cursor of one workspace shows nothing of another', async () => {
  const found = await world.get('/api/batch/keywords?q=theirs', { token: mine })
  expect(found.body.data.keywords).toEqual([])
  const { next_cursor } = (await world.get('/api/batch/keywords?limit=1', { token: theirs })).body.data
  const page = await world.get(`/api/batch/keywords?cursor=${next_cursor}`, { token: mine })
  for (const { keyword } of page.body.data.keywords) expect(keyword).not.toContain('theirs')
})

test.each([
  ['GET', '/api/batch/keywords?workspace_id=ws_theirs', undefined],
  ['POST', '/api/batch/keywords', { workspace_id: 'ws_theirs', keywords: ['mine now'] }],
  ['DELETE', '/api/batch/keywords', { workspace_id: 'ws_theirs', keywords: ['shared'] }],
  [
    'POST',
    '/api/batch/ranks',
    { workspace_id: 'ws_theirs', observations: [{ keyword: 'shared', day: '2030-01-14', status: 'failed' }] },
  ],
  ['GET', '/api/batch/ranks/shared?workspace_id=ws_theirs', undefined],
  ['GET', '/api/batch/volumes/shared?workspace_id=ws_theirs', undefined],
])('%s %s is forbidden to a token of another workspace', async (method, path, body) => {
  const refused = await world.ask(method, path, { token: mine, ...(body && { body }) })
  expect([refused.status, refused.body.error.code]).toEqual([403, 'forbidden'])
})

test('removing a keyword or recording its rank leaves the same keyword of others alone', async () => {
  await world.ask('DELETE', '/api/batch/keywords', { body: { keywords: ['shared'] }, token: mine })
  const observations = [{ keyword: 'shared', day: '2030-01-14', status: 'ranked', position: 9 }]
  const rejected = await world.post('/api/batch/ranks', { observations }, { token: mine })
  expect(rejected.body.data).toMatchObject({ rejected: 1, inserted: 0, updated: 0 })
  const { ranks } = (await world.get('/api/batch/ranks/shared', { token: theirs })).body.data
  expect(ranks.map(({ position }: { position: number }) => position)).toEqual([2])
})

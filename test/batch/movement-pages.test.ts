import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'
import { store } from './batch-story.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T23:59:00Z' })
})
afterAll(() => world.close())

const ranked = (keyword: string, day: string, position: number) => ({
  keyword,
  day,
  status: 'ranked' as const,
  position,
})

test('whoever turns the pages of today past midnight stays on their day', async () => {
  const keywords = ['a', 'b', 'c', 'd']
  await store(
    world,
    'ws',
    keywords.flatMap((keyword, at) => [
      ranked(keyword, '2030-01-14', 20 + at),
      ranked(keyword, '2030-01-15', 10 + at),
      ranked(keyword, '2030-01-16', 30 + at),
    ]),
  )
  const ask = async (more: string) => world.get(`/api/batch/movements?workspace_id=ws&limit=2${more}`)
  const first = (await ask('')).body.data
  expect(first.day).toBe('2030-01-15')
  await world.app.clock.moveTo(new Date('2030-01-16T00:00:30Z'))
  expect((await ask('')).body.data.day).toBe('2030-01-16')

  const second = (await ask(`&cursor=${first.next_cursor}`)).body.data
  expect(second.day).toBe('2030-01-15')
  const told = [...first.movements, ...second.movements]
  expect(told.map(({ keyword, change }: Record<string, string>) => [keyword, change])).toEqual(
    keywords.map((keyword) => [keyword, 'rose']),
  )
  expect(second.next_cursor).toBeNull()

  const other = await ask(`&day=2030-01-16&cursor=${first.next_cursor}`)
  expect([other.status, other.body.error.details[0].code]).toEqual([400, 'invalid_cursor'])
})

test('the shares of a day leave out keywords that were removed since, as its movements do', async () => {
  await store(
    world,
    'ws_shares',
    ['kept', 'removed'].flatMap((keyword, at) => [
      ranked(keyword, '2030-01-13', 9),
      ranked(keyword, '2030-01-14', 1 + at),
    ]),
  )
  const ask = async () =>
    (await world.get('/api/batch/movements?workspace_id=ws_shares&day=2030-01-14')).body.data
  expect((await ask()).shares).toMatchObject([{ keywords: 2, top_3: 2 }])
  const gone = { workspace_id: 'ws_shares', keywords: ['removed'] }
  expect((await world.ask('DELETE', '/api/batch/keywords', { body: gone })).status).toBe(200)
  const { movements, shares } = await ask()
  expect(movements.map(({ keyword }: { keyword: string }) => keyword)).toEqual(['kept'])
  expect(shares).toMatchObject([{ keywords: 1, failed: 0, top_3: 1, top_10: 1, top_100: 1 }])
})

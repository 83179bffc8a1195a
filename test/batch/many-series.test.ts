import { afterAll, beforeAll, expect, test } from 'vitest'
import { listen } from '../plans/statements.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2030-01-14T00:00:00Z' })
})
afterAll(() => world.close())

const workspace_id = 'many'
const day = '2030-01-13'

/** Each of these keywords stands in so many series; of every tenth one the second half of the checks failed. */
const keywords = Array.from({ length: 4 }, (_, n) => `term ${n}`)

async function storeSeries(count: number): Promise<void> {
  await world.post('/api/batch/keywords', { workspace_id, keywords })
  // One rank of each day by the door, which makes their tables; the rest as it would be stored.
  const observations = ['2030-01-12', day].map((one) => ({
    keyword: keywords[0],
    day: one,
    status: 'ranked',
    position: 50,
    location: 'first',
  }))
  expect((await world.post('/api/batch/ranks', { workspace_id, observations })).status).toBe(200)
  await world.query(
    `insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, reason, position, searched_depth, checked_at)
     select k.workspace_id, k.id, d.day::date, 'naver', 'mobile', 'place-' || lpad(s::text, 6, '0'),
            case when broken then 'failed' else 'ranked' end, case when broken then 'timeout' end,
            case when not broken then 20 - d.n end, 100, now()
     from batch.keyword k, generate_series(1, $1) s, (values ('2030-01-12', 0), ('2030-01-13', 1)) d (day, n),
          lateral (select d.n = 1 and s % 10 = 0 and k.display > 'term 1' as broken) b
     where k.workspace_id = 'many'`,
    [count],
  )
  await world.query('analyze batch.rank')
}

test('a day of many series is told page by page, and no page reads or keeps them all', async () => {
  const series = 1_100
  await storeSeries(series)
  const ear = listen()
  const told: string[] = []
  let cursor: string | null = null
  let pages = 0
  do {
    const next: string = cursor === null ? '' : `&cursor=${cursor}`
    // The rate is of the workspace, and turning all pages is more than it allows.
    await world.query('delete from platform.rate_window')
    const { status, body } = await world.get(
      `/api/batch/movements?workspace_id=${workspace_id}&day=${day}&limit=100${next}`,
    )
    expect(status).toBe(200)
    expect(body.data.shares).toHaveLength(100)
    expect(body.data.shares[0]).toMatchObject({ location: 'first', keywords: 1, failed: 0 })
    expect(body.data.shares[10]).toMatchObject({ location: 'place-000010', keywords: 2, failed: 2 })
    for (const { keyword, location, change } of body.data.movements)
      told.push(`${keyword} ${location} ${change}`)
    cursor = body.data.next_cursor
    pages++
  } while (cursor !== null)
  ear.stop()

  const expected = keywords.flatMap((keyword) =>
    Array.from({ length: series }, (_, n) => n + 1)
      .filter((s) => s % 10 !== 0)
      .map((s) => `${keyword} place-${String(s).padStart(6, '0')} rose`),
  )
  expect(told).toEqual(expected)
  expect(pages).toBe(Math.ceil(expected.length / 100))

  const ofRanks = ear.heard().filter(({ text }) => text.includes('batch.rank'))
  expect(ofRanks.length).toBeGreaterThan(1)
  for (const { text, samples } of ofRanks)
    for (const values of samples) {
      expect((await world.query(text, values)).length, text).toBeLessThanOrEqual(1_001)
      expect(JSON.stringify(values).length, text).toBeLessThan(1_000)
    }
})

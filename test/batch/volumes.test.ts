import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { aggregateVolumes } from '../../src/batch/volumes/aggregate-volumes.ts'
import type { VolumeObservation } from '../../src/batch/volumes/monthly-volume.ts'
import { size } from '../size.ts'
import { openWorld, type World } from '../world.ts'
import { monthlyVolumes } from './monthly-volumes.ts'

let world: World
let keywords = 0

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
})
afterAll(() => world.close())

type Told = Record<string, unknown>
const newKeyword = () => `volume ${++keywords}`
const month = (keyword: string, name: string, volume: number, more: Told = {}): Told => ({
  keyword,
  source: 'naver',
  kind: 'month',
  day: `${name}-01`,
  volume,
  ...more,
})
// Each request names a workspace of its own in its header, so that no test eats another's requests of the minute.
let requests = 0
const headers = () => ({ 'x-workspace-id': `ws_${Math.floor(++requests / 50)}` })
const record = (observations: unknown) =>
  world.post('/api/batch/volumes', { observations }, { headers: headers() })
const recorded = async (observations: unknown) => (await record(observations)).body.data
const lookUp = (keyword: string, query = '') =>
  world.get(`/api/batch/volumes/${encodeURIComponent(keyword)}${query}`, { headers: headers() })
const monthsOf = async (keyword: string, query = '') => (await lookUp(keyword, query)).body.data.months
const aggregate = () => aggregateVolumes(world.app.batch)

describe('observations', () => {
  test('are stored once: new, changed or unchanged, and the counts add up', async () => {
    const keyword = newKeyword()
    const both = [month(keyword, '2029-11', 100, { pc: 40, mobile: 60 }), month(keyword, '2029-12', 120)]
    const first = await record(both)
    expect(first.status).toBe(200)
    expect(first.body.data).toEqual({ inserted: 2, updated: 0, unchanged: 0 })
    expect(await recorded(both)).toEqual({ inserted: 0, updated: 0, unchanged: 2 })
    expect(
      await recorded([both[0], month(keyword.toUpperCase(), '2029-12', 130), month(keyword, '2029-10', 90)]),
    ).toEqual({ inserted: 1, updated: 1, unchanged: 1 })
    expect(await recorded([month(keyword, '2029-10', 1), month(keyword, '2029-10', 2)])).toEqual({
      inserted: 0,
      updated: 1,
      unchanged: 1,
    })
  })

  test('with a bad keyword are refused as a whole, and every bad one is named', async () => {
    const keyword = newKeyword()
    const refused = await record([
      month(keyword, '2029-11', 1),
      month('👟', '2029-11', 1),
      month('', '2029-11', 1),
    ])
    expect([refused.status, refused.body.error.code]).toEqual([400, 'invalid_keyword'])
    expect(refused.body.error.details.map(({ path, code }: Told) => [path, code])).toEqual([
      ['observations[1].keyword', 'keyword_has_emoji'],
      ['observations[2].keyword', 'keyword_empty'],
    ])
    await aggregate()
    expect((await lookUp(keyword)).status).toBe(404)
  })

  test.each([
    ['neither volume nor bound', { volume: undefined }, 'observations[0].volume'],
    ['volume and bound', { volume_max: 9 }, 'observations[0].volume'],
    ['a negative volume', { volume: -1 }, 'observations[0].volume'],
    ['half a search', { volume: 1.5 }, 'observations[0].volume'],
    ['a day that does not exist', { day: '2029-02-29' }, 'observations[0].day'],
    ['a day to come', { day: '2030-01-20' }, 'observations[0].day'],
    ['an unknown kind', { kind: 'week' }, 'observations[0].kind'],
    ['no source', { source: undefined }, 'observations[0].source'],
    ['an unknown field', { colour: 1 }, 'observations[0].colour'],
  ])('with %s are malformed', async (_what, more, path) => {
    const refused = await record([month(newKeyword(), '2029-11', 1, more)])
    expect([refused.status, refused.body.error.code]).toEqual([400, 'validation_failed'])
    expect(refused.body.error.details).toContainEqual(expect.objectContaining({ path }))
  })

  test('need the admin scope, for all workspaces share them', async () => {
    const writer = await world.makeToken({ scopes: ['batch:write'] })
    const body = { observations: [month('x', '2029-11', 1)] }
    expect((await world.post('/api/batch/volumes', body, { token: writer })).status).toBe(403)
    expect((await world.post('/api/batch/volumes', body, { token: null })).status).toBe(401)
    expect((await record(Array(1001).fill(month('x', '2029-11', 1)))).status).toBe(400)
    expect((await record([])).status).toBe(400)
    const large = { raw: `{"x":"${'x'.repeat(2_100_000)}"}`, headers: { 'content-type': 'application/json' } }
    expect((await world.ask('POST', '/api/batch/volumes', large)).status).toBe(413)
  })
})

describe('a lookup', () => {
  test('answers months oldest first, with what they come to', async () => {
    const keyword = newKeyword()
    const names = ['2029-07', '2029-08', '2029-09', '2029-10', '2029-11', '2029-12']
    await record(names.toReversed().map((name, at) => month(keyword, name, 600 - at * 100)))
    await aggregate()
    const found = await lookUp(keyword.toUpperCase())
    expect(found.status).toBe(200)
    expect(found.body.data).toEqual({
      keyword: keyword.toUpperCase(),
      unit: 'searches_per_month',
      months: names.map((name, at) => ({
        month: name,
        volume: 100 + at * 100,
        volume_min: 100 + at * 100,
        volume_max: 100 + at * 100,
        source: 'naver',
        quality: 'reported',
        days_observed: expect.any(Number),
      })),
      latest: 600,
      average_12m: 350,
      trend: 'rising',
      summary_source: 'naver',
      updated_at: expect.stringMatching(/^2030-01-15T12:.*\+00:00$/),
    })
    expect((await monthsOf(keyword, '?from=2029-08&to=2029-10')).map(({ month }: Told) => month)).toEqual([
      '2029-08',
      '2029-09',
      '2029-10',
    ])
  })

  test('a censored month has bounds and no volume, never a made-up zero', async () => {
    const keyword = newKeyword()
    await record([month(keyword, '2029-12', 0, { volume: undefined, volume_max: 9 })])
    await aggregate()
    const { data } = (await lookUp(keyword)).body
    expect(data.months).toEqual([
      {
        month: '2029-12',
        volume: null,
        volume_min: 0,
        volume_max: 9,
        source: 'naver',
        quality: 'reported',
        days_observed: 31,
      },
    ])
    expect([data.latest, data.average_12m, data.trend]).toEqual([null, null, null])
  })

  test('keeps sources apart, and sums up the one that reaches furthest', async () => {
    const keyword = newKeyword()
    await record([
      month(keyword, '2029-10', 10, { source: 'google' }),
      month(keyword, '2029-11', 20, { source: 'google' }),
      month(keyword, '2029-11', 900),
      month(keyword, '2029-12', 1000),
    ])
    await aggregate()
    const { data } = (await lookUp(keyword)).body
    expect(data.months.map(({ month, source }: Told) => [month, source])).toEqual([
      ['2029-10', 'google'],
      ['2029-11', 'google'],
      ['2029-11', 'naver'],
      ['2029-12', 'naver'],
    ])
    expect([data.summary_source, data.latest, data.average_12m]).toEqual(['naver', 1000, 950])
    const google = (await lookUp(keyword, '?source=google')).body.data
    expect([google.months.length, google.latest]).toEqual([2, 20])
    expect((await lookUp(keyword, '?source=bing')).status).toBe(404)
  })

  test('nothing stored, keywords that can be none, and queries that make no sense', async () => {
    const missing = await lookUp('never heard of')
    expect([missing.status, missing.body.error.code]).toEqual([404, 'volume_not_found'])
    for (const bad of ['x'.repeat(81), 'x'.repeat(2000), '👟', '!!', 'a\u0000b']) {
      const refused = await lookUp(bad)
      expect([refused.status, refused.body.error.code]).toEqual([400, 'invalid_keyword'])
    }
    for (const query of [
      '?from=2029-13',
      '?from=2029',
      '?source=%00',
      '?from=2029-12&to=2029-11',
      '?colour=red',
    ]) {
      const refused = await lookUp('shoes', query)
      expect([refused.status, refused.body.error.code]).toEqual([400, 'validation_failed'])
    }
    expect((await lookUp('shoes', '?workspace_id=ws_any')).status).toBe(404)
  })

  test('many at once share statements, and each is answered for its own keyword', async () => {
    const kept = Array.from({ length: 30 }, newKeyword)
    const never = Array.from({ length: 5 }, newKeyword)
    await record(kept.map((keyword, at) => month(keyword, '2029-12', 1000 + at)))
    await aggregate()
    const asked = [...kept, ...never, ...kept].sort(() => Math.random() - 0.5)
    const answers = await Promise.all(asked.map((keyword) => lookUp(keyword)))
    for (const [at, keyword] of asked.entries()) {
      const { status, body } = answers[at]!
      const place = kept.indexOf(keyword)
      if (place < 0) expect([status, body.error.code]).toEqual([404, 'volume_not_found'])
      else expect(body.data).toMatchObject({ keyword, latest: 1000 + place })
    }
  })

  test('of a keyword that has very many months the newest are told', async () => {
    const keyword = newKeyword()
    await world.query(
      `insert into batch.monthly_volume
         (key, source, month, volume, volume_min, volume_max, quality, days_observed, updated_at)
       select $1, source, month::date, 7, 7, 7, 'reported', 30, now()
       from generate_series(timestamp '1920-01-01', '2029-12-01', '1 month') month, unnest('{naver,other}'::text[]) source`,
      [keyword],
    )
    const whole: { month: string; source: string }[] = await monthsOf(keyword)
    const named: { month: string; source: string }[] = await monthsOf(keyword, '?to=2029-12')
    expect(whole).toHaveLength(1200)
    expect([whole[0]!.month, whole.at(-1)!.month]).toEqual(['1980-01', '2029-12'])
    expect(named).toEqual(whole)
  })

  test('is open to a token of any workspace with the read scope', async () => {
    const keyword = newKeyword()
    await record([month(keyword, '2029-12', 5)])
    await aggregate()
    const token = await world.makeToken({ workspace: 'ws_reader', scopes: ['batch:read'] })
    expect((await world.get(`/api/batch/volumes/${encodeURIComponent(keyword)}`, { token })).status).toBe(200)
    const other = await world.makeToken({ workspace: '*', scopes: ['billing:read'] })
    expect((await world.get('/api/batch/volumes/shoes', { token: other })).status).toBe(403)
  })
})

describe('aggregation', () => {
  test('sums days, spreads windows, and a late observation works its month out again', async () => {
    const keyword = newKeyword()
    const days = Array.from({ length: 30 }, (_, at) => ({
      keyword,
      source: 'naver',
      kind: 'day',
      day: `2029-11-${String(at + 1).padStart(2, '0')}`,
      volume: 10,
    }))
    await record(days.slice(0, 29))
    await aggregate()
    expect(await monthsOf(keyword)).toMatchObject([
      { month: '2029-11', volume: 300, quality: 'estimated', days_observed: 29 },
    ])
    await record(days.slice(29))
    await aggregate()
    expect(await monthsOf(keyword)).toMatchObject([
      { month: '2029-11', volume: 300, quality: 'measured', days_observed: 30 },
    ])
    await record([month(keyword, '2029-11', 7)])
    await aggregate()
    expect(await monthsOf(keyword)).toMatchObject([{ volume: 7, quality: 'reported' }])
  })

  test('that finds nothing new leaves everything as it was, and says so', async () => {
    const keyword = newKeyword()
    await record([month(keyword, '2029-12', 5)])
    await aggregate()
    const before = await world.query('select * from batch.monthly_volume where key = $1', [keyword])
    await record([month(keyword, '2029-12', 5)])
    expect(await aggregate()).toEqual({ keywords: 0, months: 0 })
    await record([month(keyword, '2029-12', 5, { pc: 1 })])
    expect(await aggregate()).toEqual({ keywords: 1, months: 1 })
    expect(await world.query('select * from batch.monthly_volume where key = $1', [keyword])).toEqual(before)
  })

  test('goes through more months than fit on a page and tells how far it is', async () => {
    const some = Array.from({ length: 100 }, newKeyword)
    for (const name of [
      '2029-01',
      '2029-02',
      '2029-03',
      '2029-04',
      '2029-05',
      '2029-06',
      '2029-07',
      '2029-08',
      '2029-09',
      '2029-10',
      '2029-11',
    ]) {
      await record(some.map((keyword) => month(keyword, name, 5)))
    }
    const told: { done: number; of: number }[] = []
    expect(await aggregateVolumes(world.app.batch, (progress) => told.push(progress))).toEqual({
      keywords: 100,
      months: 1100,
    })
    expect(told).toEqual([500, 1000, 1100].map((done) => ({ done, of: 1100 })))
  })

  test('a worker that was taken for dead stores nothing', async () => {
    const keyword = newKeyword()
    await record([month(keyword, '2029-12', 5)])
    const fenced = { ...world.app.batch, fence: () => Promise.reject(new Error('fenced')) }
    await expect(aggregateVolumes(fenced)).rejects.toThrow('fenced')
    expect((await lookUp(keyword)).status).toBe(404)
    expect(await aggregate()).toEqual({ keywords: 1, months: 1 })
  })

  test('an observation that arrives while its month is worked out is not lost, and no older result overwrites it', async () => {
    const keyword = newKeyword()
    await record([month(keyword, '2029-12', 1)])
    // The fence stands between the reading and the storing: here the next observation arrives, and another run.
    let isFirst = true
    const fence = async () => {
      if (!isFirst) return
      isFirst = false
      await record([month(keyword, '2029-12', 2)])
      await aggregate()
    }
    expect(await aggregateVolumes({ ...world.app.batch, fence })).toEqual({ keywords: 0, months: 0 })
    expect(await monthsOf(keyword)).toMatchObject([{ volume: 2 }])

    await record([month(keyword, '2029-12', 3)])
    isFirst = true
    const justArrives = async () => {
      if (isFirst) await record([month(keyword, '2029-12', 4)])
      isFirst = false
    }
    await aggregateVolumes({ ...world.app.batch, fence: justArrives })
    await aggregate()
    expect(await monthsOf(keyword)).toMatchObject([{ volume: 4 }])
  })

  test('comes to the same months as the rule, whatever arrives when, twice or late', async () => {
    const days = Array.from({ length: 90 }, (_, at) =>
      new Date(Date.UTC(2029, 0, 15 + at)).toISOString().slice(0, 10),
    )
    const observation = fc
      .record({
        kind: fc.constantFrom('day', 'day', 'rolling_30d', 'rolling_30d', 'month'),
        day: fc.constantFrom(...days),
        amount: fc.integer({ min: 0, max: 5000 }),
        isCensored: fc.boolean(),
      })
      .map(({ amount, isCensored, ...rest }) => ({
        ...rest,
        ...(isCensored ? { volume_max: amount } : { volume: amount }),
      }))
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.tuple(fc.array(observation, { minLength: 1, maxLength: 25 }), fc.integer({ min: 0, max: 2 })),
          { minLength: 1, maxLength: 4 },
        ),
        async (batches) => {
          const keyword = newKeyword()
          const last = new Map<string, VolumeObservation>()
          for (const [batch, runs] of batches) {
            await record(batch.map((one) => ({ keyword, source: 'naver', ...one })))
            for (let run = 0; run < runs; run++) await aggregate()
            for (const { kind, day, ...amount } of batch) {
              const { volume = null, volume_max: volumeMax = null } = amount as {
                volume?: number
                volume_max?: number
              }
              last.set(`${kind} ${kind === 'month' ? day.slice(0, 7) : day}`, {
                kind,
                day,
                volume,
                volumeMax,
              } as VolumeObservation)
            }
          }
          await Promise.all([aggregate(), aggregate()])
          const expected = monthlyVolumes([...last.values()]).map((one) => ({
            month: one.month,
            volume: one.volume,
            volume_min: one.volumeMin,
            volume_max: one.volumeMax,
            source: 'naver',
            quality: one.quality,
            days_observed: one.daysObserved,
          }))
          expect(await monthsOf(keyword)).toEqual(expected)
        },
      ),
      { numRuns: size(25, 60) },
    )
  })
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { openRateLimiter } from '../../src/platform/access/rate-limit.ts'
import { openPatientPool } from '../patience.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const look = (workspace: string) => world.get(`/api/batch/volumes/abc?workspace_id=${workspace}`)

/** Makes recorded requests older, as if that much time had passed. */
const age = (bucket: string, seconds: number) =>
  world.query(
    `update platform.rate_window set hits = array(select h - make_interval(secs => $2) from unnest(hits) h order by h)
     where bucket = $1`,
    [bucket, seconds],
  )

test('exactly 100 of 300 parallel requests get in, and the rest are told when to come back', async () => {
  const answers = await Promise.all(Array.from({ length: 300 }, () => look('crowd')))
  expect(answers.filter(({ status }) => status === 404)).toHaveLength(100)
  const refused = answers.filter(({ status }) => status === 429)
  expect(refused).toHaveLength(200)
  for (const { headers, body } of refused) {
    expect(headers.get('retry-after')).toMatch(/^\d+$/)
    expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(60)
    expect(headers.get('ratelimit-policy')).toBe('"workspace";q=100;w=60')
    expect(headers.get('ratelimit')).toMatch(/^"workspace";r=0;t=\d+$/)
    expect(body.error.code).toBe('rate_limited')
  }
})

test('every accepted answer says what is left, and no two say the same', async () => {
  const answers = await Promise.all(Array.from({ length: 40 }, () => look('left')))
  const remaining = answers.map(({ headers }) => Number(/r=(\d+)/.exec(headers.get('ratelimit')!)![1]))
  expect(remaining.sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, at) => 60 + at))
})

test('the window slides: 199 never fit around a minute boundary', async () => {
  await Promise.all(Array.from({ length: 99 }, () => look('slide')))
  // Ten seconds short of a whole window, so that a slow machine does not slide it by itself.
  await age('workspace:slide', 50)
  const second = await Promise.all(Array.from({ length: 100 }, () => look('slide')))
  expect(second.filter(({ status }) => status !== 429)).toHaveLength(1)
})

test('refused requests do not count, and after Retry-After a lone client gets in', async () => {
  await Promise.all(Array.from({ length: 150 }, () => look('lone')))
  await age('workspace:lone', 50)
  const refused = await look('lone')
  expect(refused.status).toBe(429)
  const wait = Number(refused.headers.get('retry-after'))
  expect(wait).toBeGreaterThanOrEqual(1)
  expect(wait).toBeLessThanOrEqual(10)
  await age('workspace:lone', wait)
  expect((await look('lone')).status).toBe(404)
})

test('400 and 404 count, 401, 403 and 429 do not', async () => {
  const token = await world.makeToken({ workspace: 'counted', scopes: ['batch:write'] })
  const remaining = async () => {
    const answer = await world.get('/api/batch/volumes/abc', { token })
    return Number(/r=(\d+)/.exec(answer.headers.get('ratelimit')!)![1])
  }
  const before = await remaining()
  await world.post('/api/batch/keywords', { workspace_id: 'counted' }, { token })
  expect(await remaining()).toBe(before - 2)
  await world.post('/api/batch/keywords', { workspace_id: 'other', keywords: ['a'] }, { token })
  await world.post('/api/batch/keywords', { workspace_id: 'counted', keywords: ['a'] }, { token: null })
  expect(await remaining()).toBe(before - 3)
})

test('the bucket is the named workspace, else the token’s, else the header’s, else the token itself', async () => {
  const bound = await world.makeToken({ workspace: 'bound' })
  const star = await world.makeToken({})
  await world.get('/api/batch/volumes/abc', { token: bound, headers: { 'x-workspace-id': 'ignored' } })
  await world.get('/api/batch/volumes/abc', { token: star, headers: { 'x-workspace-id': 'header' } })
  await world.get('/api/batch/volumes/abc', { token: star })
  await world.get('/api/batch/volumes/abc?workspace_id=named', {
    token: star,
    headers: { 'x-workspace-id': 'ignored' },
  })
  const buckets = (await world.query<{ bucket: string }>('select bucket from platform.rate_window')).map(
    ({ bucket }) => bucket,
  )
  expect(buckets).toEqual(expect.arrayContaining(['workspace:bound', 'workspace:header', 'workspace:named']))
  expect(buckets).not.toContain('workspace:ignored')
  expect(buckets.some((bucket) => bucket === `token:${star.slice(8, 20)}`)).toBe(true)
})

test('what cannot be parsed counts against the token, and is limited like the rest', async () => {
  const token = await world.makeToken({ workspace: 'ws_parse' })
  const send = () =>
    world.ask('POST', '/api/batch/keywords', {
      raw: '{',
      headers: { 'content-type': 'application/json' },
      token,
    })
  const answers = await Promise.all(Array.from({ length: 101 }, send))
  expect(answers.filter(({ status }) => status === 400)).toHaveLength(100)
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(1)
  expect((await world.get('/api/batch/volumes/abc', { token })).status).toBe(404)
})

test('several limiters on one database agree to the last request, with crossed buckets and no deadlock', async () => {
  const pools = Array.from({ length: 4 }, () => openPatientPool(world.databaseUrl, 4, 'test'))
  const limiters = pools.map(openRateLimiter)
  const buckets = Array.from({ length: 10 }, (_, at) => `shared:${at}`)
  const admitted = new Map<string, number>()
  await Promise.all(
    limiters.flatMap((limiter, at) =>
      Array.from({ length: 60 }, async () => {
        const order = at % 2 === 0 ? buckets : buckets.toReversed()
        const verdicts = await Promise.all(
          order.map(async (bucket) => ({ bucket, ...(await limiter.admit(bucket)) })),
        )
        for (const { bucket, admitted: yes } of verdicts)
          if (yes) admitted.set(bucket, (admitted.get(bucket) ?? 0) + 1)
      }),
    ),
  )
  expect([...admitted.values()]).toEqual(Array(10).fill(100))
  await Promise.all(pools.map((pool) => pool.end()))
})

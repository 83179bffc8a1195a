import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Rank, supersedes } from '../../src/batch/ranks/rank.ts'
import { openWorld, type World } from '../world.ts'

let world: World
let workspaces = 0

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
})
afterAll(() => world.close())

async function newWorkspace(...keywords: string[]): Promise<string> {
  const workspace_id = `ws_ranks_${++workspaces}`
  if (keywords.length > 0) await world.post('/api/batch/keywords', { workspace_id, keywords })
  return workspace_id
}

type Told = Record<string, unknown>
const ranked = (keyword: string, day: string, position: number, more: Told = {}): Told => ({
  keyword,
  day,
  status: 'ranked',
  position,
  ...more,
})
const record = (workspace_id: string, observations: unknown) =>
  world.post('/api/batch/ranks', { workspace_id, observations })
const recorded = async (workspace_id: string, observations: unknown) =>
  (await record(workspace_id, observations)).body.data
const history = (workspace_id: string, keyword: string, query = '') =>
  world.get(`/api/batch/ranks/${encodeURIComponent(keyword)}?workspace_id=${workspace_id}${query}`)
const ranksOf = async (workspace_id: string, keyword: string, query = '') =>
  (await history(workspace_id, keyword, query)).body.data.ranks

describe('recording', () => {
  test('stores what is new, and telling it again changes nothing', async () => {
    const workspace = await newWorkspace('나이키', 'adidas')
    const observations = [
      ranked('나이키', '2030-01-14', 3, { url: 'https://example.com/a?b=1', searched_depth: 50 }),
      { keyword: 'ADIDAS', day: '2030-01-14', status: 'not_in_depth' },
      { keyword: 'adidas', day: '2030-01-13', status: 'failed' },
    ]
    const first = await record(workspace, observations)
    expect(first.status).toBe(200)
    expect(first.body.data).toEqual({ inserted: 3, updated: 0, unchanged: 0, rejected: 0, rejections: [] })
    expect(await recorded(workspace, observations)).toMatchObject({ inserted: 0, updated: 0, unchanged: 3 })
    expect(await ranksOf(workspace, '나이키')).toEqual([
      {
        day: '2030-01-14',
        engine: 'naver',
        device: 'mobile',
        location: 'KR',
        status: 'ranked',
        position: 3,
        mean_position: null,
        searched_depth: 50,
        url: 'https://example.com/a?b=1',
        reason: null,
        checked_at: expect.stringMatching(/^2030-01-15T12:.*\+00:00$/),
      },
    ])
  })

  test('engine, device, location and day each make a rank of their own', async () => {
    const workspace = await newWorkspace('shoes')
    const day = '2030-01-10'
    expect(
      await recorded(workspace, [
        ranked('shoes', day, 1),
        ranked('shoes', day, 2, { engine: 'google' }),
        ranked('shoes', day, 3, { device: 'pc' }),
        ranked('shoes', day, 4, { location: 'US' }),
        ranked('shoes', '2030-01-11', 5),
      ]),
    ).toMatchObject({ inserted: 5 })
    expect((await ranksOf(workspace, 'shoes')).map(({ position }: Told) => position)).toEqual([2, 1, 4, 3, 5])
  })

  test('the later check wins, whichever is told first', async () => {
    const workspace = await newWorkspace('early', 'late')
    const at = (hour: number) => `2030-01-14T${String(hour).padStart(2, '0')}:00:00+09:00`
    await record(workspace, [ranked('early', '2030-01-14', 5, { checked_at: at(9) })])
    expect(
      await recorded(workspace, [ranked('early', '2030-01-14', 7, { checked_at: at(10) })]),
    ).toMatchObject({ inserted: 0, updated: 1, unchanged: 0 })
    expect(
      await recorded(workspace, [ranked('early', '2030-01-14', 9, { checked_at: at(8) })]),
    ).toMatchObject({ inserted: 0, updated: 0, unchanged: 1 })
    expect((await ranksOf(workspace, 'early'))[0]).toMatchObject({
      position: 7,
      checked_at: '2030-01-14T01:00:00.000+00:00',
    })
  })

  test('a failed check never takes the place of a good one, and a good one always that of a failed one', async () => {
    const workspace = await newWorkspace('shoes')
    const day = '2030-01-14'
    const failedLate = { keyword: 'shoes', day, status: 'failed', checked_at: '2030-01-14T20:00:00Z' }
    await record(workspace, [ranked('shoes', day, 5, { checked_at: '2030-01-14T09:00:00Z' })])
    expect(await recorded(workspace, [failedLate])).toMatchObject({ updated: 0, unchanged: 1 })

    await record(workspace, [{ ...failedLate, day: '2030-01-13' }])
    const goodEarly = {
      keyword: 'shoes',
      day: '2030-01-13',
      status: 'not_in_depth',
      checked_at: '2030-01-13T01:00Z',
    }
    expect(await recorded(workspace, [goodEarly])).toMatchObject({ updated: 1 })
    expect((await ranksOf(workspace, 'shoes')).map(({ status }: Told) => status)).toEqual([
      'not_in_depth',
      'ranked',
    ])
  })

  test('repeats within one request come to one rank, and the counts still add up', async () => {
    const workspace = await newWorkspace('shoes')
    const day = '2030-01-14'
    const answer = await recorded(workspace, [
      ranked('shoes', day, 5, { checked_at: '2030-01-14T09:00:00Z' }),
      { keyword: 'SHOES', day, status: 'failed', checked_at: '2030-01-14T12:00:00Z' },
      ranked('shoes', day, 2, { checked_at: '2030-01-14T11:00:00Z' }),
      ranked('shoes', day, 8, { checked_at: '2030-01-14T10:00:00Z' }),
      ranked('nobody', day, 8),
    ])
    expect(answer).toMatchObject({ inserted: 1, updated: 0, unchanged: 3, rejected: 1 })
    expect((await ranksOf(workspace, 'shoes')).map(({ position }: Told) => position)).toEqual([2])
  })

  test('unknown keywords and impossible values are rejected one by one, and the rest is stored', async () => {
    const workspace = await newWorkspace('shoes', 'gone')
    await world.ask('DELETE', '/api/batch/keywords', {
      body: { workspace_id: workspace, keywords: ['gone'] },
    })
    const day = '2030-01-14'
    const rows: [Told, string | null][] = [
      [ranked('shoes', day, 1), null],
      [ranked('boots', day, 1), 'keyword_not_found'],
      [ranked('gone', day, 1), 'keyword_not_found'],
      [ranked('👟', day, 1), 'keyword_has_emoji'],
      [ranked('shoes', day, 0), 'position_out_of_range'],
      [ranked('shoes', day, -1), 'position_out_of_range'],
      [ranked('shoes', day, 1.5), 'position_out_of_range'],
      [ranked('shoes', day, 101), 'position_out_of_range'],
      [ranked('shoes', day, 31, { searched_depth: 30 }), 'position_out_of_range'],
      [{ keyword: 'shoes', day, status: 'ranked' }, 'position_missing'],
      [{ keyword: 'shoes', day, status: 'not_in_depth', position: 3 }, 'position_not_allowed'],
      [{ keyword: 'shoes', day, status: 'failed', position: 3 }, 'position_not_allowed'],
      [{ keyword: 'shoes', day, status: 'failed', searched_depth: 0 }, 'searched_depth_out_of_range'],
      [ranked('shoes', day, 1, { reason: 'timeout' }), 'reason_not_allowed'],
      [ranked('shoes', '2029-02-29', 1), 'day_not_real'],
      [ranked('shoes', '2030-01-18', 1), 'day_out_of_range'],
      [ranked('shoes', '1999-12-31', 1), 'day_out_of_range'],
      [ranked('shoes', day, 1, { checked_at: '2030-02-30T00:00:00Z' }), 'checked_at_not_real'],
      [ranked('shoes', day, 1, { checked_at: '2031-01-01T00:00:00Z' }), 'checked_at_in_future'],
      [ranked('shoes', '2030-01-17', 1, { engine: 'google' }), null],
      [ranked('shoes', '2000-01-01', 100), null],
    ]
    const answer = await recorded(
      workspace,
      rows.map(([row]) => row),
    )
    expect(answer.rejections).toEqual(rows.flatMap(([, code], index) => (code ? [{ index, code }] : [])))
    expect(answer).toMatchObject({ inserted: 3, updated: 0, unchanged: 0, rejected: rows.length - 3 })
  })

  test.each([
    ['no observations', { observations: [] }, 'observations'],
    ['no list', {}, 'observations'],
    ['1001 observations', { observations: Array(1001).fill(ranked('a', '2030-01-14', 1)) }, 'observations'],
    [
      'an unknown field',
      { observations: [ranked('a', '2030-01-14', 1, { colour: 1 })] },
      'observations[0].colour',
    ],
    ['no day', { observations: [{ keyword: 'a', status: 'failed' }] }, 'observations[0].day'],
    ['a day of another form', { observations: [ranked('a', '14.1.2030', 1)] }, 'observations[0].day'],
    [
      'an unknown status',
      { observations: [{ keyword: 'a', day: '2030-01-14', status: 'lost' }] },
      'observations[0].status',
    ],
    [
      'a position in words',
      { observations: [ranked('a', '2030-01-14', 'first' as never)] },
      'observations[0].position',
    ],
    [
      'a time without offset',
      { observations: [ranked('a', '2030-01-14', 1, { checked_at: '2030-01-14T09:00:00' })] },
      'observations[0].checked_at',
    ],
    [
      'an address that is too long',
      { observations: [ranked('a', '2030-01-14', 1, { url: 'x'.repeat(2049) })] },
      'observations[0].url',
    ],
    [
      'an address with a control character',
      { observations: [ranked('a', '2030-01-14', 1, { url: 'x\u0000' })] },
      'observations[0].url',
    ],
    [
      'an engine with a space',
      { observations: [ranked('a', '2030-01-14', 1, { engine: 'a b' })] },
      'observations[0].engine',
    ],
  ])('a request with %s is malformed as a whole', async (_what, body, path) => {
    const refused = await world.post('/api/batch/ranks', { workspace_id: 'ws_malformed', ...body })
    expect(refused.status).toBe(400)
    expect(refused.body.error.code).toBe('validation_failed')
    expect(refused.body.error.details).toContainEqual(expect.objectContaining({ path }))
  })

  test('takes a body of up to 2 MiB', async () => {
    const workspace = await newWorkspace('shoes')
    const rows = (length: number, count: number) =>
      Array.from({ length: count }, (_, at) =>
        ranked(
          'shoes',
          `2029-${String(1 + (at % 12)).padStart(2, '0')}-${String(1 + (at % 28)).padStart(2, '0')}`,
          1,
          {
            url: 'u'.repeat(length),
            device: `d${at}`,
          },
        ),
      )
    expect(await recorded(workspace, rows(1500, 1000))).toMatchObject({ inserted: 1000 })
    const refused = await record(workspace, rows(2048, 1000))
    expect([refused.status, refused.body.error.code]).toEqual([413, 'body_too_large'])
  })

  test('a body of megabytes tells its unknown keywords by their places, and is stored whole or not at all', async () => {
    const workspace = await newWorkspace('shoes')
    const rows = Array.from({ length: 900 }, (_, at) =>
      ranked(at % 300 === 7 ? `nobody ${at}` : 'shoes', '2029-12-01', 1, {
        url: 'u'.repeat(2000),
        device: `d${at}`,
      }),
    )
    expect(await recorded(workspace, rows)).toEqual({
      inserted: 897,
      updated: 0,
      unchanged: 0,
      rejected: 3,
      rejections: [7, 307, 607].map((index) => ({ index, code: 'keyword_not_found' })),
    })
    expect(await recorded(workspace, rows)).toMatchObject({ inserted: 0, unchanged: 897, rejected: 3 })
    const badly = [...rows.slice(0, 899), { ...rows[899], url: 7 }]
    const refused = await record(workspace, badly)
    expect(refused.body.error.details).toEqual([
      expect.objectContaining({ path: 'observations[899].url', code: 'wrong_type' }),
    ])

    // What the last portion breaks on takes the first ones back.
    await world.query(
      `alter table batch.rank add constraint breaks check (device <> 'e899' or workspace_id <> '${workspace}') not valid`,
    )
    const others = rows.map((row, at) => ({ ...row, keyword: 'shoes', device: `e${at}` }))
    expect((await record(workspace, others)).status).toBe(500)
    await world.query('alter table batch.rank drop constraint breaks')
    const stored = await world.query<{ stored: number }>(
      "select count(*)::int as stored from batch.rank where workspace_id = $1 and device like 'e%'",
      [workspace],
    )
    expect(stored).toEqual([{ stored: 0 }])
  })

  test('equal requests at once store each rank once, beside one that is stored already', async () => {
    const workspace = await newWorkspace('alpha', 'beta')
    const days = Array.from({ length: 14 }, (_, at) => `2030-01-${String(at + 1).padStart(2, '0')}`)
    const rows = ['alpha', 'beta'].flatMap((keyword) => days.map((day) => ranked(keyword, day, 1)))
    const atOnce = (told: Told[]) => Promise.all(Array.from({ length: 10 }, () => recorded(workspace, told)))
    const inserted = async (told: Told[]) =>
      (await atOnce(told)).reduce((sum, answer) => {
        expect(answer).toMatchObject({ updated: 0, rejected: 0 })
        return sum + answer.inserted
      }, 0)
    expect(await inserted(rows.slice(7, 8))).toBe(1)
    expect(await inserted(rows.slice(14))).toBe(14)
    expect(await inserted(rows)).toBe(13)
  })

  test('a rank that somebody else is just storing is waited for and merged with, and the others are stored', async () => {
    const workspace = await newWorkspace('alpha', 'beta')
    await record(workspace, [ranked('alpha', '2030-01-01', 1)])
    const other = new pg.Client({ connectionString: world.databaseUrl })
    await other.connect()
    try {
      await other.query('begin')
      await other.query(
        `insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth,
                                 checked_at)
         select workspace_id, id, '2030-01-14', 'naver', 'mobile', 'KR', 'ranked', 7, 100, '2030-01-14T01:00:00Z'
         from batch.keyword where workspace_id = $1 and key = 'beta'`,
        [workspace],
      )
      const asking = recorded(
        workspace,
        ['alpha', 'beta'].map((keyword) => ranked(keyword, '2030-01-14', 3)),
      )
      const waiting = () =>
        world.query(
          `select 1 from pg_stat_activity where datname = current_database() and state = 'active'
             and pid <> pg_backend_pid() and query like '%left join batch.keyword%'`,
        )
      await expect.poll(waiting).toHaveLength(1)
      await other.query('commit')
      expect(await asking).toMatchObject({ inserted: 1, updated: 1, unchanged: 0, rejected: 0 })
    } finally {
      await other.end()
    }
    expect(await ranksOf(workspace, 'beta')).toMatchObject([{ day: '2030-01-14', position: 3 }])
  })

  test('many writers of the same days in opposite orders, new months included, never end in a deadlock', async () => {
    const keywords = Array.from({ length: 20 }, (_, at) => `ring ${at}`)
    const workspace = await newWorkspace(...keywords)
    const rows = keywords.flatMap((keyword) =>
      ['2025-03-31', '2025-04-01', '2025-05-02'].map((day) => ranked(keyword, day, 1)),
    )
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, at) =>
        record(
          workspace,
          (at % 2 ? rows : rows.toReversed()).map((row) => ({ ...row, position: at + 1 })),
        ),
      ),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(answers.reduce((sum, { body }) => sum + body.data.inserted, 0)).toBe(rows.length)
  })

  test('what is stored is what the rule says, for any sequence of checks in any split into requests', async () => {
    const instants = ['2030-01-14T01:00:00Z', '2030-01-14T02:00:00Z', '2030-01-14T03:00:00Z'] as const
    const check = fc.record({
      status: fc.constantFrom('ranked', 'not_in_depth', 'failed'),
      position: fc.integer({ min: 1, max: 3 }),
      checked_at: fc.constantFrom(...instants),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(check, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 4 }),
        async (requests) => {
          const workspace = await newWorkspace('shoes')
          let expected: Rank | undefined
          for (const request of requests) {
            const told = request.map(({ status, position, checked_at }) => ({
              keyword: 'shoes',
              day: '2030-01-14',
              status,
              checked_at,
              ...(status === 'ranked' ? { position } : {}),
            }))
            const answer = await recorded(workspace, told)
            expect(answer.inserted + answer.updated + answer.unchanged).toBe(request.length)
            for (const { status, position, checked_at } of request) {
              const next = {
                status,
                position: status === 'ranked' ? position : null,
                checkedAt: new Date(checked_at),
              } as Rank
              if (!expected || supersedes(next, expected)) expected = next
            }
          }
          expect((await ranksOf(workspace, 'shoes'))[0]).toMatchObject({
            status: expected!.status,
            position: expected!.position,
            checked_at: expected!.checkedAt.toISOString().replace('Z', '+00:00'),
          })
        },
      ),
      { numRuns: 40 },
    )
  })
})

describe('the history', () => {
  test('is read oldest first between two days, and page by page', async () => {
    const workspace = await newWorkspace('shoes')
    const days = Array.from({ length: 40 }, (_, at) =>
      new Date(Date.UTC(2029, 10, 20 + at)).toISOString().slice(0, 10),
    )
    await record(
      workspace,
      days
        .toReversed()
        .flatMap((day, at) => [
          ranked('shoes', day, at + 1),
          ranked('shoes', day, at + 1, { engine: 'google' }),
        ]),
    )
    expect((await ranksOf(workspace, 'shoes')).map(({ day }: Told) => day)).toEqual(
      days.flatMap((day) => [day, day]),
    )
    const some = await ranksOf(workspace, 'shoes', '&from=2029-12-01&to=2029-12-02')
    expect(some.map(({ day, engine }: Told) => [day, engine])).toEqual([
      ['2029-12-01', 'google'],
      ['2029-12-01', 'naver'],
      ['2029-12-02', 'google'],
      ['2029-12-02', 'naver'],
    ])
    const paged: Told[] = []
    let cursor = ''
    do {
      const { data } = (await history(workspace, 'shoes', `&limit=7${cursor && `&cursor=${cursor}`}`)).body
      paged.push(...data.ranks)
      cursor = data.next_cursor
    } while (cursor)
    expect(paged).toEqual(await ranksOf(workspace, 'shoes'))
  })

  test('goes back one year unless asked further', async () => {
    const workspace = await newWorkspace('shoes')
    await record(workspace, [ranked('shoes', '2028-06-01', 1), ranked('shoes', '2029-06-01', 2)])
    expect(await ranksOf(workspace, 'shoes')).toHaveLength(1)
    expect(await ranksOf(workspace, 'shoes', '&from=2028-01-01')).toHaveLength(2)
  })

  test('tells the best places of the thousand series seen last, and of each the best ever', async () => {
    const workspace = await newWorkspace('shoes')
    const [id] = await world.query<{ id: string }>('select id from batch.keyword where workspace_id = $1', [
      workspace,
    ])
    await record(workspace, [
      ranked('shoes', '2030-01-10', 1, { location: 'old' }),
      ranked('shoes', '2030-01-11', 2, { location: 'older-than-most' }),
      ranked('shoes', '2030-01-15', 9, { location: 'place-1' }),
    ])
    await world.query(
      `insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, checked_at)
       select $1, $2, date '2030-01-12' + s % 3, 'naver', 'mobile', 'place-' || s, 'ranked', 5, 100, timestamptz '2030-01-15 10:00Z'
       from generate_series(2, 999) s`,
      [workspace, id!.id],
    )
    // Months that were dropped: of a series that goes on, and of one that has ended.
    await world.query(
      `insert into batch.dropped_best_rank (workspace_id, keyword_id, engine, device, location, position, day)
       values ($1, $2, 'naver', 'mobile', 'place-1', 3, '2027-01-01'), ($1, $2, 'naver', 'mobile', 'ended', 1, '2027-01-01')`,
      [workspace, id!.id],
    )
    const { best } = (await history(workspace, 'shoes', '&limit=1')).body.data
    const places = ['older-than-most', ...Array.from({ length: 999 }, (_, at) => `place-${at + 1}`)]
    expect(best.map(({ location }: Told) => location)).toEqual(places.sort())
    expect(best.find(({ location }: Told) => location === 'place-1')).toMatchObject({
      position: 3,
      day: '2027-01-01',
    })
  })

  test('survives the removal of its keyword and returns with it', async () => {
    const workspace = await newWorkspace('shoes')
    await record(workspace, [ranked('shoes', '2030-01-14', 4)])
    await world.ask('DELETE', '/api/batch/keywords', {
      body: { workspace_id: workspace, keywords: ['shoes'] },
    })
    expect((await history(workspace, 'shoes')).status).toBe(404)
    await world.post('/api/batch/keywords', { workspace_id: workspace, keywords: ['shoes'] })
    expect(await ranksOf(workspace, 'Shoes')).toHaveLength(1)
  })

  test('a keyword that is not registered, one that can be none, and days that make no sense', async () => {
    const workspace = await newWorkspace('shoes')
    const missing = await history(workspace, 'boots')
    expect([missing.status, missing.body.error.code]).toEqual([404, 'keyword_not_found'])
    const invalid = await history(workspace, 'x'.repeat(300))
    expect([invalid.status, invalid.body.error.code]).toEqual([400, 'invalid_keyword'])
    for (const query of [
      '&from=2030-02-30',
      '&from=2030-01-02&to=2030-01-01',
      '&to=yesterday',
      '&limit=1001',
    ]) {
      const refused = await history(workspace, 'shoes', query)
      expect([refused.status, refused.body.error.code]).toEqual([400, 'validation_failed'])
    }
    const strange = Buffer.from('["2030-01-01","\\u0000","a","b"]').toString('base64url')
    expect((await history(workspace, 'shoes', `&cursor=${strange}`)).status).toBe(400)
  })
})

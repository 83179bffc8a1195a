import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'

let world: World
let workspaces = 0

beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

/** A workspace nobody has used, so that no test eats another's requests of the minute. */
const newWorkspace = () => `ws_keywords_${++workspaces}`

const register = (workspace_id: string, keywords: unknown) =>
  world.post('/api/batch/keywords', { workspace_id, keywords })
const remove = (workspace_id: string, keywords: unknown) =>
  world.ask('DELETE', '/api/batch/keywords', { body: { workspace_id, keywords } })
const list = (workspace_id: string, query = '') =>
  world.get(`/api/batch/keywords?workspace_id=${workspace_id}${query}`)
const listed = async (workspace_id: string, query = '') =>
  (await list(workspace_id, query)).body.data.keywords.map(({ keyword }: { keyword: string }) => keyword)

/** How many sessions are at a statement like this one, as one that waits is. */
async function countActive(like: string): Promise<number> {
  const rows = await world.query(
    `select 1 from pg_stat_activity
     where datname = current_database() and state = 'active' and pid <> pg_backend_pid() and query like $1`,
    [like],
  )
  return rows.length
}

describe('registering', () => {
  test('counts what is new and what is skipped, and both add up to the request', async () => {
    const workspace = newWorkspace()
    const first = await register(workspace, ['나이키 운동화', 'Running Shoes', 'running  SHOES'])
    expect(first.status).toBe(200)
    expect(first.body).toEqual({ success: true, data: { registered: 2, skipped: 1 } })
    const again = await register(workspace, ['running shoes', 'trail shoes'])
    expect(again.body.data).toEqual({ registered: 1, skipped: 1 })
  })

  test('tells the verdict on each entry to whoever asks for it', async () => {
    const workspace = newWorkspace()
    await register(workspace, ['Running Shoes'])
    const keywords = ['trail shoes', 'running  shoes', 'TRAIL SHOES', '나이키']
    const each = await world.post('/api/batch/keywords?each=true', { workspace_id: workspace, keywords })
    expect(each.body.data).toEqual({
      registered: 2,
      skipped: 2,
      verdicts: ['registered', 'skipped', 'skipped', 'registered'],
    })
    await remove(workspace, ['나이키'])
    const revived = await world.post('/api/batch/keywords?each=true', { workspace_id: workspace, keywords })
    expect(revived.body.data.verdicts).toEqual(['skipped', 'skipped', 'skipped', 'registered'])
  })

  test('keeps the first spelling of a keyword', async () => {
    const workspace = newWorkspace()
    await register(workspace, ['ＮＩＫＥ Air', 'nike air'])
    await register(workspace, ['NIKE AIR'])
    expect(await listed(workspace)).toEqual(['ＮＩＫＥ Air'])
  })

  test('keeps keywords apart that only look alike after full compatibility folding', async () => {
    const alike = ['ㅋㅋ', 'ㄱㅏ', '가', '①', '1', 'café', 'cafe', '나이키 운동화', '나이키운동화']
    expect((await register(newWorkspace(), alike)).body.data).toEqual({ registered: 9, skipped: 0 })
  })

  test('takes a hundred keywords and refuses one more', async () => {
    const workspace = newWorkspace()
    const hundred = Array.from({ length: 100 }, (_, at) => `keyword ${at}`)
    expect((await register(workspace, hundred)).body.data).toEqual({ registered: 100, skipped: 0 })
    const refused = await register(workspace, [...hundred, 'one more'])
    expect(refused.status).toBe(400)
    expect(refused.body.error).toMatchObject({
      code: 'validation_failed',
      details: [{ path: 'keywords', code: 'too_many_keywords' }],
    })
    expect(await listed(workspace, '&q=one more')).toEqual([])
  })

  test.each([
    ['an empty list', { workspace_id: 'ws', keywords: [] }, 'keywords'],
    ['a text in place of a list', { workspace_id: 'ws', keywords: 'a' }, 'keywords'],
    ['no list', { workspace_id: 'ws' }, 'keywords'],
    ['no workspace', { keywords: ['a'] }, 'workspace_id'],
    ['a workspace of the wrong form', { workspace_id: 'a b', keywords: ['a'] }, 'workspace_id'],
    ['an unknown field', { workspace_id: 'ws', keywords: ['a'], colour: 'red' }, 'colour'],
  ])('refuses %s and says where', async (_what, body, path) => {
    const refused = await world.post('/api/batch/keywords', body)
    expect(refused.status).toBe(400)
    expect(refused.body.error.code).toBe('validation_failed')
    expect(refused.body.error.details).toContainEqual(expect.objectContaining({ path }))
  })

  test('names every bad entry with its reason, and writes nothing', async () => {
    const workspace = newWorkspace()
    const refused = await register(workspace, [
      'good',
      '',
      7,
      'shoe 👟',
      'a\tb',
      'x'.repeat(81),
      '!!',
      '\ud800',
    ])
    expect(refused.status).toBe(400)
    expect(refused.body.error.code).toBe('invalid_keyword')
    expect(
      refused.body.error.details.map(({ path, code }: { path: string; code: string }) => [path, code]),
    ).toEqual([
      ['keywords[1]', 'keyword_empty'],
      ['keywords[2]', 'keyword_not_string'],
      ['keywords[3]', 'keyword_has_emoji'],
      ['keywords[4]', 'keyword_control_character'],
      ['keywords[5]', 'keyword_too_long'],
      ['keywords[6]', 'keyword_no_content'],
      ['keywords[7]', 'keyword_not_unicode'],
    ])
    expect(await listed(workspace)).toEqual([])
  })

  test('ten equal requests at once register each keyword once', async () => {
    const workspace = newWorkspace()
    const keywords = Array.from({ length: 100 }, (_, at) => `parallel ${at}`)
    const answers = await Promise.all(Array.from({ length: 10 }, () => register(workspace, keywords)))
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200))
    expect(answers.reduce((sum, { body }) => sum + body.data.registered, 0)).toBe(100)
    for (const { body } of answers) expect(body.data.registered + body.data.skipped).toBe(100)
  })

  test('of equal requests at once, what is new, what was removed and what is known is told once as it is', async () => {
    const workspace = newWorkspace()
    const [known, removed, fresh] = ['known', 'removed', 'fresh'].map((kind) =>
      Array.from({ length: 20 }, (_, at) => `${kind} ${at}`),
    ) as [string[], string[], string[]]
    await register(workspace, [...known, ...removed])
    await remove(workspace, removed)
    const keywords = fresh.flatMap((keyword, at) => [known[at]!, keyword, removed[at]!])
    const answers = await Promise.all(
      Array.from({ length: 10 }, () =>
        world.post('/api/batch/keywords?each=true', { workspace_id: workspace, keywords }),
      ),
    )
    const registered = answers.flatMap(({ body }) =>
      keywords.filter((_, at) => body.data.verdicts[at] === 'registered'),
    )
    expect(registered.sort()).toEqual([...fresh, ...removed].sort())
    for (const { body } of answers) expect(body.data.registered + body.data.skipped).toBe(keywords.length)
    expect((await listed(workspace, '&limit=100')).sort()).toEqual([...keywords].sort())
  })

  test('a keyword that somebody else is just registering is waited for and skipped, and the others are registered', async () => {
    const workspace = newWorkspace()
    const other = new pg.Client({ connectionString: world.databaseUrl })
    await other.connect()
    try {
      await other.query('begin')
      await other.query(
        `insert into batch.keyword (workspace_id, key, display, created_at) values ($1, 'beta', 'beta', now())`,
        [workspace],
      )
      const asking = register(workspace, ['alpha', 'beta', 'gamma'])
      await expect.poll(() => countActive('%insert into batch.keyword%')).toBe(1)
      await other.query('commit')
      const { status, body } = await asking
      expect([status, body.data]).toEqual([200, { registered: 2, skipped: 1 }])
    } finally {
      await other.end()
    }
    expect(await listed(workspace)).toEqual(['alpha', 'beta', 'gamma'])
  })

  test('overlapping batches in opposite orders, with removals between them, never end in a deadlock', async () => {
    const workspace = newWorkspace()
    const up = Array.from({ length: 100 }, (_, at) => `ring ${at}`)
    const down = up.toReversed()
    const answers = await Promise.all(
      Array.from({ length: 48 }, (_, at) =>
        at % 3 === 2 ? remove(workspace, at % 2 ? up : down) : register(workspace, at % 2 ? up : down),
      ),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    const sum = (field: string) => answers.reduce((total, { body }) => total + (body.data[field] ?? 0), 0)
    const present = await world.query(
      'select count(*)::int as n from batch.keyword where workspace_id = $1 and removed_at is null',
      [workspace],
    )
    expect(sum('registered') - sum('removed')).toBe(present[0]!['n'])
  })
})

describe('listing', () => {
  test('shows each keyword once over all pages, in a stable order', async () => {
    const workspace = newWorkspace()
    await register(
      workspace,
      Array.from({ length: 45 }, (_, at) => `item ${String(at).padStart(2, '0')}`),
    )
    const seen: string[] = []
    let cursor = ''
    let pages = 0
    do {
      const page = (await list(workspace, cursor && `&cursor=${cursor}`)).body.data
      expect(page.keywords.length).toBeLessThanOrEqual(20)
      seen.push(...page.keywords.map(({ keyword }: { keyword: string }) => keyword))
      cursor = page.next_cursor
      pages++
    } while (cursor)
    expect(pages).toBe(3)
    expect(seen).toEqual(Array.from({ length: 45 }, (_, at) => `item ${String(at).padStart(2, '0')}`))
  })

  test('finds what contains a text, without regard to case and width', async () => {
    const workspace = newWorkspace()
    await register(workspace, ['Nike Air', '나이키 운동화', 'adidas', 'air max', '100% cotton'])
    expect(await listed(workspace, '&q=ＡＩＲ')).toEqual(['air max', 'Nike Air'])
    expect(await listed(workspace, `&q=${encodeURIComponent('운동')}`)).toEqual(['나이키 운동화'])
    expect(await listed(workspace, '&q=%25 c')).toEqual(['100% cotton'])
    expect(await listed(workspace, '&q=_dida')).toEqual([])
    expect(await listed(workspace, '&limit=2')).toHaveLength(2)
  })

  test('a search that must look far goes on with its cursor until it has seen everything', async () => {
    const workspace = newWorkspace()
    await world.query(
      `insert into batch.keyword (workspace_id, key, display, created_at)
       select $1, k, k, now() from (select 'filler ' || lpad(i::text, 6, '0') as k from generate_series(1, 20500) i) s`,
      [workspace],
    )
    await register(workspace, ['zebra crossing'])
    const found: string[] = []
    let cursor = ''
    let pages = 0
    do {
      const page = (await list(workspace, `&q=zebra${cursor && `&cursor=${cursor}`}`)).body.data
      found.push(...page.keywords.map(({ keyword }: { keyword: string }) => keyword))
      cursor = page.next_cursor
      pages++
    } while (cursor)
    expect(found).toEqual(['zebra crossing'])
    expect(pages).toBe(3)
  })

  test.each([
    ['a limit of 101', '&limit=101'],
    ['a limit of 0', '&limit=0'],
    ['a cursor of ours with strange values', `&cursor=${Buffer.from('["x"]').toString('base64url')}`],
    ['a cursor that is not ours', '&cursor=abc'],
    ['an unknown field', '&colour=red'],
  ])('refuses %s', async (_what, query) => {
    const refused = await list(newWorkspace(), query)
    expect(refused.status).toBe(400)
    expect(refused.body.error.code).toBe('validation_failed')
  })
})

describe('removing', () => {
  test('says what was there, and a removed keyword counts as new when it comes back', async () => {
    const workspace = newWorkspace()
    await register(workspace, ['Alpha', 'beta'])
    const removed = await remove(workspace, ['ALPHA', 'alpha', 'gamma'])
    expect(removed.status).toBe(200)
    expect(removed.body.data).toEqual({ removed: 1, not_found: 2 })
    expect(await listed(workspace)).toEqual(['beta'])
    expect((await remove(workspace, ['alpha'])).body.data).toEqual({ removed: 0, not_found: 1 })
    expect((await register(workspace, ['alpha', 'beta'])).body.data).toEqual({ registered: 1, skipped: 1 })
    expect(await listed(workspace)).toEqual(['alpha', 'beta'])
  })

  test('refuses keywords that can be none', async () => {
    const refused = await remove(newWorkspace(), ['fine', '👟'])
    expect(refused.status).toBe(400)
    expect(refused.body.error).toMatchObject({ code: 'invalid_keyword', details: [{ path: 'keywords[1]' }] })
  })
})

describe('at the door', () => {
  const body = { workspace_id: 'ws_door', keywords: ['a'] }

  test('no token, a wrong one, and one without the scope', async () => {
    const path = '/api/batch/keywords'
    const nobody = await world.post(path, body, { token: null })
    expect([nobody.status, nobody.body.error.code]).toEqual([401, 'unauthorized'])
    expect(nobody.headers.get('www-authenticate')).toBe('Bearer')
    expect((await world.post(path, body, { token: 'rl_test_nonsense' })).status).toBe(401)
    const reader = await world.makeToken({ scopes: ['batch:read'] })
    expect((await world.post(path, body, { token: reader })).body.error.code).toBe('forbidden')
    expect((await world.get(`${path}?workspace_id=ws_door`, { token: reader })).status).toBe(200)
    expect((await world.ask('DELETE', path, { body, token: reader })).status).toBe(403)
  })

  test('bodies that are too large, of another type or no JSON', async () => {
    const path = '/api/batch/keywords'
    const large = JSON.stringify({ ...body, keywords: ['x'.repeat(300_000)] })
    const json = { 'content-type': 'application/json' }
    expect((await world.ask('POST', path, { raw: large, headers: json })).status).toBe(413)
    expect(
      (await world.ask('POST', path, { raw: 'a', headers: { 'content-type': 'text/plain' } })).status,
    ).toBe(415)
    const broken = await world.ask('POST', path, { raw: '{', headers: json })
    expect([broken.status, broken.body.error.code]).toEqual([400, 'invalid_json'])
  })

  test('a token of one workspace need not name it, but for registering', async () => {
    const own = await world.makeToken({ workspace: 'ws_own', scopes: ['batch:write'] })
    const created = await world.post(
      '/api/batch/keywords',
      { workspace_id: 'ws_own', keywords: ['mine'] },
      { token: own },
    )
    expect(created.status).toBe(200)
    expect((await world.get('/api/batch/keywords', { token: own })).body.data.keywords).toHaveLength(1)
    const removed = await world.ask('DELETE', '/api/batch/keywords', {
      body: { keywords: ['mine'] },
      token: own,
    })
    expect(removed.body.data).toEqual({ removed: 1, not_found: 0 })
    expect((await world.post('/api/batch/keywords', { keywords: ['mine'] }, { token: own })).status).toBe(400)
  })

  test('a token of all workspaces must name one', async () => {
    const refused = await world.get('/api/batch/keywords')
    expect(refused.status).toBe(400)
    expect(refused.body.error).toMatchObject({
      code: 'validation_failed',
      details: [{ path: 'workspace_id', code: 'required' }],
    })
  })
})

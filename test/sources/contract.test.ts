import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { basicAuth } from '../../src/batch/sources/dataforseo-answers.ts'
import { trendBody } from '../../src/batch/sources/naver-datalab.ts'
import { signatureOf } from '../../src/batch/sources/naver-searchad.ts'
import type { RankAsk, RankPage, Source, SourceName, SourceSettings } from '../../src/batch/sources/port.ts'
import { openSources } from '../../src/batch/sources/registry.ts'
import { dataforseoWire } from '../../src/sandbox/sources/dataforseo-wire.ts'
import { naverSearchWire } from '../../src/sandbox/sources/naver-search-wire.ts'
import { naverSearchadWire, searchadSecret } from '../../src/sandbox/sources/naver-searchad-wire.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import {
  type Fault,
  openSourceSandbox,
  type SourceSandbox,
  type SourceWire,
} from '../../src/sandbox/sources/source-sandbox.ts'
import { sourceWires } from '../../src/sandbox/sources/source-wires.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'

const sandboxes = new Map<SourceWire, SourceSandbox>()
const opened: Source[] = []
beforeAll(async () => {
  for (const wire of sourceWires) sandboxes.set(wire, await openSourceSandbox({ wire, slowMs: 1 }))
})
afterAll(async () => {
  for (const source of opened) source.close()
  for (const sandbox of sandboxes.values()) await sandbox.close()
})

function open(
  name: SourceName,
  wire: SourceWire,
  credentials: Record<string, string>,
  baseUrl?: string,
): Source {
  const settings: SourceSettings = {
    name,
    credentials,
    baseUrl: baseUrl ?? sandboxes.get(wire)!.url,
    ratePerSecond: 1000,
    budgetPerDay: 1000,
    workspaceBudgetPerDay: 0,
  }
  const source = openSources([settings]).get(name)!
  opened.push(source)
  return source
}

/** What a fault of the source must come to, whoever it is. */
async function underFault<T>(wire: SourceWire, fault: Fault, act: () => Promise<T>): Promise<T> {
  const sandbox = sandboxes.get(wire)!
  sandbox.setFaults({ [fault]: 1 })
  try {
    return await act()
  } finally {
    sandbox.setFaults({ [fault]: 0 })
  }
}

type Case = {
  name: SourceName
  wire: SourceWire
  engine: string
  web: string
  key: (secret: string) => Record<string, string>
}
const serp = (name: SourceName): Case => ({
  name,
  wire: serpapiWire,
  engine: 'google',
  web: 'google',
  key: (key) => ({ key }),
})
const ranks: Case[] = [
  ...(['serpapi', 'searchapi', 'valueserp', 'serper', 'hasdata', 'spaceserp'] as const).map(serp),
  {
    name: 'dataforseo',
    wire: dataforseoWire,
    engine: 'google',
    web: 'google',
    key: (password) => ({ login: 'login', password }),
  },
  {
    name: 'naver_search',
    wire: naverSearchWire,
    engine: 'naver_web_api',
    web: 'naver webkr',
    key: (secret) => ({ id: 'client', secret, host: 'hub' }),
  },
  {
    name: 'naver_search',
    wire: naverSearchWire,
    engine: 'naver_blog_api',
    web: 'naver blog',
    key: (secret) => ({ id: 'client', secret, host: 'open' }),
  },
]

describe.each(ranks)('ranks from $name $engine', ({ name, wire, engine, web, key }) => {
  const ask: RankAsk = {
    keyword: '나이키 운동화 100%+',
    engine,
    device: 'desktop',
    location: 'KR',
    language: 'ko',
    depth: 20,
  }
  const read = (secret = 'good-key', page = 0) => open(name, wire, key(secret)).ranks!.readPage!(ask, page)

  test('the pages hold the results in their order', async () => {
    const device = name === 'naver_search' ? 'any' : 'desktop'
    const day = new Date().toISOString().slice(0, 10)
    const expected = openWeb('web').results({
      keyword: ask.keyword,
      engine: web,
      device,
      location: 'KR',
      day,
    })
    const source = open(name, wire, key('good-key')).ranks!
    const urls: string[] = []
    for (let page = 0; page < source.callsFor(engine, ask.depth); page++) {
      const answer = await source.readPage!(ask, page)
      urls.push(...(answer.kind === 'page' ? answer.urls : []))
    }
    expect(urls).toEqual(expected.slice(0, 20))
  })

  test('a refused key is our trouble, and an empty balance ends the day', async () => {
    expect(await read('key-refused')).toMatchObject({
      of: 'credentials',
      reason: 'credentials_refused',
      paid: false,
    })
    expect(await read('key-empty')).toMatchObject({ of: 'quota', reason: 'quota_exhausted', paid: false })
  })

  test.each<[Fault, Record<string, unknown>]>([
    ['unavailable', { kind: 'failed', of: 'answer', reason: 'source_error' }],
    ['hang_up', { kind: 'failed', of: 'answer', reason: 'broken_off', paid: true }],
    ['broken', { kind: 'failed', of: 'answer', reason: 'not_json', paid: true }],
    ['unreadable', { kind: 'failed', of: 'answer', paid: true }],
    ['slow', { kind: 'page' }],
  ])('%s', async (fault, expected) => {
    expect(await underFault(wire, fault, () => read())).toMatchObject(expected)
  })

  test('a search without results is an answer', async () => {
    const answer = await underFault(wire, 'empty', () => read())
    expect(answer).toEqual({ kind: 'page', urls: [], isLast: true })
  })

  test('behind the last page the results have ended, and a page that could not be read is still none', async () => {
    if (wire !== serpapiWire) return
    expect(await read('good-key', 10)).toEqual({ kind: 'page', urls: [], isLast: true })
    expect(await underFault(wire, 'unreadable', () => read('good-key', 10))).toMatchObject({
      reason: 'unreadable_results',
    })
  })

  test('the layout of another device is not believed', async () => {
    if (name === 'naver_search' || name === 'serper' || name === 'hasdata') return
    expect(await underFault(wire, 'wrong_device', () => read())).toMatchObject({
      reason: 'wrong_device',
      paid: true,
    })
  })

  test('nobody there: nothing was sent', async () => {
    const source = open(name, wire, key('good-key'), 'http://127.0.0.1:1')
    expect(await source.ranks!.readPage!(ask, 0)).toMatchObject({ reason: 'unreachable', paid: false })
  })
})

test('news stand under the address of Naver and under that of their newspaper', async () => {
  const key = { id: 'client', secret: 'good-key', host: 'hub' }
  const { ranks } = open('naver_search', naverSearchWire, key)
  const day = new Date().toISOString().slice(0, 10)
  const search = { keyword: '커피', engine: 'naver news', device: 'any', location: 'KR', day }
  const newspapers = openWeb('web').results(search).slice(0, 20)
  const ask = { keyword: '커피', engine: 'naver_news_api', device: 'any', location: 'KR', language: null }
  const answer = await ranks!.readPage!({ ...ask, depth: 20 }, 0)
  const { urls, originals } = answer as RankPage
  expect(urls[1]).toMatch(/^https:\/\/n\.news\.naver\.com\//)
  expect(urls.map((url) => originals?.get(url) ?? url)).toEqual(newspapers)
})

test('a place is asked for by its country or by its own number, and never taken for another', () => {
  const key = { login: 'a', password: 'b' }
  const places = ['KR', 'us', '1009871', 'Atlantis', 'constructor', '']
  const google = open('dataforseo', dataforseoWire, key).ranks!.locations!('google')
  expect(places.map((place) => google.has(place))).toEqual([true, true, true, false, false, false])
  const { locations } = open('dataforseo_queue', dataforseoWire, key).ranks!
  expect(places.map((place) => locations!('google').has(place))).toEqual(places.map(google.has))
  expect(places.map((place) => locations!('naver').has(place))).toEqual([
    true,
    ...places.slice(1).map(() => false),
  ])
})

test('whoever sells results by country is asked for one by its two letters only', async () => {
  const { ranks } = open('serpapi', serpapiWire, { key: 'good-key' })
  const places = ['KR', 'dk', 'Denmark', 'Seoul', 'ZZ', 'XX', 'K', '']
  expect(places.map((place) => ranks!.locations!('google').has(place))).toEqual([
    true,
    true,
    ...places.slice(2).map(() => false),
  ])
  expect(ranks!.locations!('google').known).toContain('DK')
  expect(ranks!.locations!('naver').has('Seoul')).toBe(true)
  // One that was set up before places were looked at.
  const denmark: RankAsk = {
    keyword: 'shoes',
    engine: 'google',
    device: 'mobile',
    location: 'Denmark',
    language: null,
    depth: 10,
  }
  expect(await ranks!.readPage!(denmark, 0)).toMatchObject({
    reason: 'location_not_supported',
    paid: false,
  })
})

describe('volumes', () => {
  const key = { key: 'access', secret: searchadSecret, customer: ' 123\u200b4' }
  const searchad = () => open('naver_searchad', naverSearchadWire, key).volumes!

  test('a signature covers the path without its query, with the secret as it is written', () => {
    const sign = (secret: string, path = '/keywordstool') => signatureOf(secret, '1700000000000', 'GET', path)
    expect(sign('secret')).toBe('A6Gzu+sW9C2ovLsH+T+rFrie81KwHy1xrodUFQERKf4=')
    expect(sign('AQAAAABexampleSecret==')).toBe('LLPiuRigLe/fFreBwTDG6KZyTl3oDgguFvdKR3pqFo0=')
    expect(sign('secret', '/keywordstool?hintKeywords=a')).toBe(
      '3pQgiRoNf9d/TeDS0hzZszqJewcu1SrFk+eqUR1gHf4=',
    )
    expect(basicAuth('login', 'password')).toBe('Basic bG9naW46cGFzc3dvcmQ=')
  })

  test('counts come by surface, a rare keyword with a bound only, and the rest of the list is left out', async () => {
    const web = openWeb('web')
    const month = new Date().toISOString().slice(0, 7)
    const hints = Array.from({ length: 5 }, (_, n) => `나이키${n}`)
    const answer = await searchad().readVolumes(hints, new Date('2030-01-15T12:00:00Z'))
    expect(answer.kind).toBe('volumes')
    const volumes = answer.kind === 'volumes' ? answer.volumes : []
    expect(volumes.map(({ keyword }) => keyword)).toEqual(hints)
    for (const { keyword, volume, max, day, kind } of volumes) {
      const [pc, mobile] = [web.volume(keyword, 'pc', month), web.volume(keyword, 'mobile', month)]
      const isRare = pc < 10 || mobile < 10
      const most = (pc < 10 ? 9 : pc) + (mobile < 10 ? 9 : mobile)
      expect({ volume, max, day, kind }).toEqual({
        volume: isRare ? null : pc + mobile,
        max: isRare ? most : null,
        day: '2030-01-14',
        kind: 'rolling_30d',
      })
    }
  })

  test('a hint is spelled as the tool takes it, or not asked for', () => {
    const { spell } = searchad()
    expect(spell('나이키 운동화')).toBe('나이키운동화')
    expect(spell('nike air')).toBe('NIKEAIR')
    expect(spell('a-b')).toBeUndefined()
  })

  test('a wrong secret, key or clock stops everything', async () => {
    const refused = (more: Partial<typeof key>) =>
      open('naver_searchad', naverSearchadWire, { ...key, ...more }).volumes!.readVolumes(['A'], new Date())
    expect(await refused({ secret: 'other' })).toMatchObject({ of: 'credentials' })
    expect(await refused({ key: 'key-refused' })).toMatchObject({ of: 'credentials' })
  })

  test('Google’s come month by month', async () => {
    const source = open('dataforseo', dataforseoWire, { login: 'login', password: 'good-key' }).volumes!
    const answer = await source.readVolumes(['nike', 'nike없음'], new Date())
    const volumes = answer.kind === 'volumes' ? answer.volumes : []
    expect(volumes).toHaveLength(12)
    expect(new Set(volumes.map(({ keyword, kind }) => `${keyword} ${kind}`))).toEqual(new Set(['nike month']))
  })
})

describe.each(['hub', 'open'])('trends from naver_datalab, %s', (host) => {
  const openAt = (id: string, secret: string, baseUrl?: string) =>
    open('naver_datalab', naverSearchWire, { id, secret, host }, baseUrl).trends!
  const read = (secret = 'good-key', id = 'client', keyword = '나이키 운동화') =>
    openAt(id, secret).readTrend(keyword, '2026-11-01')

  test('each month is a ratio of the highest, and one with few searches is left out', async () => {
    const web = openWeb('web')
    const rare = Array.from({ length: 200 }, (_, n) => `드문 말 ${n}`).find((word) => {
      const counts = monthsTold.map((month) => searches(web, word, month))
      return counts.some((count) => count < 20) && counts.some((count) => count >= 20)
    })!
    for (const keyword of ['나이키 운동화', rare]) {
      const answer = await read('good-key', 'client', keyword)
      const counts = monthsTold.map((month) => searches(web, keyword, month))
      const highest = Math.max(...counts)
      const values = answer.kind === 'trend' ? answer.trend.values : []
      expect(answer).toMatchObject({
        kind: 'trend',
        trend: { every: 'month', from: '2023-11-01', to: '2026-10-31' },
      })
      expect(values.map(({ period }) => period)).toEqual(
        monthsTold.filter((_, at) => counts[at]! >= 20).map((month) => `${month}-01`),
      )
      for (const { period, ratio } of values)
        expect(ratio).toBeCloseTo((searches(web, keyword, period.slice(0, 7)) / highest) * 100, 4)
      expect(Math.max(...values.map(({ ratio }) => ratio))).toBe(100)
    }
  })

  test('a refused key is our trouble, and an empty quota ends the day', async () => {
    expect(await read('key-refused')).toMatchObject({ of: 'credentials', reason: 'credentials_refused' })
    expect(await read('key-empty')).toMatchObject({ of: 'quota', reason: 'quota_exhausted', paid: false })
  })

  test('an application that has not chosen DataLab is no reason to go on asking', async () => {
    expect(await read('good-key', 'unchosen')).toMatchObject({ of: host === 'hub' ? 'quota' : 'credentials' })
  })

  test.each<[Fault, Record<string, unknown>]>([
    ['unavailable', { kind: 'failed', of: 'answer', reason: 'source_error' }],
    ['hang_up', { kind: 'failed', of: 'answer', reason: 'broken_off', paid: true }],
    ['broken', { kind: 'failed', of: 'answer', reason: 'not_json', paid: true }],
    ['unreadable', { kind: 'failed', of: 'answer', reason: 'unreadable_results', paid: true }],
    ['slow', { kind: 'trend' }],
    ['empty', { kind: 'trend', trend: { values: [] } }],
  ])('%s', async (fault, expected) => {
    expect(await underFault(naverSearchWire, fault, () => read())).toMatchObject(expected)
  })

  test('nobody there: nothing was sent', async () => {
    const answer = await openAt('client', 'good-key', 'http://127.0.0.1:1').readTrend('a', '2026-11-01')
    expect(answer).toMatchObject({ reason: 'unreachable', paid: false })
  })
})

const monthsTold = Array.from({ length: 36 }, (_, n) =>
  new Date(Date.UTC(2023, 10 + n, 1)).toISOString().slice(0, 7),
)
const searches = (web: ReturnType<typeof openWeb>, keyword: string, month: string) =>
  web.volume(keyword, 'pc', month) + web.volume(keyword, 'mobile', month)

test('DataLab is asked without the fields that may be left out, and refuses null, six groups and a quota that is used up', async () => {
  const span = { from: '2023-11-01', to: '2026-10-31' }
  const body = JSON.parse(trendBody('커피', span))
  expect(body).toEqual({
    startDate: '2023-11-01',
    endDate: '2026-10-31',
    timeUnit: 'month',
    keywordGroups: [{ groupName: '커피', keywords: ['커피'] }],
  })
  const sandbox = await openSourceSandbox({ wire: naverSearchWire, callsPerSecond: 100_000 })
  const ask = async (changes: object) => {
    const answer = await fetch(`${sandbox.url}/v1/datalab/search`, {
      method: 'POST',
      headers: { 'x-naver-client-id': 'a', 'x-naver-client-secret': 'b' },
      body: JSON.stringify({ ...body, ...changes }),
    })
    const told = (await answer.json()) as { results: { data: { ratio: number }[] }[] }
    return { status: answer.status, body: told }
  }
  const groups = (count: number) =>
    Array.from({ length: count }, (_, n) => ({ groupName: `g${n}`, keywords: [`말 ${n}`] }))
  for (const changes of [
    { device: null },
    { gender: null },
    { ages: null },
    { startDate: '2015-12-31' },
    { timeUnit: 'year' },
    { keywordGroups: groups(6) },
  ])
    expect([changes, (await ask(changes)).status]).toEqual([changes, 400])
  // All groups of an answer share one scale.
  const five = await ask({ keywordGroups: groups(5), device: 'mo', timeUnit: 'week' })
  const ratios = five.body.results.map(({ data }) => Math.max(0, ...data.map(({ ratio }) => ratio)))
  expect([five.status, ratios.length, Math.max(...ratios)]).toEqual([200, 5, 100])
  expect(ratios.filter((ratio) => ratio === 100)).toHaveLength(1)
  for (let calls = 1; calls < 1000; calls += 27) await Promise.all(Array.from({ length: 27 }, () => ask({})))
  expect(await ask({})).toMatchObject({ status: 429, body: { errorCode: '010' } })
  await sandbox.close()
})

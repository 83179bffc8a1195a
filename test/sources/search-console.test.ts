import { createHash, createVerify, generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { MeanAsk, Source } from '../../src/batch/sources/port.ts'
import { claimsOf, openSearchConsole, readAccount } from '../../src/batch/sources/search-console.ts'
import { addDays, dayOf } from '../../src/platform/time.ts'
import { searchConsoleWire } from '../../src/sandbox/sources/search-console-wire.ts'
import {
  type Fault,
  openSourceSandbox,
  type SourceSandbox,
} from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'
import { trackerBody } from '../batch/tracker-body.ts'
import { openWorld, type World } from '../world.ts'

const folder = mkdtempSync(join(tmpdir(), 'rankledger-console-'))
const { privateKey, publicKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
})
let sandbox: SourceSandbox
let world: World
const opened: Source[] = []

/** The key file of an account, its line breaks as two signs, as pasted ones are. */
function keyFile(email: string): string {
  const path = join(folder, `${email}.json`)
  const text = JSON.stringify({ client_email: email, private_key: privateKey.replaceAll('\n', '\\n') })
  writeFileSync(path, text)
  return path
}

beforeAll(async () => {
  sandbox = await openSourceSandbox({ wire: searchConsoleWire, slowMs: 5 })
  world = await openWorld({
    now: '2030-01-15T00:00:00Z',
    environment: {
      SEARCH_CONSOLE_KEY_FILE: keyFile('good@project.example'),
      SEARCH_CONSOLE_BASE_URL: sandbox.url,
      SEARCH_CONSOLE_RATE: '900',
    },
  })
})
afterAll(async () => {
  await world.close()
  for (const source of opened) source.close()
  await sandbox.close()
  rmSync(folder, { recursive: true, force: true })
})

// As Google counts its days.
const day = (back: number) => addDays(dayOf(new Date(), 'America/Los_Angeles'), -back)
const ask: MeanAsk = {
  keyword: '나이키 운동화',
  engine: 'google_search_console',
  device: 'mobile',
  location: 'KR',
  language: null,
  depth: 100,
  site: 'example.com',
  match: 'domain',
  day: day(4),
}

function open(email = 'good@project.example', baseUrl = sandbox.url) {
  const source = openSearchConsole({
    name: 'search_console',
    credentials: { keyFile: keyFile(email) },
    baseUrl,
    ratePerSecond: 100,
    budgetPerDay: 0,
    workspaceBudgetPerDay: 0,
  })
  opened.push(source)
  return source
}

function read(changes: Partial<MeanAsk> = {}, email?: string, baseUrl?: string) {
  return open(email, baseUrl).ranks!.readMean!({ ...ask, ...changes })
}

describe('the adapter', () => {
  test('claims what Google asks for, signed with the key of the account', () => {
    const claims = claimsOf('svc@proj.iam.gserviceaccount.com', new Date(1_700_000_000_000))
    expect(claims.split('.')[0]).toBe('eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9')
    expect(createHash('sha256').update(claims).digest('hex')).toBe(
      'f60e74399752bb1e4e159d4dea4e0c5a7b85ad9087ac3c01fb955852d4baa44f',
    )
    const { key } = readAccount(keyFile('good@project.example'))
    expect(key).toBe(privateKey)
    expect(createVerify('RSA-SHA256').update('x').verify(publicKey, 'AAAA', 'base64url')).toBe(false)
  })

  test('tells the mean with its decimals', async () => {
    const results = openWeb('web').results({ ...ask, engine: 'google', location: 'KR' })
    const place = results.findIndex((url) => /\/\/(www\.|shop\.)?example\.com\//.test(url))
    const told = await read()
    expect(told.kind).toBe('mean')
    const { position } = told as { position: number }
    expect(position).toBeGreaterThanOrEqual(place + 1)
    expect(position).toBeLessThanOrEqual(place + 2)
    expect(
      await read({ match: 'host', site: 'www.example.com', device: 'all', location: 'all' }),
    ).toMatchObject({
      kind: 'mean',
    })
  })

  test('asks for a keyword as Google spells queries, in small letters', async () => {
    const told = await read({ keyword: 'Nike Air' })
    expect(told.kind).toBe('mean')
    expect(await read({ keyword: 'nike air' })).toEqual(told)
    expect(await read({ keyword: 'Cafe\u0301' })).toEqual(await read({ keyword: 'café' }))
  })

  test('says nothing of a query that was not shown, of a site that is not shared and of a day that is not final', async () => {
    expect(await read({ site: 'nowhere.example' })).toEqual({ kind: 'unreported', reason: 'not_shown' })
    expect(await read({ site: 'foreign.example' })).toEqual({ kind: 'unreported', reason: 'site_not_shared' })
    expect(await read({ day: day(0) })).toMatchObject({
      kind: 'failed',
      reason: 'not_final_yet',
      of: 'early',
    })
  })

  test('many checks at once ask one by one whether their day is final, and one that fails takes no other along', async () => {
    const checks = async () => {
      const { ranks } = open()
      const before = sandbox.book.calls
      const told = await Promise.all(
        Array.from({ length: 20 }, (_, n) => ranks!.readMean!({ ...ask, keyword: `word ${n}` })),
      )
      const failures = told.filter(({ kind }) => kind === 'failed').length
      return { calls: sandbox.book.calls - before, failures }
    }
    // A token, a look and twenty questions.
    expect(await checks()).toEqual({ calls: 22, failures: 0 })
    sandbox.setFaults({ unreadable: 0.2 })
    const { failures } = await checks().finally(() => sandbox.setFaults({ unreadable: 0 }))
    expect(failures).toBeLessThan(15)
  })

  test('a refused account stops everything, and an empty quota ends the day', async () => {
    expect(await read({}, 'refused@project.example')).toMatchObject({ of: 'credentials', paid: false })
    expect(await read({}, 'empty@project.example')).toMatchObject({ of: 'quota', reason: 'quota_exhausted' })
    expect(await read({}, 'good@project.example', 'http://127.0.0.1:1')).toMatchObject({
      reason: 'unreachable',
    })
  })

  test.each<[Fault, Record<string, unknown>]>([
    ['unavailable', { kind: 'failed', of: 'answer', reason: 'source_error' }],
    ['hang_up', { kind: 'failed', of: 'answer', reason: 'broken_off' }],
    ['broken', { kind: 'failed', of: 'answer', reason: 'not_json' }],
    ['unreadable', { kind: 'failed', of: 'answer', reason: 'unreadable_results' }],
    ['empty', { kind: 'unreported', reason: 'not_shown' }],
    ['slow', { kind: 'mean' }],
  ])('%s', async (fault, expected) => {
    sandbox.setFaults({ [fault]: 1 })
    const told = await read().finally(() => sandbox.setFaults({ [fault]: 0 }))
    expect(told).toMatchObject(expected)
  })
})

describe('a tracker', () => {
  const tracker = trackerBody({ engine: 'google_search_console', depth: 100, source: 'search_console' })
  const put = (changes: Record<string, unknown> = {}) =>
    world.ask('PUT', '/api/batch/trackers/own', { body: { ...tracker, ...changes } })

  test('asks for final days, costs nothing, and stores the mean beside its rounding', async () => {
    await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: ['one', 'two', 'three'] })
    expect((await put({ match: 'regex' })).status).toBe(400)
    expect((await put()).status).toBe(200)
    await world.advanceTo('2030-01-16T00:00:00Z')
    await world.advanceTo('2030-01-17T00:00:00Z')
    const { ranks } = (
      await world.get('/api/batch/ranks/three?workspace_id=ws&from=2030-01-12&to=2030-01-31')
    ).body.data
    expect(ranks).toHaveLength(1)
    const [rank] = ranks
    expect(rank).toMatchObject({ day: '2030-01-12', status: 'ranked', engine: 'google_search_console' })
    expect(rank.position).toBe(Math.round(rank.mean_position))
    expect(rank.mean_position).not.toBe(rank.position)
    const sources = (await world.get('/api/batch/sources')).body.data.sources
    expect(sources.find(({ source }: { source: string }) => source === 'search_console')).toMatchObject({
      configured: true,
      spent_today: 0,
    })
  })

  test('a day that is not final when it is asked for is asked again until it is, and as often as that takes', async () => {
    const own = 'search_console'
    // Before the third day after that of four days ago has passed in California.
    const window = { from: '01:00', to: '02:00', zone: 'Asia/Seoul' }
    expect((await put({ window, keywords: ['two'] })).status).toBe(200)
    await world.advanceTo('2030-01-20T12:00:00Z')
    const { ranks } = (await world.get('/api/batch/ranks/two?workspace_id=ws&from=2030-01-14&to=2030-01-16'))
      .body.data
    expect(ranks.map(({ day, status }: Record<string, string>) => [day, status])).toEqual([
      ['2030-01-14', 'ranked'],
      ['2030-01-15', 'ranked'],
      ['2030-01-16', 'ranked'],
    ])
    const [state] = await world.query('select state, recent_failed from batch.source where name = $1', [own])
    expect(state).toMatchObject({ state: 'ready', recent_failed: 0 })
  })

  test('a mean that its place is not the rounding of is rejected', async () => {
    const observation = {
      keyword: 'two',
      day: '2030-01-10',
      status: 'ranked',
      position: 3,
      mean_position: 3.4,
    }
    const post = async (changes: Record<string, unknown>) =>
      (
        await world.post('/api/batch/ranks', {
          workspace_id: 'ws',
          observations: [{ ...observation, ...changes }],
        })
      ).body.data
    expect(await post({ position: 5 })).toMatchObject({
      rejections: [{ code: 'mean_position_out_of_range' }],
    })
    expect(await post({ status: 'failed', position: undefined })).toMatchObject({ rejected: 1 })
    expect(await post({})).toMatchObject({ inserted: 1 })
    expect(await post({ mean_position: 3.2 })).toMatchObject({ updated: 1 })
  })
})

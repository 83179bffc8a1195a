import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { sourceWires } from '../../src/sandbox/sources/source-wires.ts'
import { startService } from '../processes/service-process.ts'
import { openWorld, type World } from '../world.ts'
import { trackerBody } from './tracker-body.ts'

const folder = mkdtempSync(join(tmpdir(), 'rankledger-keys-'))
const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
})
const family = ['SERPAPI', 'SEARCHAPI', 'VALUESERP', 'SERPER', 'HASDATA', 'SPACESERP']
// One series each, or two would be the same.
const places = ['KR', 'US', 'JP', 'DE', 'FR', 'GB', 'IT', 'ES', 'BR', 'TW']
const trackers = [
  ...family.map((name) => ({ source: name.toLowerCase(), engine: 'google' })),
  { source: 'dataforseo', engine: 'google' },
  { source: 'dataforseo_queue', engine: 'google' },
  { source: 'naver_search', engine: 'naver_web_api' },
  { source: 'search_console', engine: 'google_search_console' },
]
let world: World
const sandboxes = new Map<string, SourceSandbox>()

beforeAll(async () => {
  for (const wire of sourceWires)
    sandboxes.set(wire.name, await openSourceSandbox({ wire, slowMs: 5, callsPerSecond: 50 }))
  world = await openWorld({ now: '2030-01-15T00:00:00Z' })
})
afterAll(async () => {
  await world.close()
  for (const sandbox of sandboxes.values()) await sandbox.close()
  rmSync(folder, { recursive: true, force: true })
})

/** A key for every source, each of its own, and the environment that holds them. */
function plant(mark: string) {
  const keyOf = (name: string) => `Planted${mark}${name.replaceAll('_', '')}Zq7x`
  const keyFile = join(folder, `${mark}.json`)
  const email = `planted-${mark}@project.example`
  writeFileSync(keyFile, JSON.stringify({ client_email: email, private_key: privateKey }))
  const [naver, datalab, searchad, dataforseo] = [
    'NAVER_CLIENT',
    'NAVER_DATALAB',
    'NAVER_SEARCHAD',
    'DATAFORSEO',
  ].map(keyOf) as [string, string, string, string]
  const url = (name: string) => sandboxes.get(name)!.url
  const environment: Record<string, string> = {
    ...Object.fromEntries(family.map((name) => [`${name}_API_KEY`, keyOf(name)])),
    ...Object.fromEntries(family.map((name) => [`${name}_BASE_URL`, url('serpapi')])),
    NAVER_CLIENT_ID: `${naver}Id`,
    NAVER_CLIENT_SECRET: `${naver}Secret`,
    NAVER_SEARCH_BASE_URL: url('naver-search'),
    NAVER_DATALAB_CLIENT_ID: `${datalab}Id`,
    NAVER_DATALAB_CLIENT_SECRET: `${datalab}Secret`,
    NAVER_DATALAB_BASE_URL: url('naver-search'),
    NAVER_SEARCHAD_API_KEY: searchad,
    NAVER_SEARCHAD_SECRET: `${searchad}Secret`,
    NAVER_SEARCHAD_CUSTOMER: '7788990011',
    NAVER_SEARCHAD_BASE_URL: url('naver-searchad'),
    DATAFORSEO_LOGIN: `${dataforseo}Login`,
    DATAFORSEO_PASSWORD: `${dataforseo}Password`,
    DATAFORSEO_BASE_URL: url('dataforseo'),
    SEARCH_CONSOLE_KEY_FILE: keyFile,
    SEARCH_CONSOLE_BASE_URL: url('search-console'),
  }
  const basic = Buffer.from(`${dataforseo}Login:${dataforseo}Password`).toString('base64')
  const line = privateKey.split('\n')[3]!
  return { environment, secrets: [`Planted${mark}`, 'Zq7x', '7788990011', basic, line, `ya29.${email}`] }
}

/** Which of these stand in a text, whatever their case and however they are escaped. */
function found(text: string, secrets: readonly string[]): string[] {
  const plain = text.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
  return secrets.filter((secret) => plain.includes(secret.toLowerCase().replaceAll(/[^a-z0-9]/g, '')))
}

/** A service with these keys that makes every source's checks, and all that it wrote meanwhile. */
async function logOfChecks(environment: Record<string, string>, until: string): Promise<string> {
  const service = startService(['serve'], { ...world.environment, ...environment })
  const url = await service.url()
  const ask = async (method: string, path: string, body: unknown) => {
    const answer = await fetch(url + path, {
      method,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${world.token}` },
      body: JSON.stringify(body),
    })
    expect([path, answer.status, await answer.text()]).toEqual([
      path,
      expect.toSatisfy((status: number) => status < 300),
      expect.anything(),
    ])
  }
  await ask('POST', '/api/batch/keywords', { workspace_id: 'ws', keywords: ['one', 'two', 'three'] })
  for (const [at, { source, engine }] of trackers.entries())
    await ask(
      'PUT',
      `/api/batch/trackers/${source}`,
      trackerBody({ engine, device: 'desktop', location: places[at], source }),
    )
  await ask('POST', '/api/sandbox/clock', { advance_to: until })
  // What is asked once a month is asked by a worker, which may be at it still.
  const latest = async () => {
    const runs = await fetch(`${url}/api/batch/runs?task=collect_volumes&limit=1`, {
      headers: { authorization: `Bearer ${world.token}` },
    })
    return ((await runs.json()) as { data: { runs: { status: string }[] } }).data.runs[0]?.status
  }
  await expect.poll(latest, { timeout: 120_000 }).toMatch(/succeeded|failed/)
  expect(await service.stop()).toBe(0)
  return service.output()
}

test('no key of any source is in what the service writes, whatever the sources answer', async () => {
  const faults = { unavailable: 0.2, unreadable: 0.1, wrong_device: 0.1, hang_up: 0.1, broken: 0.1 }
  for (const sandbox of sandboxes.values()) sandbox.setFaults(faults)
  const good = plant('Good')
  const refused = plant('refused')
  const log = [
    await logOfChecks(good.environment, '2030-01-17T00:00:00Z'),
    await logOfChecks(refused.environment, '2030-01-18T23:30:00Z'),
  ].join('\n')
  // Every source was asked, with the keys that it took and with those that it refused.
  for (const sandbox of sandboxes.values()) expect(sandbox.book.calls).toBeGreaterThan(0)
  const states = await world.query<{ name: string }>(
    `select name from batch.source where state = 'refused' order by name`,
  )
  expect(states.map(({ name }) => name)).toEqual(expect.arrayContaining(trackers.map(({ source }) => source)))
  const asked = await world.query<{ source: string }>('select distinct source from batch.source_spending')
  expect(asked.map(({ source }) => source)).toEqual(
    expect.arrayContaining(['naver_datalab', 'naver_searchad']),
  )
  const secrets = [...good.secrets, ...refused.secrets]
  expect(log).toContain('"event":"service.started"')
  expect(found(log, secrets)).toEqual([])
  // Nor in what it stores about them.
  const stored = await world.query(
    `select (select jsonb_agg(r) from batch.run r) as runs, (select jsonb_agg(a) from platform.alarm a) as alarms,
            (select jsonb_agg(s) from batch.source s) as sources,
            (select jsonb_agg(distinct c.reason) from batch.rank_check c) as reasons`,
  )
  expect(found(JSON.stringify(stored), secrets)).toEqual([])
  // The search itself finds them in other cases and escapes.
  for (const secret of secrets)
    expect(found(`{"url":"x?k=${secret.toUpperCase()}"}`, secrets)).toContain(secret)
}, 300_000)

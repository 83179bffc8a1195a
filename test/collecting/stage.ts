import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { dataforseoWire } from '../../src/sandbox/sources/dataforseo-wire.ts'
import { naverSearchWire } from '../../src/sandbox/sources/naver-search-wire.ts'
import { naverSearchadWire, searchadSecret } from '../../src/sandbox/sources/naver-searchad-wire.ts'
import { searchConsoleWire } from '../../src/sandbox/sources/search-console-wire.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import {
  type Fault,
  openSourceSandbox,
  type SourceSandbox,
  type SourceWire,
} from '../../src/sandbox/sources/source-sandbox.ts'

/** A source in the campaign: where it is played, and what may be used of it. */
export type Played = {
  readonly source: string
  /** More than one: it moves from one host to the next halfway. */
  readonly sandboxes: readonly SourceSandbox[]
  readonly ratePerSecond: number
  readonly budgetPerDay: number
  /** How likely a call is to come to nothing. */
  readonly failing: number
}

/** A source of ranks, and the tracker that uses it. */
export type Tracked = Played & {
  readonly engine: string
  readonly device: string
  readonly location: string
  /** Absent: all of them. */
  readonly keywords?: readonly string[]
  /** Under which names the made-up web knows the same; of means the place that they are close to. */
  readonly web: { readonly engine: string; readonly device: string; readonly isMean?: boolean }
  /** The days its rows are about lie so many days before those of its checks. */
  readonly daysBack: number
  /** How many checks share the fate of one call. */
  readonly checksPerCall: number
}

/** A source that is asked of every keyword once a month. */
export type AskedMonthly = Played & {
  readonly tells: 'volumes' | 'trends'
  readonly keywordsPerCall: number
}

/** What a campaign collects from. */
export type Sources = {
  readonly tracked: readonly Tracked[]
  readonly monthly: readonly AskedMonthly[]
  /** What lets a service find and open them, and do nothing else of its own accord: before half of the days, and after. */
  readonly environments: readonly [Environment, Environment]
  turnClocks(to: Date): Promise<void>
  close(): Promise<void>
}

type Environment = Readonly<Record<string, string>>

/** Below what trips the breaker, which has tests of its own. */
const faults: Readonly<Partial<Record<Fault, number>>> = {
  unavailable: 0.05,
  unreadable: 0.03,
  wrong_device: 0.03,
  hang_up: 0.03,
  broken: 0.02,
  slow: 0.01,
}
// One that is slow is waited for.
const failing =
  1 - Object.entries(faults).reduce((left, [name, rate]) => left * (name === 'slow' ? 1 : 1 - rate), 1)

// Nothing else is to run: these days never come.
const never = '0 0 30 2 *'

export type Size = {
  readonly words: readonly string[]
  readonly days: number
  readonly ratePerSecond: number
}

/** Opens a simulator of every source. One of them has less to spend than a day of all keywords costs. */
export async function openSources(dir: string, { words, days, ratePerSecond }: Size): Promise<Sources> {
  const keywords = words.length
  const open = async (wire: SourceWire, also: typeof faults = {}) => {
    const sandbox = await openSourceSandbox({ wire, slowMs: 300 })
    sandbox.setFaults({ ...faults, ...also })
    return sandbox
  }
  const ampleFor = (count: number) => Math.ceil(count * 1.6) + 100
  const shared = {
    ratePerSecond,
    budgetPerDay: ampleFor(keywords),
    failing,
    device: 'mobile',
    location: 'KR',
    daysBack: 0,
    checksPerCall: 1,
  }
  // Slow enough for the line of calls to be what holds them back, also when there are few.
  const heldBack = Math.min(Math.ceil(ratePerSecond / 2), Math.max(10, Math.ceil(keywords / 100)))
  const family = await Promise.all(
    serpFamily.map(async ({ source, location, also }, at): Promise<Tracked> => {
      const own = words.filter((_, n) => n % serpFamily.length === at)
      return {
        ...shared,
        source,
        sandboxes: [await open(serpapiWire, also)],
        budgetPerDay: ampleFor(own.length),
        engine: 'google',
        device: 'desktop',
        location,
        keywords: own.slice(0, 1_000),
        web: { engine: 'google', device: 'desktop' },
      }
    }),
  )
  const dataforseo = await open(dataforseoWire)
  const tracked: Tracked[] = [
    {
      ...shared,
      source: 'serpapi',
      sandboxes: [await open(serpapiWire)],
      engine: 'google',
      web: { engine: 'google', device: 'mobile' },
    },
    ...family,
    {
      ...shared,
      source: 'dataforseo',
      sandboxes: [dataforseo],
      engine: 'google',
      device: 'desktop',
      web: { engine: 'google', device: 'desktop' },
    },
    {
      ...shared,
      source: 'dataforseo_queue',
      sandboxes: [await open(dataforseoWire)],
      engine: 'naver',
      web: { engine: 'naver', device: 'mobile' },
      checksPerCall: Math.min(100, keywords),
    },
    {
      ...shared,
      source: 'naver_search',
      sandboxes: [await open(naverSearchWire), await open(naverSearchWire)],
      ratePerSecond: heldBack,
      budgetPerDay: Math.floor(keywords * 0.9),
      engine: 'naver_web_api',
      web: { engine: 'naver webkr', device: 'any' },
    },
    {
      ...shared,
      source: 'search_console',
      sandboxes: [await open(searchConsoleWire)],
      engine: 'google_search_console',
      web: { engine: 'google', device: 'mobile', isMean: true },
      daysBack: 4,
    },
  ]
  const monthly: AskedMonthly[] = [
    {
      source: 'naver_searchad',
      sandboxes: [await open(naverSearchadWire)],
      ratePerSecond: heldBack,
      budgetPerDay: keywords + 100,
      failing,
      tells: 'volumes',
      keywordsPerCall: 5,
    },
    {
      source: 'naver_datalab',
      sandboxes: [await open(naverSearchWire), await open(naverSearchWire)],
      ratePerSecond: heldBack,
      // One call each: as much as lets all be asked for by the last day, in the days after the month before is counted.
      budgetPerDay: Math.ceil((keywords * 1.6) / Math.max(1, days - 2)) + 10,
      failing,
      tells: 'trends',
      keywordsPerCall: 1,
    },
  ]
  const played = [...tracked, ...monthly]
  const keyFile = writeKeyFile(dir)
  const environmentOf = (half: number): Environment => ({
    SCHEDULE_TRAINING: never,
    SCHEDULE_PREDICTION: never,
    SCHEDULE_AGGREGATION: never,
    DATAFORSEO_LOGIN: 'campaign-login',
    DATAFORSEO_PASSWORD: 'campaign-password',
    NAVER_CLIENT_ID: 'campaign-client',
    NAVER_CLIENT_SECRET: 'campaign-secret',
    NAVER_SEARCHAD_API_KEY: 'campaign-key-searchad',
    NAVER_SEARCHAD_SECRET: searchadSecret,
    NAVER_SEARCHAD_CUSTOMER: '1234567',
    NAVER_DATALAB_CLIENT_ID: 'campaign-client',
    NAVER_DATALAB_CLIENT_SECRET: 'campaign-secret',
    NAVER_SEARCH_HOST: half === 0 ? 'hub' : 'open',
    NAVER_DATALAB_HOST: half === 0 ? 'hub' : 'open',
    SEARCH_CONSOLE_KEY_FILE: keyFile,
    SERPAPI_API_KEY: 'campaign-key-serpapi',
    ...Object.fromEntries(
      serpFamily.map(({ source }) => [`${source.toUpperCase()}_API_KEY`, `campaign-key-${source}`]),
    ),
    ...Object.fromEntries(
      played.flatMap(({ source, sandboxes, budgetPerDay, ratePerSecond: rate }) => [
        [`${source.toUpperCase()}_BASE_URL`, (sandboxes[half] ?? sandboxes[0]!).url],
        [`${source.toUpperCase()}_RATE`, String(rate)],
        [`${source.toUpperCase()}_BUDGET_PER_DAY`, String(budgetPerDay)],
      ]),
    ),
  })
  const sandboxes = [...new Set(played.flatMap((one) => one.sandboxes))]
  return {
    tracked,
    monthly: [
      ...monthly,
      // Its calls stand in the books of its ranks.
      { ...tracked.find(({ source }) => source === 'dataforseo')!, tells: 'volumes', keywordsPerCall: 1000 },
    ],
    environments: [environmentOf(0), environmentOf(1)],
    async turnClocks(to) {
      for (const { url } of sandboxes) {
        const body = JSON.stringify({ advance_to: to.toISOString() })
        const headers = { 'content-type': 'application/json' }
        const answer = await fetch(`${url}/__sandbox/clock`, { method: 'POST', body, headers })
        if (!answer.ok) throw new Error(`a simulator's clock cannot be turned: ${answer.status}`)
      }
    },
    close: async () => void (await Promise.all(sandboxes.map((sandbox) => sandbox.close()))),
  }
}

/** The others of SerpApi's kind share the keywords among them. Those whose answers tell no device cannot be found out. */
const serpFamily: readonly { source: string; location: string; also?: typeof faults }[] = [
  { source: 'searchapi', location: 'US' },
  { source: 'valueserp', location: 'JP' },
  { source: 'serper', location: 'DE', also: { wrong_device: 0 } },
  { source: 'hasdata', location: 'FR', also: { wrong_device: 0 } },
  { source: 'spaceserp', location: 'GB' },
]

function writeKeyFile(dir: string): string {
  const { privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
  const path = join(dir, 'search-console.json')
  writeFileSync(path, JSON.stringify({ client_email: 'campaign@project.example', private_key: privateKey }))
  return path
}

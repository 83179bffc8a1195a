import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { dataforseoWire } from '../../src/sandbox/sources/dataforseo-wire.ts'
import { naverSearchWire } from '../../src/sandbox/sources/naver-search-wire.ts'
import { searchConsoleWire } from '../../src/sandbox/sources/search-console-wire.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import {
  type Fault,
  openSourceSandbox,
  type SourceSandbox,
  type SourceWire,
} from '../../src/sandbox/sources/source-sandbox.ts'

/** A source of ranks in the campaign: its simulator, what may be used of it, and the tracker that uses it. */
export type Tracked = {
  readonly source: string
  readonly sandbox: SourceSandbox
  readonly ratePerSecond: number
  readonly budgetPerDay: number
  readonly engine: string
  readonly device: string
  /** Under which names the made-up web knows the same; undefined: the source tells means, not places. */
  readonly web: { readonly engine: string; readonly device: string } | undefined
  /** The days its rows are about lie so many days before those of its checks. */
  readonly daysBack: number
}

/** What a campaign tracks. */
export type Sources = {
  readonly tracked: readonly Tracked[]
  /** What lets a service find and open them, and do nothing else of its own accord. */
  readonly environment: Readonly<Record<string, string>>
  turnClocks(to: Date): Promise<void>
  close(): Promise<void>
}

/** Below what trips the breaker, which has tests of its own. */
const faults: Readonly<Partial<Record<Fault, number>>> = {
  unavailable: 0.05,
  unreadable: 0.03,
  wrong_device: 0.03,
  hang_up: 0.03,
  broken: 0.02,
  slow: 0.01,
}

// Nothing else is to run: these days never come.
const never = '0 0 30 2 *'

/** Opens a simulator of every source of ranks. One of them has less to spend than a day of all keywords costs. */
export async function openSources(
  dir: string,
  { keywords, ratePerSecond }: { keywords: number; ratePerSecond: number },
): Promise<Sources> {
  const open = async (wire: SourceWire) => {
    const sandbox = await openSourceSandbox({ wire, slowMs: 300 })
    sandbox.setFaults(faults)
    return sandbox
  }
  const ample = Math.ceil(keywords * 1.6) + 100
  const ofGoogle = { engine: 'google', web: { engine: 'google', device: 'mobile' }, daysBack: 0 }
  const serpapi = await open(serpapiWire)
  const dataforseo = await open(dataforseoWire)
  const ordered = await open(dataforseoWire)
  const naver = await open(naverSearchWire)
  const search = await open(searchConsoleWire)
  const shared = { ratePerSecond, device: 'mobile' }
  const tracked: Tracked[] = [
    { ...shared, ...ofGoogle, source: 'serpapi', sandbox: serpapi, budgetPerDay: ample },
    {
      ...shared,
      ...ofGoogle,
      source: 'dataforseo',
      sandbox: dataforseo,
      budgetPerDay: ample,
      device: 'desktop',
      web: { engine: 'google', device: 'desktop' },
    },
    {
      ...shared,
      source: 'dataforseo_queue',
      sandbox: ordered,
      budgetPerDay: ample,
      engine: 'naver',
      web: { engine: 'naver', device: 'mobile' },
      daysBack: 0,
    },
    {
      ...shared,
      source: 'naver_search',
      sandbox: naver,
      budgetPerDay: Math.floor(keywords * 0.9),
      engine: 'naver_web_api',
      web: { engine: 'naver webkr', device: 'any' },
      daysBack: 0,
    },
    {
      ...shared,
      source: 'search_console',
      sandbox: search,
      budgetPerDay: ample,
      engine: 'google_search_console',
      web: undefined,
      daysBack: 3,
    },
  ]
  const environment = {
    SCHEDULE_TRAINING: never,
    SCHEDULE_PREDICTION: never,
    SCHEDULE_AGGREGATION: never,
    SERPAPI_API_KEY: 'campaign-key-serpapi',
    DATAFORSEO_LOGIN: 'campaign-login',
    DATAFORSEO_PASSWORD: 'campaign-password',
    NAVER_CLIENT_ID: 'campaign-client',
    NAVER_CLIENT_SECRET: 'campaign-secret',
    SEARCH_CONSOLE_KEY_FILE: writeKeyFile(dir),
    ...Object.fromEntries(
      tracked.flatMap(({ source, sandbox, budgetPerDay }) => [
        [`${source.toUpperCase()}_BASE_URL`, sandbox.url],
        [`${source.toUpperCase()}_RATE`, String(ratePerSecond)],
        [`${source.toUpperCase()}_BUDGET_PER_DAY`, String(budgetPerDay)],
      ]),
    ),
  }
  return {
    tracked,
    environment,
    async turnClocks(to) {
      for (const { sandbox } of tracked) {
        const body = JSON.stringify({ advance_to: to.toISOString() })
        const headers = { 'content-type': 'application/json' }
        const answer = await fetch(`${sandbox.url}/__sandbox/clock`, { method: 'POST', body, headers })
        if (!answer.ok) throw new Error(`a simulator's clock cannot be turned: ${answer.status}`)
      }
    },
    close: async () => void (await Promise.all(tracked.map(({ sandbox }) => sandbox.close()))),
  }
}

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

import { type SourceName, type SourceSettings, sourceNames } from '../batch/sources/port.ts'
import { readAccount } from '../batch/sources/search-console.ts'
import { isUrlOfLoopback } from '../platform/loopback.ts'
import { isOrigin, type Reader } from './environment.ts'

/** The variables that open each source, by the names its adapter gives them. All of them are needed. */
export const credentialsOf: Readonly<Partial<Record<SourceName, Readonly<Record<string, string>>>>> = {
  naver_searchad: {
    key: 'NAVER_SEARCHAD_API_KEY',
    secret: 'NAVER_SEARCHAD_SECRET',
    customer: 'NAVER_SEARCHAD_CUSTOMER',
  },
  naver_search: { id: 'NAVER_CLIENT_ID', secret: 'NAVER_CLIENT_SECRET' },
  // An application opens only the services that were chosen for it: keys of its own say that this one was.
  naver_datalab: { id: 'NAVER_DATALAB_CLIENT_ID', secret: 'NAVER_DATALAB_CLIENT_SECRET' },
  dataforseo: { login: 'DATAFORSEO_LOGIN', password: 'DATAFORSEO_PASSWORD' },
  serpapi: { key: 'SERPAPI_API_KEY' },
  searchapi: { key: 'SEARCHAPI_API_KEY' },
  valueserp: { key: 'VALUESERP_API_KEY' },
  serper: { key: 'SERPER_API_KEY' },
  hasdata: { key: 'HASDATA_API_KEY' },
  spaceserp: { key: 'SPACESERP_API_KEY' },
  search_console: { keyFile: 'SEARCH_CONSOLE_KEY_FILE' },
}

/** Sources that are opened by the keys of another one, and are reached where it is unless told otherwise. */
export const keysOfAnother: Readonly<Partial<Record<SourceName, SourceName>>> = {
  dataforseo_queue: 'dataforseo',
}

/** Sources that are reached at the API hub or at the older developers' centre, by what their keys are for. */
export const twoHosted: ReadonlySet<string> = new Set<SourceName>(['naver_search', 'naver_datalab'])

/** Every variable that holds a key of a source: those come from the environment only. */
export const sourceKeyNames: readonly string[] = Object.values(credentialsOf).flatMap((names) =>
  Object.values(names),
)

// Calls a second at the source itself, below what people report as its limit.
const usualRate: Readonly<Partial<Record<SourceName, number>>> = {
  naver_searchad: 2,
  naver_search: 10,
  naver_datalab: 5,
  dataforseo: 10,
  dataforseo_queue: 20,
  search_console: 10,
}
const nearRate = 200

/** Calls a second, where nobody says otherwise. */
export function usualRateOf(name: SourceName): number {
  return usualRate[name] ?? 2
}

const usualBudget = 1_000
const nearBudget = 1_000_000
const mostCalls = 100_000_000

/** The sources whose credentials are all set; one of which some are missing is a problem. */
export function readSources(read: Reader, isLive: boolean, problems: string[]): SourceSettings[] {
  const opened = new Map<SourceName, SourceSettings>()
  for (const name of sourceNames) {
    // It needs no keys: sandbox mode brings it along.
    if (name === 'sandbox') continue
    const keeper = keysOfAnother[name]
    const door = keeper
      ? doorBeside(read, name, isLive, opened.get(keeper))
      : doorOf(read, name, isLive, problems)
    const limits = limitsOf(read, name, door.baseUrl)
    if (door.credentials) opened.set(name, { name, ...limits, ...door, credentials: door.credentials })
  }
  return [...opened.values()]
}

/** Where a source is and what opens it; no credentials: it stays shut. */
type Door = Pick<SourceSettings, 'baseUrl'> & {
  readonly credentials: SourceSettings['credentials'] | undefined
}

function doorOf(read: Reader, name: SourceName, isLive: boolean, problems: string[]): Door {
  const variables = Object.entries(credentialsOf[name] ?? {})
  const given = variables.filter(([, variable]) => read.text(variable) !== undefined)
  const baseUrl = baseUrlOf(read, name, isLive)
  const credentials: Record<string, string> = {
    ...Object.fromEntries(given.map(([field, variable]) => [field, read.text(variable)!])),
    ...(twoHosted.has(name) && { host: hostOf(read, name) }),
  }
  const shut = { baseUrl, credentials: undefined }
  if (given.length === 0) return shut
  if (name === 'search_console' && !hasAccount(credentials['keyFile']!)) {
    problems.push('SEARCH_CONSOLE_KEY_FILE must name a readable file with the JSON key of a service account.')
    return shut
  }
  const missing = variables.filter((one) => !given.includes(one)).map(([, variable]) => variable)
  if (missing.length === 0) return { baseUrl, credentials }
  problems.push(`${missing.join(' and ')} must be set too, or none for ${name}.`)
  return shut
}

function doorBeside(
  read: Reader,
  name: SourceName,
  isLive: boolean,
  keeper: SourceSettings | undefined,
): Door {
  const baseUrl = baseUrlOf(read, name, isLive) ?? keeper?.baseUrl
  return { baseUrl, credentials: keeper?.credentials }
}

function baseUrlOf(read: Reader, name: SourceName, isLive: boolean): string | undefined {
  return read.checked(`${name.toUpperCase()}_BASE_URL`, (text) => isOrigin(text, isLive), originForm)
}

function limitsOf(read: Reader, name: SourceName, baseUrl: string | undefined) {
  const prefix = name.toUpperCase()
  const isNear = baseUrl !== undefined && isUrlOfLoopback(baseUrl)
  return {
    ratePerSecond: rateOf(read, `${prefix}_RATE`, isNear ? nearRate : usualRateOf(name)),
    budgetPerDay: read.integer(`${prefix}_BUDGET_PER_DAY`, isNear ? nearBudget : usualBudget, 0, mostCalls),
    workspaceBudgetPerDay: read.integer(`${prefix}_WORKSPACE_BUDGET_PER_DAY`, 0, 0, mostCalls),
  }
}

function hasAccount(path: string): boolean {
  try {
    return readAccount(path).email !== ''
  } catch {
    return false
  }
}

function hostOf(read: Reader, name: SourceName): string {
  const variable = `${name.toUpperCase()}_HOST`
  return read.checked(variable, (text) => text === 'hub' || text === 'open', 'hub or open') ?? 'hub'
}

function rateOf(read: Reader, variable: string, fallback: number): number {
  const accepts = (text: string) =>
    /^\d{1,4}(?:\.\d{1,3})?$/.test(text) && Number(text) > 0 && Number(text) <= 1000
  return Number(read.checked(variable, accepts, 'calls a second, above 0 and at most 1000') ?? fallback)
}

const originForm = 'an origin such as https://api.example.com (with MODE=live always https), without a path'

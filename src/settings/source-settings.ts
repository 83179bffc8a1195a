import { type SourceName, type SourceSettings, sourceNames } from '../batch/sources/port.ts'
import { readAccount } from '../batch/sources/search-console.ts'
import { isLoopback } from '../platform/loopback.ts'
import { isOrigin, type Reader } from './environment.ts'

/** The variables that open each source, by the names its adapter gives them. All of them are needed. */
export const credentialsOf: Readonly<Partial<Record<SourceName, Readonly<Record<string, string>>>>> = {
  naver_searchad: {
    key: 'NAVER_SEARCHAD_API_KEY',
    secret: 'NAVER_SEARCHAD_SECRET',
    customer: 'NAVER_SEARCHAD_CUSTOMER',
  },
  naver_search: { id: 'NAVER_CLIENT_ID', secret: 'NAVER_CLIENT_SECRET' },
  dataforseo: { login: 'DATAFORSEO_LOGIN', password: 'DATAFORSEO_PASSWORD' },
  serpapi: { key: 'SERPAPI_API_KEY' },
  searchapi: { key: 'SEARCHAPI_API_KEY' },
  valueserp: { key: 'VALUESERP_API_KEY' },
  serper: { key: 'SERPER_API_KEY' },
  hasdata: { key: 'HASDATA_API_KEY' },
  spaceserp: { key: 'SPACESERP_API_KEY' },
  search_console: { keyFile: 'SEARCH_CONSOLE_KEY_FILE' },
}

/** Every variable that holds a key of a source: those come from the environment only. */
export const sourceKeyNames: readonly string[] = Object.values(credentialsOf).flatMap((names) =>
  Object.values(names),
)

// Calls a second at the source itself, below what people report as its limit.
const usualRate: Readonly<Partial<Record<SourceName, number>>> = {
  naver_searchad: 2,
  naver_search: 10,
  dataforseo: 10,
  search_console: 10,
}
const nearRate = 200
const usualBudget = 1_000
const nearBudget = 1_000_000
const mostCalls = 100_000_000

/** The sources whose credentials are all set; one of which some are missing is a problem. */
export function readSources(read: Reader, isLive: boolean, problems: string[]): SourceSettings[] {
  return sourceNames.flatMap((name) => {
    const variables = Object.entries(credentialsOf[name] ?? {})
    if (variables.length === 0) return []
    const given = variables.filter(([, variable]) => read.text(variable) !== undefined)
    const prefix = name.toUpperCase()
    const baseUrl = read.checked(`${prefix}_BASE_URL`, (text) => isOrigin(text, isLive), originForm)
    const isNear = baseUrl !== undefined && isLoopback(new URL(baseUrl).hostname.replace(/^\[|\]$/g, ''))
    const settings: SourceSettings = {
      name,
      baseUrl,
      credentials: {
        ...Object.fromEntries(given.map(([field, variable]) => [field, read.text(variable)!])),
        ...(name === 'naver_search' && { host: hostOf(read) }),
      },
      ratePerSecond: rateOf(read, `${prefix}_RATE`, isNear ? nearRate : (usualRate[name] ?? 2)),
      budgetPerDay: read.integer(`${prefix}_BUDGET_PER_DAY`, isNear ? nearBudget : usualBudget, 0, mostCalls),
      workspaceBudgetPerDay: read.integer(`${prefix}_WORKSPACE_BUDGET_PER_DAY`, 0, 0, mostCalls),
    }
    if (given.length === 0) return []
    if (name === 'search_console' && !hasAccount(settings.credentials['keyFile']!)) {
      problems.push(
        'SEARCH_CONSOLE_KEY_FILE must name a readable file with the JSON key of a service account.',
      )
      return []
    }
    const missing = variables.filter((one) => !given.includes(one)).map(([, variable]) => variable)
    if (missing.length > 0) problems.push(`${missing.join(' and ')} must be set too, or none for ${name}.`)
    return missing.length > 0 ? [] : [settings]
  })
}

function hasAccount(path: string): boolean {
  try {
    return readAccount(path).email !== ''
  } catch {
    return false
  }
}

function hostOf(read: Reader): string {
  return (
    read.checked('NAVER_SEARCH_HOST', (text) => text === 'hub' || text === 'open', 'hub or open') ?? 'hub'
  )
}

function rateOf(read: Reader, variable: string, fallback: number): number {
  const accepts = (text: string) =>
    /^\d{1,4}(?:\.\d{1,3})?$/.test(text) && Number(text) > 0 && Number(text) <= 1000
  return Number(read.checked(variable, accepts, 'calls a second, above 0 and at most 1000') ?? fallback)
}

const originForm = 'an origin such as https://api.example.com (with MODE=live always https), without a path'

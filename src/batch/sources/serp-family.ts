import { type JsonAnswer, type JsonCall, openFetchJson } from '../../platform/fetch-json.ts'
import { failed, isObject, largestAnswer, timeoutMs, transportFailure, urlsIn } from './answers.ts'
import type {
  KnownPlaces,
  RankAbilities,
  RankAsk,
  RankPage,
  Source,
  SourceFailure,
  SourceName,
  SourceSettings,
} from './port.ts'

/**
 * Services that all sell the same thing, a page of Google's results as a list of `{position, link}`, and differ in names
 * only. Positions are counted here: with some of them they start again on every page.
 */
type Dialect = {
  readonly origin: string
  readonly engines: readonly string[]
  /** Whether an answer can tell for which device it is. */
  readonly hasDevice: boolean
  request(ask: RankAsk, page: number, key: string): Omit<JsonCall, 'url'> & { readonly path: string }
  /** Where the list is, and the address in an item of it. */
  readonly list: string
  readonly url: string
  /** What a good answer says although it has no list. `page`: which one, from 0. */
  isEmpty(body: Record<string, unknown>, page: number): boolean
}

const pageSize = 10
const deepest = 100

// Opened where the first place is looked at: that takes tens of milliseconds, which no command needs at its start.
let regions: Intl.DisplayNames | undefined

/** Google's results are those of a country, by the two letters that ISO 3166 has for it. */
function isCountry(location: string): boolean {
  const letters = location.toUpperCase()
  if (!/^[a-z]{2}$/i.test(location) || letters === 'ZZ') return false
  regions ??= new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' })
  return regions.of(letters) !== undefined
}

const countries: KnownPlaces = {
  get known() {
    const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']
    return letters.flatMap((first) => letters.map((second) => first + second)).filter(isCountry)
  },
  has: isCountry,
}

const country = (location: string) => location.toLowerCase()
const get = (path: string, fields: Record<string, string | null | undefined>, headers = {}) => {
  const given = Object.entries(fields).filter((field): field is [string, string] => field[1] != null)
  return { method: 'GET' as const, path: `${path}?${new URLSearchParams(given)}`, headers }
}
const places = ({ location, language }: RankAsk) => ({ gl: country(location), hl: language })
const saysFullyEmpty = (body: Record<string, unknown>) => {
  const information = body['search_information']
  return isObject(information) && information['organic_results_state'] === 'Fully empty'
}
// The total is that of the whole search: behind the last page it says nothing, and that the list is missing does.
const endsOrSaysNoTotal = (body: Record<string, unknown>, page: number) => {
  const [information, list] = [body['search_information'], body['organic_results']]
  if (page > 0 && Array.isArray(list) && list.length === 0) return true
  return isObject(information) && ((page > 0 && list === undefined) || information['total_results'] === 0)
}

const dialects: Partial<Record<SourceName, Dialect>> = {
  serpapi: {
    origin: 'https://serpapi.com',
    engines: ['google', 'naver'],
    hasDevice: true,
    request: (ask, page, key) =>
      ask.engine === 'naver'
        ? get('/search.json', {
            engine: 'naver',
            query: ask.keyword,
            where: 'web',
            page: String(page + 1),
            api_key: key,
          })
        : get('/search.json', {
            engine: 'google',
            q: ask.keyword,
            ...places(ask),
            device: ask.device,
            start: String(page * pageSize),
            api_key: key,
          }),
    list: 'organic_results',
    url: 'link',
    isEmpty: saysFullyEmpty,
  },
  searchapi: {
    origin: 'https://www.searchapi.io',
    engines: ['google'],
    hasDevice: true,
    request: (ask, page, key) =>
      get(
        '/api/v1/search',
        { engine: 'google', q: ask.keyword, ...places(ask), device: ask.device, page: String(page + 1) },
        { authorization: `Bearer ${key}` },
      ),
    list: 'organic_results',
    url: 'link',
    isEmpty: endsOrSaysNoTotal,
  },
  valueserp: {
    origin: 'https://api.valueserp.com',
    engines: ['google'],
    hasDevice: true,
    request: (ask, page, key) =>
      get('/search', {
        q: ask.keyword,
        ...places(ask),
        device: ask.device,
        page: String(page + 1),
        api_key: key,
      }),
    list: 'organic_results',
    url: 'link',
    isEmpty: endsOrSaysNoTotal,
  },
  serper: {
    origin: 'https://google.serper.dev',
    engines: ['google'],
    hasDevice: false,
    request: (ask, page, key) => ({
      method: 'POST',
      path: '/search',
      headers: { 'x-api-key': key },
      body: JSON.stringify({
        q: ask.keyword,
        gl: country(ask.location),
        ...(ask.language && { hl: ask.language }),
        page: page + 1,
      }),
    }),
    list: 'organic',
    url: 'link',
    isEmpty: (body) => Array.isArray(body['organic']) && body['organic'].length === 0,
  },
  hasdata: {
    origin: 'https://api.hasdata.com',
    engines: ['google'],
    hasDevice: true,
    request: (ask, page, key) =>
      get(
        '/scrape/google/serp',
        { q: ask.keyword, ...places(ask), deviceType: ask.device, start: String(page * pageSize) },
        { 'x-api-key': key },
      ),
    list: 'organicResults',
    url: 'link',
    isEmpty: (body) => Array.isArray(body['organicResults']) && body['organicResults'].length === 0,
  },
  spaceserp: {
    origin: 'https://api.spaceserp.com',
    engines: ['google'],
    hasDevice: true,
    request: (ask, page, key) =>
      get('/google/search', {
        q: ask.keyword,
        ...places(ask),
        device: ask.device,
        pageSize: String(pageSize),
        pageNo: String(page + 1),
        apiKey: key,
      }),
    list: 'organic_results',
    url: 'link',
    isEmpty: endsOrSaysNoTotal,
  },
}

/** What one of the family can be asked for. */
export function serpAbilities(name: SourceName): RankAbilities {
  const { engines, hasDevice } = dialects[name]!
  return {
    name,
    engines,
    ...(hasDevice && { devices: ['desktop', 'mobile', 'tablet'] }),
    // Naver's have no place: any name will do.
    locations: (engine) => (engine === 'google' ? countries : { known: [], has: () => true }),
    deepest: () => deepest,
    callsFor: (_engine, depth) => Math.ceil(depth / pageSize),
  }
}

/** Opens one of the family. */
export function openSerpSource(settings: SourceSettings): Source {
  const dialect = dialects[settings.name]!
  const origin = (settings.baseUrl ?? dialect.origin).replace(/\/+$/, '')
  const key = settings.credentials['key']!
  const fetchJson = openFetchJson({ timeoutMs, maxAnswerBytes: largestAnswer })
  const abilities = serpAbilities(settings.name)
  return {
    settings,
    ranks: {
      ...abilities,
      async readPage(ask, page) {
        if (!abilities.locations!(ask.engine).has(ask.location)) return failed('location_not_supported')
        const { path, ...call } = dialect.request(ask, page, key)
        return readSerpAnswer(dialect, { ...ask, page }, await fetchJson({ ...call, url: origin + path }))
      },
    },
    volumes: undefined,
    close: () => fetchJson.close(),
  }
}

function readSerpAnswer(
  dialect: Dialect,
  ask: RankAsk & { page: number },
  answer: JsonAnswer,
): RankPage | SourceFailure {
  const trouble = transportFailure(answer)
  if (trouble || answer.kind !== 'answered') return trouble ?? failed('unreachable')
  const body = isObject(answer.body) ? answer.body : {}
  if (answer.status === 401 || answer.status === 403) return failed('credentials_refused', 'credentials')
  if (answer.status === 402) return failed('quota_exhausted', 'quota')
  // One status for two troubles: the words tell an empty balance from a hurry.
  if (answer.status === 429)
    return /run out|no searches|credits|balance|exceeded your/i.test(wordsOf(body))
      ? failed('quota_exhausted', 'quota')
      : failed('throttled', 'rate')
  if (answer.status !== 200) return failed('request_refused')

  const paid = { paid: true }
  const metadata = body['search_metadata']
  const status = isObject(metadata) ? metadata['status'] : undefined
  if (status === 'Error') return failed('source_error', 'answer')
  if (status !== undefined && status !== 'Success') return failed('not_ready', 'answer', paid)
  const asked = body['search_parameters']
  const device = isObject(asked) ? asked['device'] : undefined
  if (dialect.hasDevice && typeof device === 'string' && device !== ask.device)
    return failed('wrong_device', 'answer', paid)

  const urls = urlsIn(body[dialect.list], dialect.url)
  if (urls && urls.length > 0) return { kind: 'page', urls, isLast: false }
  // No list and no word that there is nothing: the source failed to read the page, and the site may be on it.
  if (!dialect.isEmpty(body, ask.page)) return failed('unreadable_results', 'answer', paid)
  return { kind: 'page', urls: [], isLast: true }
}

function wordsOf(body: Record<string, unknown>): string {
  const text = body['error'] ?? body['message']
  return typeof text === 'string' ? text : ''
}

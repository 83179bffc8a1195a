import type { SourceContext, SourceReply, SourceRequest, SourceWire } from './source-sandbox.ts'

type Ask = {
  readonly engine: string
  readonly keyword: string
  readonly device: string
  readonly location: string
  /** From 0. */
  readonly page: number
  readonly key: string | undefined
}

/** How each service of the family is asked and answers. */
type Dialect = {
  readonly method: string
  readonly path: string
  read(request: SourceRequest): Ask
  /** The answer around a list of results. */
  render(list: readonly Result[], ask: Ask, total: number): Record<string, unknown>
  readonly refused: SourceReply
}

type Result = { position: number; title: string; link: string; snippet: string }

const perPage = 10
const header = (request: SourceRequest, name: string) => request.headers[name]?.toString()
const number = (text: string | null) => (/^\d{1,4}$/.test(text ?? '') ? Number(text) : 0)
const ofQuery = ({ query }: SourceRequest) => ({
  engine: query.get('engine') ?? 'google',
  keyword: query.get('q') ?? query.get('query') ?? '',
  device: query.get('device') ?? 'desktop',
  location: (query.get('gl') ?? 'kr').toUpperCase(),
})
const refused = {
  status: 401,
  body: { error: 'Invalid API key. Your API key should be here: the dashboard.' },
}
const renderWithState = (list: readonly Result[], ask: Ask, total: number) => ({
  search_metadata: { id: 'made-up', status: 'Success' },
  search_parameters: { engine: ask.engine, q: ask.keyword, device: ask.device },
  search_information:
    list.length > 0
      ? { organic_results_state: 'Results for exact spelling', total_results: total }
      : { organic_results_state: 'Fully empty', total_results: total },
  ...(list.length > 0
    ? { organic_results: list }
    : { error: "Google hasn't returned any results for this query." }),
})
const renderWithCredits = (list: readonly Result[], ask: Ask, total: number) => ({
  request_info: { success: true, credits_used: 1, credits_remaining: 100_000 },
  search_parameters: { q: ask.keyword, device: ask.device },
  // Behind the last page it is the same as before it.
  search_information: { total_results: total },
  ...(list.length > 0 && { organic_results: list }),
})

const dialects: readonly Dialect[] = [
  {
    // SerpApi
    method: 'GET',
    path: '/search.json',
    read: (request) => ({
      ...ofQuery(request),
      page:
        request.query.get('engine') === 'naver'
          ? Math.max(0, number(request.query.get('page')) - 1)
          : Math.floor(number(request.query.get('start')) / perPage),
      key: request.query.get('api_key') ?? undefined,
    }),
    render: renderWithState,
    refused,
  },
  {
    // SearchApi
    method: 'GET',
    path: '/api/v1/search',
    read: (request) => ({
      ...ofQuery(request),
      page: Math.max(0, number(request.query.get('page')) - 1),
      key:
        header(request, 'authorization')?.replace(/^Bearer /, '') ??
        request.query.get('api_key') ??
        undefined,
    }),
    render: renderWithState,
    refused,
  },
  {
    // ValueSERP
    method: 'GET',
    path: '/search',
    read: (request) => ({
      ...ofQuery(request),
      page: Math.max(0, number(request.query.get('page')) - 1),
      key: request.query.get('api_key') ?? undefined,
    }),
    render: renderWithCredits,
    refused: { status: 401, body: { request_info: { success: false, message: 'api_key is not valid.' } } },
  },
  {
    // SpaceSerp
    method: 'GET',
    path: '/google/search',
    read: (request) => ({
      ...ofQuery(request),
      page: Math.max(0, number(request.query.get('pageNo')) - 1),
      key: request.query.get('apiKey') ?? undefined,
    }),
    render: renderWithCredits,
    refused: { status: 401, body: { message: 'apiKey is not valid.' } },
  },
  {
    // Serper
    method: 'POST',
    path: '/search',
    read: (request) => {
      const body = (request.body ?? {}) as { q?: string; gl?: string; page?: number }
      return {
        engine: 'google',
        keyword: body.q ?? '',
        device: 'desktop',
        location: (body.gl ?? 'kr').toUpperCase(),
        page: Math.max(0, (body.page ?? 1) - 1),
        key: header(request, 'x-api-key'),
      }
    },
    render: (list, ask) => ({
      searchParameters: { q: ask.keyword, type: 'search' },
      organic: list,
      credits: 1,
    }),
    refused: { status: 403, body: { message: 'Unauthorized.', statusCode: 403 } },
  },
  {
    // HasData
    method: 'GET',
    path: '/scrape/google/serp',
    read: (request) => ({
      ...ofQuery(request),
      device: request.query.get('deviceType') ?? 'desktop',
      page: Math.floor(number(request.query.get('start')) / perPage),
      key: header(request, 'x-api-key'),
    }),
    render: (list) => ({ requestMetadata: { status: 'ok' }, organicResults: list }),
    refused: { status: 401, body: { message: 'Invalid API key' } },
  },
]

/**
 * SerpApi and the services of its kind, each under its own path. A key with `refused` in it is not accepted, and one with
 * `empty` in it has no searches left.
 */
export const serpapiWire: SourceWire = {
  name: 'serpapi',
  tooFast: { status: 429, body: { error: 'You are exceeding the hourly throughput limit.' } },
  unavailable: { status: 503, body: { error: 'The service is unavailable.' } },
  answer(request, context) {
    if (request.path === '/account.json')
      return { status: 200, body: { total_searches_left: 100_000, account_rate_limit_per_hour: 720_000 } }
    const dialect = dialects.find(({ method, path }) => method === request.method && path === request.path)
    if (!dialect) return undefined
    const ask = dialect.read(request)
    if (ask.key === undefined || ask.key === '' || /refused/.test(ask.key)) return dialect.refused
    if (/empty/.test(ask.key))
      return { status: 429, body: { error: 'Your account has run out of searches.' } }
    if (ask.keyword === '') return { status: 400, body: { error: 'Missing query `q` parameter.' } }
    return resultsOf(dialect, ask, context)
  },
}

function resultsOf(dialect: Dialect, ask: Ask, { web, day, strikes }: SourceContext): SourceReply {
  const asks = [ask.engine, ask.keyword, ask.device, ask.location, ask.page].join('\t')
  const paid = { paid: true, asks, status: 200 }
  const trouble = (['unreadable', 'wrong_device', 'empty'] as const).find(strikes)
  if (trouble === 'unreadable')
    return {
      ...paid,
      body: { search_metadata: { status: 'Success' }, search_parameters: { device: ask.device } },
    }
  if (trouble === 'empty') return { ...paid, isGood: true, body: dialect.render([], ask, 0) }
  const seen = trouble === 'wrong_device' ? (ask.device === 'mobile' ? 'desktop' : 'mobile') : ask.device
  const all = web.results({ ...ask, device: seen, day: day() }).slice(0, 100)
  const list = all.slice(ask.page * perPage, (ask.page + 1) * perPage).map(
    // Places start again on every page, as with some of these services.
    (link, at): Result => ({
      position: at + 1,
      title: `${ask.keyword} ${at + 1}`,
      link,
      snippet: 'Made up.',
    }),
  )
  const body = dialect.render(list, { ...ask, device: seen }, all.length)
  return { ...paid, isGood: trouble === undefined, body }
}

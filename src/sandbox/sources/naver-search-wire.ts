import type { SourceWire } from './source-sandbox.ts'

/** Naver's open search on both of its hosts: the API hub's paths and headers, and those of the developers' centre. */
export const naverSearchWire: SourceWire = {
  name: 'naver-search',
  tooFast: { status: 429, body: { error: { errorCode: '410', message: 'Rate Limited' } } },
  unavailable: { status: 503, body: { error: { errorCode: '500', message: 'Endpoint Error' } } },
  answer(request, { web, day, strikes }) {
    const hub = /^\/search\/v1\/(\w+)$/.exec(request.path)
    const open = /^\/v1\/search\/(\w+)\.json$/.exec(request.path)
    const kind = (hub ?? open)?.[1]
    if (request.method !== 'GET' || kind === undefined) return undefined
    const header = (name: string) => request.headers[name]?.toString() ?? ''
    const id = header(hub ? 'x-ncp-apigw-api-key-id' : 'x-naver-client-id')
    const secret = header(hub ? 'x-ncp-apigw-api-key' : 'x-naver-client-secret')
    if (id === '' || secret === '' || /refused/.test(secret)) return hub ? hubRefusal : openRefusal
    if (/empty/.test(secret)) return hub ? hubQuota : openQuota
    const query = request.query.get('query') ?? ''
    const [display, start] = [numberIn(request.query, 'display', 10), numberIn(request.query, 'start', 1)]
    if (query === '')
      return { status: 400, body: { errorMessage: 'Incorrect query request', errorCode: 'SE01' } }
    if (!(display >= 1 && display <= 100))
      return { status: 400, body: { errorMessage: 'Invalid display value', errorCode: 'SE02' } }
    if (!(start >= 1 && start <= 1000))
      return { status: 400, body: { errorMessage: 'Invalid start value', errorCode: 'SE03' } }
    if (strikes('unreadable')) return { status: 200, paid: true, body: { lastBuildDate: '' } }
    const search = { keyword: query, engine: `naver ${kind}`, device: 'any', location: 'KR', day: day() }
    const all = strikes('empty') ? [] : web.results(search)
    const items = all.slice(start - 1, start - 1 + display).map((link, at) => ({
      title: `<b>${query}</b> ${start + at}`,
      link,
      description: 'Made up.',
    }))
    const body = {
      lastBuildDate: new Date().toUTCString(),
      total: all.length,
      start,
      display: items.length,
      items,
    }
    return { status: 200, body, paid: true, isGood: true, asks: [kind, query, start].join('\t') }
  },
}

const hubRefusal = { status: 401, body: { error: { errorCode: '200', message: 'Authentication Failed' } } }
const openRefusal = { status: 401, body: { errorMessage: 'Authentication failed', errorCode: '024' } }
const hubQuota = { status: 429, body: { error: { errorCode: '400', message: 'Quota Exceeded' } } }
const openQuota = { status: 429, body: { errorMessage: 'Query limit exceeded', errorCode: '010' } }

function numberIn(query: URLSearchParams, name: string, fallback: number): number {
  const text = query.get(name)
  return text === null ? fallback : /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
}

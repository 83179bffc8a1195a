import { keyTrouble, naverKeysOf } from './naver-keys.ts'
import { answerTrend, isTrend } from './naver-trend.ts'
import type { SourceWire } from './source-sandbox.ts'

/** Naver's open search and DataLab on both of their hosts: the API hub's paths and headers, and those of the developers' centre. */
export const naverSearchWire: SourceWire = {
  name: 'naver-search',
  tooFast: { status: 429, body: { error: { errorCode: '410', message: 'Rate Limited' } } },
  unavailable: { status: 503, body: { error: { errorCode: '500', message: 'Endpoint Error' } } },
  answer(request, context) {
    if (isTrend(request)) return answerTrend(request, context)
    const { web, day, strikes } = context
    const hub = /^\/search\/v1\/(\w+)$/.exec(request.path)
    const open = /^\/v1\/search\/(\w+)\.json$/.exec(request.path)
    const kind = (hub ?? open)?.[1]
    if (request.method !== 'GET' || kind === undefined) return undefined
    const trouble = keyTrouble(naverKeysOf(request, hub !== null), hub !== null)
    if (trouble) return trouble
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
      ...(kind === 'news' ? newsAddresses(link, start + at) : { link }),
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

/** Much of what newspapers write is shown under an address of Naver's own, with that of the newspaper beside it. */
function newsAddresses(originallink: string, place: number) {
  const own = `https://n.news.naver.com/mnews/article/001/${String(place).padStart(10, '0')}?sid=101`
  return { originallink, link: place % 2 === 0 ? own : originallink }
}

function numberIn(query: URLSearchParams, name: string, fallback: number): number {
  const text = query.get(name)
  return text === null ? fallback : /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
}

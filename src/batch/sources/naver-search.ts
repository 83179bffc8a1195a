import { openFetchJson } from '../../platform/fetch-json.ts'
import { failed, isObject, largestAnswer, timeoutMs, transportFailure, urlsIn } from './answers.ts'
import type { Source, SourceSettings } from './port.ts'

/** Its kinds of results, each an engine of its own: their order is the API's, not that of the page people see. */
const kindOf: Readonly<Record<string, string>> = {
  naver_web_api: 'webkr',
  naver_blog_api: 'blog',
  naver_news_api: 'news',
  naver_cafe_api: 'cafearticle',
  naver_kin_api: 'kin',
}
const pageSize = 100
const deepest = 1000

/**
 * Naver's open search. Keys of the API hub and those of the older developers' centre go to different hosts under
 * different header names.
 */
export function openNaverSearch(settings: SourceSettings): Source {
  const { id = '', secret = '', host } = settings.credentials
  const isHub = host !== 'open'
  const origin = (
    settings.baseUrl ?? (isHub ? 'https://naverapihub.apigw.ntruss.com' : 'https://openapi.naver.com')
  ).replace(/\/+$/, '')
  const headers: Record<string, string> = isHub
    ? { 'x-ncp-apigw-api-key-id': id, 'x-ncp-apigw-api-key': secret }
    : { 'x-naver-client-id': id, 'x-naver-client-secret': secret }
  const fetchJson = openFetchJson({ timeoutMs, maxAnswerBytes: largestAnswer })
  return {
    settings,
    ranks: {
      name: settings.name,
      engines: Object.keys(kindOf),
      deepest: () => deepest,
      callsFor: (_engine, depth) => Math.ceil(depth / pageSize),
      async readPage({ engine, keyword, depth }, page) {
        const start = page * pageSize + 1
        const display = Math.min(pageSize, depth - page * pageSize)
        const kind = kindOf[engine]!
        const path = isHub ? `/search/v1/${kind}` : `/v1/search/${kind}.json`
        const query = new URLSearchParams({ query: keyword, display: String(display), start: String(start) })
        const answer = await fetchJson({ method: 'GET', url: `${origin}${path}?${query}`, headers })
        const trouble = transportFailure(answer)
        if (trouble || answer.kind !== 'answered') return trouble ?? failed('unreachable')
        if (answer.status === 401 || answer.status === 403)
          return failed('credentials_refused', 'credentials')
        if (answer.status === 429) return limitFailure(answer.body)
        if (answer.status !== 200) return failed('request_refused')
        const body = isObject(answer.body) ? answer.body : {}
        const urls = urlsIn(body['items'], 'link')
        if (!urls || typeof body['total'] !== 'number')
          return failed('unreadable_results', 'answer', { paid: true })
        return { kind: 'page', urls, isLast: urls.length < display || start + display > body['total'] }
      },
    },
    volumes: undefined,
    close: () => fetchJson.close(),
  }
}

/** The hub numbers its limits: 400 is the day's, 410 and 420 are of speed. The older host knows the day's only. */
function limitFailure(body: unknown) {
  const error = isObject(body) && isObject(body['error']) ? body['error'] : undefined
  const isOfSpeed = error?.['errorCode'] === '410' || error?.['errorCode'] === '420'
  return isOfSpeed ? failed('throttled', 'rate') : failed('quota_exhausted', 'quota')
}

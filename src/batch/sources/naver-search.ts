import { openFetchJson } from '../../platform/fetch-json.ts'
import { failed, isObject, largestAnswer, timeoutMs, urlsIn } from './answers.ts'
import { naverHostOf, readNaver } from './naver-host.ts'
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

/** Naver's open search, on either of its hosts. */
export function openNaverSearch(settings: SourceSettings): Source {
  const { isHub, origin, headers } = naverHostOf(settings)
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
        const read = readNaver(answer)
        if (read.kind === 'failed') return read
        const { body } = read
        const urls = urlsIn(body['items'], 'link')
        if (!urls || typeof body['total'] !== 'number')
          return failed('unreadable_results', 'answer', { paid: true })
        const originals = originalsIn(body['items'] as unknown[])
        const isLast = urls.length < display || start + display > body['total']
        return { kind: 'page', urls, isLast, ...(originals.size > 0 && { originals }) }
      },
    },
    volumes: undefined,
    close: () => fetchJson.close(),
  }
}

/** Many news stand under an address of Naver's own; these have that of the newspaper beside it. */
function originalsIn(items: readonly unknown[]): Map<string, string> {
  const pairs = items.map((item) => (isObject(item) ? [item['link'], item['originallink']] : []))
  return new Map(
    pairs.filter(
      (pair): pair is [string, string] =>
        typeof pair[0] === 'string' && typeof pair[1] === 'string' && pair[1] !== '' && pair[0] !== pair[1],
    ),
  )
}

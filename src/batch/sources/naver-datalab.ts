import { openFetchJson } from '../../platform/fetch-json.ts'
import { addDays, type Day, parseDay } from '../../platform/time.ts'
import { failed, isObject, largestAnswer, timeoutMs } from './answers.ts'
import { naverHostOf, readNaver } from './naver-host.ts'
import type { Source, SourceSettings, Trend, TrendAnswer } from './port.ts'

// Three years show a season twice, and what became of it.
const yearsAsked = 3
const firstDay = '2016-01-01'

/**
 * How searches on Naver went from month to month, from its DataLab. The highest value of a whole answer is 100 whatever it
 * stands for, so one keyword is asked for by itself: five in one call would be measured against the most searched of them.
 */
export function openNaverDatalab(settings: SourceSettings): Source {
  const { isHub, origin, headers } = naverHostOf(settings)
  const url = `${origin}${isHub ? '/search-trend/v1/search' : '/v1/datalab/search'}`
  const fetchJson = openFetchJson({ timeoutMs, maxAnswerBytes: largestAnswer })
  return {
    settings,
    ranks: undefined,
    volumes: undefined,
    trends: {
      name: settings.name,
      async readTrend(keyword, month) {
        const span = spanBefore(month)
        const answer = readNaver(
          await fetchJson({ method: 'POST', url, headers, body: trendBody(keyword, span) }),
        )
        return answer.kind === 'failed' ? answer : readResults(answer.body, span)
      },
    },
    close: () => fetchJson.close(),
  }
}

type Span = { readonly from: Day; readonly to: Day }

/** The months before this one, as far back as is asked and told. */
function spanBefore(month: Day): Span {
  const from = `${String(Number(month.slice(0, 4)) - yearsAsked).padStart(4, '0')}${month.slice(4)}`
  return { from: from < firstDay ? firstDay : from, to: addDays(month, -1) }
}

/** Device, gender and ages are left out, which means all of them: null is refused. */
export function trendBody(keyword: string, { from, to }: Span): string {
  return JSON.stringify({
    startDate: from,
    endDate: to,
    timeUnit: 'month',
    keywordGroups: [{ groupName: keyword, keywords: [keyword] }],
  })
}

function readResults({ timeUnit, results }: Record<string, unknown>, span: Span): TrendAnswer {
  const unreadable = failed('unreadable_results', 'answer', { paid: true })
  if (timeUnit !== 'month' || !Array.isArray(results) || results.length !== 1) return unreadable
  const values = readValues(results[0], span)
  return values ? { kind: 'trend', trend: { every: 'month', ...span, values } } : unreadable
}

/** Months in their order, each once and within the span; undefined if they are anything else. */
function readValues(result: unknown, { from, to }: Span): Trend['values'] | undefined {
  const data = isObject(result) ? result['data'] : undefined
  if (!Array.isArray(data)) return undefined
  const values: { period: Day; ratio: number }[] = []
  for (const one of data) {
    const { period, ratio } = isObject(one) ? one : {}
    const day = typeof period === 'string' ? parseDay(period) : undefined
    if (day === undefined || day < from || day > to || day <= (values.at(-1)?.period ?? '')) return undefined
    if (typeof ratio !== 'number' || !(ratio >= 0 && ratio <= 100)) return undefined
    values.push({ period: day, ratio })
  }
  return values
}

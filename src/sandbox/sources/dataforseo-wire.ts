import { envelope, keywordOf, resultOf } from './dataforseo-answers.ts'
import { answerQueue } from './dataforseo-queue.ts'
import type { SourceContext, SourceReply, SourceRequest, SourceWire } from './source-sandbox.ts'

type Task = Record<string, unknown>

/** DataForSEO: an array of tasks in, HTTP 200 out, and codes inside that say what it was worth. */
export const dataforseoWire: SourceWire = {
  name: 'dataforseo',
  tooFast: { status: 200, body: envelope(40202, 'Rate-limit per minute exceeded.') },
  unavailable: { status: 500, body: envelope(50000, 'Internal Error.') },
  answer(request, context) {
    const refusal = refusalOf(request)
    const isQueue = /\/(?:task_post|tasks_ready|task_get\/advanced\/[^/]+)$/.test(request.path)
    if (isQueue) return refusal ?? answerQueue(request, context)
    const call = calls[request.path]
    if (request.method !== 'POST' || !call) return undefined
    if (refusal) return refusal
    const [task] = Array.isArray(request.body) ? (request.body as Task[]) : []
    if (!task) return { status: 200, body: envelope(40503, 'POST Data Is Invalid.') }
    return call(task, context)
  },
}

const calls: Readonly<Record<string, (task: Task, context: SourceContext) => SourceReply>> = {
  '/v3/serp/google/organic/live/advanced': serp,
  '/v3/keywords_data/google_ads/search_volume/live': volumes,
}

function refusalOf({ method, headers }: SourceRequest): SourceReply | undefined {
  const given = /^Basic (.+)$/.exec(headers.authorization ?? '')?.[1]
  const [, password = ''] = Buffer.from(given ?? '', 'base64')
    .toString('utf8')
    .split(':')
  if (password === '' || /refused/.test(password))
    return { status: 401, body: envelope(40100, 'You are not Authorized to Access this resource.') }
  // What was ordered is paid for already.
  if (/empty/.test(password) && method === 'POST')
    return { status: 402, body: envelope(40200, 'Payment Required.') }
  return undefined
}

function serp(task: Task, { web, day, strikes }: SourceContext): SourceReply {
  const keyword = keywordOf(task)
  const device = String(task['device'] ?? 'desktop')
  const depth = Number(task['depth'] ?? 10)
  if (keyword === '' || !(depth >= 1 && depth <= 200))
    return {
      status: 200,
      body: envelope(20000, 'Ok.', [{ status_code: 40501, status_message: 'Invalid Field.' }]),
    }
  const paid = { status: 200, paid: true, asks: [keyword, device, task['location_code']].join('\t') }
  // The engine could not be read; it is billed all the same, and the envelope says that all is well.
  if (strikes('unreadable'))
    return {
      ...paid,
      body: envelope(20000, 'Ok.', [{ status_code: 40101, status_message: 'Engine error.' }]),
    }
  if (strikes('empty'))
    return {
      ...paid,
      isGood: true,
      body: envelope(20000, 'Ok.', [{ status_code: 40102, status_message: 'No Search Results.' }]),
    }
  const seen = strikes('wrong_device') ? (device === 'mobile' ? 'desktop' : 'mobile') : device
  const result = [resultOf(web, { keyword, engine: 'google', device: seen, day: day() }, depth)]
  const done = { id: 'made-up', status_code: 20000, cost: 0.002, result_count: 1, result }
  return { ...paid, isGood: seen === device, body: envelope(20000, 'Ok.', [done]) }
}

function volumes(task: Task, { web, day }: SourceContext): SourceReply {
  const keywords = Array.isArray(task['keywords']) ? task['keywords'].map(String) : []
  const [year, month, date] = day().split('-').map(Number) as [number, number, number]
  // Google counts a month by the middle of the next.
  const newest = year * 12 + month - (date < 15 ? 3 : 2)
  const monthsOf = (keyword: string) =>
    Array.from({ length: 12 }, (_, back) => {
      const index = newest - back
      const at = { year: Math.floor(index / 12), month: (index % 12) + 1 }
      const name = `${at.year}-${String(at.month).padStart(2, '0')}`
      return { ...at, search_volume: Math.round(web.volume(keyword, 'mobile', name) / 10) * 10 }
    })
  // One that is not allowed there empties the whole answer, and one that nobody searches has a row without months.
  const isSpoilt = keywords.some((keyword) => keyword.endsWith('금지'))
  const result = keywords
    .filter((keyword) => !isSpoilt && !keyword.endsWith('없음'))
    .map((keyword) => ({
      keyword: keyword.toLowerCase(),
      monthly_searches: keyword.endsWith('드묾') ? null : monthsOf(keyword.toLowerCase()),
    }))
  const done = { id: 'made-up', status_code: 20000, cost: 0.05, result_count: result.length, result }
  return {
    status: 200,
    paid: true,
    isGood: true,
    asks: keywords.join('\t'),
    tells: result.map(({ keyword }) => `${keyword} ${newest}`),
    body: envelope(20000, 'Ok.', [done]),
  }
}

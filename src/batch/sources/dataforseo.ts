import { type JsonAnswer, openFetchJson } from '../../platform/fetch-json.ts'
import { failed, isObject, largestAnswer, transportFailure } from './answers.ts'
import type { RankPage, ReportedVolume, Source, SourceFailure, SourceSettings, VolumeAnswer } from './port.ts'

const deepest = 200

/** Google's results at once, and Google's volumes. Whether a call went well is told by the codes inside, never by HTTP. */
export function openDataForSeo(settings: SourceSettings): Source {
  const { login = '', password = '' } = settings.credentials
  const origin = (settings.baseUrl ?? 'https://api.dataforseo.com').replace(/\/+$/, '')
  const headers = { authorization: basicAuth(login, password) }
  const fetchJson = openFetchJson({ timeoutMs: 90_000, maxAnswerBytes: largestAnswer })
  const post = (path: string, task: Record<string, unknown>) =>
    fetchJson({ method: 'POST', url: `${origin}/v3${path}`, headers, body: JSON.stringify([task]) })
  return {
    settings,
    ranks: {
      name: settings.name,
      engines: ['google'],
      devices: ['desktop', 'mobile'],
      locations: {
        known: [...locationCodes.keys()],
        has: (location) => locationCode(location) !== undefined,
      },
      deepest: () => deepest,
      callsFor: () => 1,
      async readPage({ keyword, device, location, language, depth }) {
        const answer = await post('/serp/google/organic/live/advanced', {
          keyword: escapeKeyword(keyword),
          location_code: locationCode(location),
          language_code: language ?? 'ko',
          device,
          depth,
          group_organic_results: false,
        })
        return readSerp(answer, device)
      },
    },
    volumes: {
      name: settings.name,
      mostPerCall: 1000,
      spell: (keyword) => (keyword.length <= 80 ? keyword.toLowerCase() : undefined),
      async readVolumes(keywords) {
        const task = { keywords: [...keywords], location_code: 2410, language_code: 'ko' }
        return readVolumeList(await post('/keywords_data/google_ads/search_volume/live', task))
      },
    },
    close: () => fetchJson.close(),
  }
}

export function basicAuth(login: string, password: string): string {
  return `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`
}

/** These two signs mean something else there. */
function escapeKeyword(keyword: string): string {
  return keyword.replaceAll('%', '%25').replaceAll('+', '%2B')
}

// Countries are two thousand and their ISO 3166 number there.
const locationCodes: ReadonlyMap<string, number> = new Map(
  Object.entries({
    AU: 2036,
    BR: 2076,
    CA: 2124,
    DE: 2276,
    ES: 2724,
    FR: 2250,
    GB: 2826,
    HK: 2344,
    ID: 2360,
    IN: 2356,
    IT: 2380,
    JP: 2392,
    KR: 2410,
    SG: 2702,
    TH: 2764,
    TW: 2158,
    US: 2840,
    VN: 2704,
  }),
)

/** A country by its letters, or the number that the source itself gives a place. Undefined: it cannot be asked there. */
function locationCode(location: string): number | undefined {
  return /^\d{4,9}$/.test(location) ? Number(location) : locationCodes.get(location.toUpperCase())
}

type Task = { readonly kind: 'task'; readonly result: unknown; readonly isEmpty: boolean }

/** Codes stand twice: on the envelope and on the task. */
function readTask(answer: JsonAnswer): Task | SourceFailure {
  const trouble = transportFailure(answer)
  if (trouble || answer.kind !== 'answered') return trouble ?? failed('unreachable')
  if (answer.status === 401) return failed('credentials_refused', 'credentials')
  if (answer.status === 402) return failed('quota_exhausted', 'quota')
  const body = isObject(answer.body) ? answer.body : {}
  const envelope = failureOfCode(body['status_code'])
  if (envelope) return envelope
  const [task] = Array.isArray(body['tasks']) ? body['tasks'] : []
  if (!isObject(task)) return failed('unreadable_results', 'answer', { paid: true })
  if (task['status_code'] === 40102) return { kind: 'task', result: undefined, isEmpty: true }
  return failureOfCode(task['status_code']) ?? { kind: 'task', result: task['result'], isEmpty: false }
}

function failureOfCode(code: unknown): SourceFailure | undefined {
  if (code === 20000) return undefined
  if (code === 40202) return failed('throttled', 'rate')
  if (code === 40100 || code === 40104) return failed('credentials_refused', 'credentials')
  if (code === 40200 || code === 40210) return failed('quota_exhausted', 'quota')
  // The engine could not be read; it is billed all the same.
  if (code === 40101) return failed('source_error', 'answer', { paid: true })
  return failed(typeof code === 'number' && code >= 50000 ? 'source_error' : 'request_refused')
}

function readSerp(answer: JsonAnswer, device: string): RankPage | SourceFailure {
  const task = readTask(answer)
  if (task.kind === 'failed') return task
  if (task.isEmpty) return { kind: 'page', urls: [], isLast: true }
  const [result] = Array.isArray(task.result) ? task.result : []
  const items = isObject(result) ? result['items'] : undefined
  if (!Array.isArray(items)) return failed('unreadable_results', 'answer', { paid: true })
  if (isObject(result) && typeof result['device'] === 'string' && result['device'] !== device)
    return failed('wrong_device', 'answer', { paid: true })
  const urls = items.filter((item) => isObject(item) && item['type'] === 'organic').map((item) => item['url'])
  if (!urls.every((url) => typeof url === 'string'))
    return failed('unreadable_results', 'answer', { paid: true })
  return { kind: 'page', urls, isLast: true }
}

function readVolumeList(answer: JsonAnswer): VolumeAnswer {
  const task = readTask(answer)
  if (task.kind === 'failed') return task
  const rows = Array.isArray(task.result) ? task.result : []
  const volumes = rows.flatMap((row): ReportedVolume[] => {
    if (!isObject(row) || typeof row['keyword'] !== 'string' || !Array.isArray(row['monthly_searches']))
      return []
    const keyword = row['keyword'].toLowerCase()
    return row['monthly_searches'].flatMap((month) => {
      if (!isObject(month) || !Number.isInteger(month['search_volume'])) return []
      const day = `${month['year']}-${String(month['month']).padStart(2, '0')}-01`
      return [
        {
          keyword,
          kind: 'month',
          day,
          volume: Number(month['search_volume']),
          max: null,
          pc: null,
          mobile: null,
        },
      ]
    })
  })
  return { kind: 'volumes', volumes }
}

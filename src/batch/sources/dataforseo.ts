import { type JsonAnswer, openFetchJson } from '../../platform/fetch-json.ts'
import { failed, isObject, largestAnswer } from './answers.ts'
import {
  doorOf,
  escapeKeyword,
  failureOfCode,
  googlePlaces,
  locationCode,
  noResultsCode,
  readResults,
  readTasks,
} from './dataforseo-answers.ts'
import type { RankPage, ReportedVolume, Source, SourceFailure, SourceSettings, VolumeAnswer } from './port.ts'

const deepest = 200

/** Google's results at once, and Google's volumes. Whether a call went well is told by the codes inside, never by HTTP. */
export function openDataForSeo(settings: SourceSettings): Source {
  const { url, headers } = doorOf(settings)
  const fetchJson = openFetchJson({ timeoutMs: 90_000, maxAnswerBytes: largestAnswer })
  const post = (path: string, task: Record<string, unknown>) =>
    fetchJson({ method: 'POST', url: url(path), headers, body: JSON.stringify([task]) })
  return {
    settings,
    ranks: {
      name: settings.name,
      engines: ['google'],
      devices: ['desktop', 'mobile'],
      locations: () => googlePlaces,
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
      tells: 'month',
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

type Task = { readonly kind: 'task'; readonly result: unknown; readonly isEmpty: boolean }

/** Codes stand twice: on the envelope and on the task. */
function readTask(answer: JsonAnswer): Task | SourceFailure {
  const read = readTasks(answer)
  if (read.kind === 'failed') return read
  const [task] = read.tasks
  if (!isObject(task)) return failed('unreadable_results', 'answer', { paid: true })
  if (task['status_code'] === noResultsCode) return { kind: 'task', result: undefined, isEmpty: true }
  return failureOfCode(task['status_code']) ?? { kind: 'task', result: task['result'], isEmpty: false }
}

function readSerp(answer: JsonAnswer, device: string): RankPage | SourceFailure {
  const task = readTask(answer)
  if (task.kind === 'failed') return task
  if (task.isEmpty) return { kind: 'page', urls: [], isLast: true }
  const results = readResults(task.result, device)
  return results.kind === 'failed' ? results : { kind: 'page', urls: results.urls, isLast: true }
}

function readVolumeList(answer: JsonAnswer): VolumeAnswer {
  const task = readTask(answer)
  if (task.kind === 'failed') return task
  const rows = (Array.isArray(task.result) ? task.result : []).flatMap((row) =>
    isObject(row) && typeof row['keyword'] === 'string'
      ? [{ keyword: row['keyword'].toLowerCase(), months: row['monthly_searches'] }]
      : [],
  )
  const volumes = rows.flatMap(({ keyword, months }): ReportedVolume[] => {
    if (!Array.isArray(months)) return []
    return months.flatMap((month) => {
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
  const found = new Set(volumes.map(({ keyword }) => keyword))
  const without = rows.map(({ keyword }) => keyword).filter((keyword) => !found.has(keyword))
  return { kind: 'volumes', volumes, without }
}

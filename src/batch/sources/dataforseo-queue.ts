import { type JsonAnswer, openFetchJson } from '../../platform/fetch-json.ts'
import { failed, isObject, largestAnswer, timeoutMs } from './answers.ts'
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
import type {
  KnownPlaces,
  OrderAnswer,
  OrderedResults,
  ReadyList,
  Source,
  SourceFailure,
  SourceSettings,
  TaggedAsk,
} from './port.ts'

// What each engine's results go down to.
const engines: Readonly<Record<string, number>> = { google: 200, naver: 700 }
// Naver's results are those of Korea: there is no field to ask for others.
const naverPlaces: KnownPlaces = { known: ['KR'], has: (location) => location.toUpperCase() === 'KR' }
const mostListed = 1000

/** Google's and Naver's results, ordered now and collected later. */
export function openDataForSeoQueue(settings: SourceSettings): Source {
  const { url, headers } = doorOf(settings)
  const fetchJson = openFetchJson({ timeoutMs, maxAnswerBytes: largestAnswer })
  const get = (path: string) => fetchJson({ method: 'GET', url: url(path), headers })
  return {
    settings,
    ranks: {
      name: settings.name,
      engines: Object.keys(engines),
      devices: ['desktop', 'mobile'],
      locations: (engine) => (engine === 'naver' ? naverPlaces : googlePlaces),
      deepest: (engine) => engines[engine] ?? 0,
      callsFor: () => 1,
      queue: {
        mostPerOrder: 100,
        async order(asks) {
          const body = JSON.stringify(asks.map(taskOf))
          const path = `/serp/${asks[0]?.engine}/organic/task_post`
          return readOrders(await fetchJson({ method: 'POST', url: url(path), headers, body }), asks)
        },
        async listReady(engine) {
          return readReady(await get(`/serp/${engine}/organic/tasks_ready`))
        },
        async collect({ id, engine, device }) {
          const path = `/serp/${engine}/organic/task_get/advanced/${encodeURIComponent(id)}`
          return readOrdered(await get(path), device)
        },
      },
    },
    volumes: undefined,
    close: () => fetchJson.close(),
  }
}

function taskOf({ keyword, engine, device, location, language, depth, tag }: TaggedAsk) {
  const task = { keyword: escapeKeyword(keyword), device, depth, tag }
  if (engine === 'naver') return task
  return {
    ...task,
    location_code: locationCode(location),
    language_code: language ?? 'ko',
    group_organic_results: false,
  }
}

/**
 * An answer in the source's own words is believed; whatever else comes back, the orders may have been taken. Each is
 * found by its tag, never by its place.
 */
function readOrders(answer: JsonAnswer, asks: readonly TaggedAsk[]): readonly OrderAnswer[] | SourceFailure {
  const read = readTasks(answer)
  if (read.kind === 'failed') return isCertain(answer) ? read : asks.map(() => unsure(read.reason))
  const byTag = new Map(
    read.tasks
      .filter(isObject)
      .map((task) => [isObject(task['data']) ? task['data']['tag'] : undefined, task]),
  )
  return asks.map(({ tag }) => readOrder(byTag.get(tag)))
}

function isCertain(answer: JsonAnswer): boolean {
  if (answer.kind !== 'answered') return answer.kind === 'not_sent'
  if (answer.status === 401 || answer.status === 402) return true
  return isObject(answer.body) && typeof answer.body['status_code'] === 'number'
}

function unsure(reason: string): OrderAnswer {
  return { kind: 'unsure', reason }
}

const createdCode = 20100

function readOrder(task: Record<string, unknown> | undefined): OrderAnswer {
  if (!task || typeof task['status_code'] !== 'number') return unsure('unreadable_results')
  if (task['status_code'] !== createdCode)
    return failureOfCode(task['status_code']) ?? unsure('unreadable_results')
  const { id } = task
  return typeof id === 'string' && id !== '' && id.length <= 200
    ? { kind: 'ordered', id }
    : unsure('unreadable_results')
}

function readReady(answer: JsonAnswer): ReadyList | SourceFailure {
  const read = readTasks(answer)
  if (read.kind === 'failed') return read
  const [task] = read.tasks
  if (!isObject(task)) return failed('unreadable_results')
  // Nothing is ready.
  if (task['status_code'] === noResultsCode) return { kind: 'ready', orders: [], isWhole: true }
  const trouble = failureOfCode(task['status_code'])
  if (trouble) return trouble
  const rows = task['result'] ?? []
  if (!Array.isArray(rows)) return failed('unreadable_results')
  const orders = rows.flatMap((row) =>
    isObject(row) && typeof row['id'] === 'string'
      ? [{ id: row['id'], tag: typeof row['tag'] === 'string' ? row['tag'] : '' }]
      : [],
  )
  return { kind: 'ready', orders, isWhole: rows.length < mostListed }
}

const queuedCodes: readonly unknown[] = [40601, 40602]
const unknownIdCode = 40401

function readOrdered(answer: JsonAnswer, device: string): OrderedResults | SourceFailure {
  const read = readTasks(answer)
  if (read.kind === 'failed') return { kind: 'not_collected', failure: read }
  const [task] = read.tasks
  const notCollected = (failure: SourceFailure): OrderedResults => ({ kind: 'not_collected', failure })
  if (!isObject(task)) return notCollected(failed('unreadable_results'))
  const code = task['status_code']
  if (queuedCodes.includes(code)) return { kind: 'queued' }
  if (code === noResultsCode) return { kind: 'results', urls: [], readAt: undefined }
  if (code === unknownIdCode) return failed('order_unknown')
  const trouble = failureOfCode(code)
  // The search itself failed: another order may do better. All else is about this call only.
  if (trouble) return code === 40101 || trouble.reason === 'request_refused' ? trouble : notCollected(trouble)
  const results = readResults(task['result'], device)
  return results.kind === 'failed' ? results : { kind: 'results', urls: results.urls, readAt: results.readAt }
}

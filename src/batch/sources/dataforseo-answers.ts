import type { JsonAnswer } from '../../platform/fetch-json.ts'
import { failed, isObject, transportFailure } from './answers.ts'
import type { KnownPlaces, SourceFailure, SourceSettings } from './port.ts'

/** Where the service is, and what opens it. */
export function doorOf({ credentials, baseUrl }: SourceSettings) {
  const { login = '', password = '' } = credentials
  const origin = (baseUrl ?? 'https://api.dataforseo.com').replace(/\/+$/, '')
  return {
    url: (path: string) => `${origin}/v3${path}`,
    headers: { authorization: basicAuth(login, password) },
  }
}

export function basicAuth(login: string, password: string): string {
  return `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`
}

/** These two signs mean something else there. */
export function escapeKeyword(keyword: string): string {
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
export function locationCode(location: string): number | undefined {
  return /^\d{4,9}$/.test(location) ? Number(location) : locationCodes.get(location.toUpperCase())
}

export const googlePlaces: KnownPlaces = {
  known: [...locationCodes.keys()],
  has: (location) => locationCode(location) !== undefined,
}

/** What an answer holds, once HTTP and its envelope are believed; the tasks have codes of their own. */
export function readTasks(answer: JsonAnswer): { kind: 'tasks'; tasks: readonly unknown[] } | SourceFailure {
  const trouble = transportFailure(answer)
  if (trouble || answer.kind !== 'answered') return trouble ?? failed('unreachable')
  if (answer.status === 401) return failed('credentials_refused', 'credentials')
  if (answer.status === 402) return failed('quota_exhausted', 'quota')
  const body = isObject(answer.body) ? answer.body : {}
  const envelope = failureOfCode(body['status_code'])
  if (envelope) return envelope
  return { kind: 'tasks', tasks: Array.isArray(body['tasks']) ? body['tasks'] : [] }
}

export function failureOfCode(code: unknown): SourceFailure | undefined {
  if (code === 20000) return undefined
  if (code === 40202) return failed('throttled', 'rate')
  if (code === 40100 || code === 40104) return failed('credentials_refused', 'credentials')
  if (code === 40200 || code === 40210) return failed('quota_exhausted', 'quota')
  // The engine could not be read; it is billed all the same.
  if (code === 40101) return failed('source_error', 'answer', { paid: true })
  return failed(typeof code === 'number' && code >= 50000 ? 'source_error' : 'request_refused')
}

/** The search worked, and there was nothing to find. */
export const noResultsCode = 40102

/** The organic results of a task that went well, in their order. */
export function readResults(
  results: unknown,
  device: string,
): { kind: 'urls'; urls: string[]; readAt: Date | undefined } | SourceFailure {
  const unreadable = failed('unreadable_results', 'answer', { paid: true })
  const [result] = Array.isArray(results) ? results : []
  if (!isObject(result) || !Array.isArray(result['items'])) return unreadable
  if (typeof result['device'] === 'string' && result['device'] !== device)
    return failed('wrong_device', 'answer', { paid: true })
  const urls = result['items']
    .filter((item) => isObject(item) && item['type'] === 'organic')
    .map((item) => item['url'])
  if (!urls.every((url) => typeof url === 'string')) return unreadable
  return { kind: 'urls', urls, readAt: instantOf(result['datetime']) }
}

/** `2026-11-16 01:00:00 +00:00` */
function instantOf(text: unknown): Date | undefined {
  const parts = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) ([+-]\d\d:\d\d)$/.exec(String(text))
  const at = parts ? Date.parse(`${parts[1]}T${parts[2]}${parts[3]}`) : Number.NaN
  return Number.isNaN(at) ? undefined : new Date(at)
}

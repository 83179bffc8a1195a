import type { JsonAnswer } from '../../platform/fetch-json.ts'
import type { SourceFailure } from './port.ts'

/** Results are long; what is longer than this is no answer. */
export const largestAnswer = 8 * 1024 * 1024
export const timeoutMs = 30_000

export function failed(
  reason: string,
  of: SourceFailure['of'] = 'answer',
  { paid = false }: { paid?: boolean } = {},
): SourceFailure {
  return { kind: 'failed', reason, of, paid }
}

/** What is wrong with an answer before anybody reads it, whoever gave it. */
export function transportFailure(answer: JsonAnswer): SourceFailure | undefined {
  if (answer.kind === 'not_sent') return failed('unreachable')
  // It may have arrived, and been counted.
  if (answer.kind === 'unknown') return failed(answer.why, 'answer', { paid: true })
  if (answer.status >= 500) return failed('source_error')
  if (answer.status >= 200 && answer.status < 300 && answer.body === undefined)
    return failed('not_json', 'answer', { paid: true })
  return undefined
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The addresses of a list of results; undefined if it is no such list. */
export function urlsIn(list: unknown, field: string): string[] | undefined {
  if (!Array.isArray(list)) return undefined
  const urls = list.map((item) => (isObject(item) ? item[field] : undefined))
  return urls.every((url) => typeof url === 'string' && url !== '') ? (urls as string[]) : undefined
}

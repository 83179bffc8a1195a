import type { JsonAnswer } from '../../platform/fetch-json.ts'
import { failed, isObject, transportFailure } from './answers.ts'
import type { SourceFailure, SourceSettings } from './port.ts'

/**
 * Where Naver's open services are reached. Keys of the API hub and those of the older developers' centre go to different
 * hosts under different header names.
 */
export function naverHostOf({ credentials, baseUrl }: SourceSettings): {
  isHub: boolean
  origin: string
  headers: Record<string, string>
} {
  const { id = '', secret = '', host } = credentials
  const isHub = host !== 'open'
  const usual = isHub ? 'https://naverapihub.apigw.ntruss.com' : 'https://openapi.naver.com'
  return {
    isHub,
    origin: (baseUrl ?? usual).replace(/\/+$/, ''),
    headers: isHub
      ? { 'x-ncp-apigw-api-key-id': id, 'x-ncp-apigw-api-key': secret }
      : { 'x-naver-client-id': id, 'x-naver-client-secret': secret },
  }
}

type NaverBody = { readonly kind: 'body'; readonly body: Record<string, unknown> }

/** The body of a good answer, or why there is none. */
export function readNaver(answer: JsonAnswer): NaverBody | SourceFailure {
  const trouble = transportFailure(answer)
  if (trouble || answer.kind !== 'answered') return trouble ?? failed('unreachable')
  if (answer.status === 401 || answer.status === 403) return failed('credentials_refused', 'credentials')
  if (answer.status === 429) return limitFailure(answer.body)
  if (answer.status !== 200) return failed('request_refused')
  return { kind: 'body', body: isObject(answer.body) ? answer.body : {} }
}

/**
 * The hub numbers its limits: 400 is the day's, 410 and 420 are of speed. It says 429, too, of a service that the application
 * has not chosen. The older host knows the day's limit only.
 */
function limitFailure(body: unknown) {
  const error = isObject(body) && isObject(body['error']) ? body['error'] : undefined
  const isOfSpeed = error?.['errorCode'] === '410' || error?.['errorCode'] === '420'
  return isOfSpeed ? failed('throttled', 'rate') : failed('quota_exhausted', 'quota')
}

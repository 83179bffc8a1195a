import { createHmac } from 'node:crypto'
import { openFetchJson } from '../../platform/fetch-json.ts'
import { addDays, dayOf } from '../../platform/time.ts'
import { failed, isObject, largestAnswer, timeoutMs, transportFailure } from './answers.ts'
import type { ReportedVolume, Source, SourceSettings, VolumeAnswer } from './port.ts'

const path = '/keywordstool'

/**
 * How often people search on Naver, from the keyword tool of its advertising service. Its terms allow these numbers for
 * buying and running search ads only.
 */
export function openNaverSearchAd(settings: SourceSettings): Source {
  const { key = '', secret = '', customer = '' } = settings.credentials
  const origin = (settings.baseUrl ?? 'https://api.searchad.naver.com').replace(/\/+$/, '')
  const fetchJson = openFetchJson({ timeoutMs, maxAnswerBytes: largestAnswer })
  return {
    settings,
    ranks: undefined,
    volumes: {
      name: settings.name,
      tells: 'rolling_30d',
      mostPerCall: 5,
      spell: spellHint,
      async readVolumes(hints, now) {
        const timestamp = String(Date.now())
        const answer = await fetchJson({
          method: 'GET',
          url: `${origin}${path}?${new URLSearchParams({ hintKeywords: hints.join(','), showDetail: '1' })}`,
          headers: {
            'x-timestamp': timestamp,
            'x-api-key': key,
            // Copied ids carry characters that nobody sees.
            'x-customer': customer.replace(/\D/g, ''),
            'x-signature': signatureOf(secret, timestamp, 'GET', path),
          },
        })
        // A refusal may come with status 500 and a body of its own: outages are all tried again.
        const trouble = transportFailure(answer)
        if (trouble || answer.kind !== 'answered') return trouble ?? failed('unreachable')
        if (answer.status === 403) return refusalOf(answer.body)
        if (answer.status === 401) return failed('credentials_refused', 'credentials')
        if (answer.status === 429) return failed('throttled', 'rate')
        if (answer.status === 400) return failed('request_refused')
        if (answer.status !== 200) return failed('source_error')
        return readList(answer.body, hints, windowEnd(now))
      },
    },
    close: () => fetchJson.close(),
  }
}

/** The path without its query is signed; the secret looks like base64 and is used as the text it is. */
export function signatureOf(secret: string, timestamp: string, method: string, path: string): string {
  return createHmac('sha256', secret).update(`${timestamp}.${method}.${path}`).digest('base64')
}

/** A hint has no spaces and only some signs, and is shown in capitals. */
function spellHint(keyword: string): string | undefined {
  const hint = keyword.replace(/\s+/g, '').toUpperCase()
  return /^[\p{L}\p{N}"#&.=+%?!;_@()~'\\/]{1,100}$/u.test(hint) ? hint : undefined
}

/** The 30 days end with yesterday, by the clocks of Seoul. */
function windowEnd(now: Date): string {
  return addDays(dayOf(now, 'Asia/Seoul'), -1)
}

function refusalOf(body: unknown) {
  const type = isObject(body) ? String(body['type']) : ''
  // Our clock is off, which no other key would mend.
  return type.endsWith('invalid-timestamp')
    ? failed('clock_differs', 'credentials')
    : failed('credentials_refused', 'credentials')
}

function readList(body: unknown, hints: readonly string[], day: string): VolumeAnswer {
  const list = isObject(body) ? body['keywordList'] : undefined
  if (!Array.isArray(list)) return failed('unreadable_results', 'answer', { paid: true })
  const asked = new Set(hints)
  const volumes: ReportedVolume[] = []
  for (const row of list) {
    const keyword =
      isObject(row) && typeof row['relKeyword'] === 'string' ? spellHint(row['relKeyword']) : undefined
    // A thousand related words come along.
    if (keyword === undefined || !asked.delete(keyword)) continue
    const pc = readCount(row['monthlyPcQcCnt'])
    const mobile = readCount(row['monthlyMobileQcCnt'])
    if (!pc || !mobile) return failed('unreadable_results', 'answer', { paid: true })
    const isCensored = pc.isBelow || mobile.isBelow
    volumes.push({
      keyword,
      kind: 'rolling_30d',
      day,
      volume: isCensored ? null : pc.most + mobile.most,
      max: isCensored ? pc.most + mobile.most : null,
      pc: pc.isBelow ? null : pc.most,
      mobile: mobile.isBelow ? null : mobile.most,
    })
  }
  return { kind: 'volumes', volumes }
}

/** A number, `"1,234"` or `"< 10"`, which says no more than "at most 9". */
function readCount(value: unknown): { most: number; isBelow: boolean } | undefined {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0)
    return { most: value, isBelow: false }
  if (typeof value !== 'string') return undefined
  const below = /^<\s*([1-9]\d{0,8})$/.exec(value.trim())
  if (below) return { most: Number(below[1]) - 1, isBelow: true }
  const digits = value.trim().replaceAll(',', '')
  return /^\d{1,12}$/.test(digits) ? { most: Number(digits), isBelow: false } : undefined
}

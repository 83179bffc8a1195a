import { createHmac } from 'node:crypto'
import type { SourceContext, SourceReply, SourceRequest, SourceWire } from './source-sandbox.ts'

const path = '/keywordstool'
/** Every request is signed with this, whoever asks: `NAVER_SEARCHAD_SECRET=sandbox-secret`. */
export const searchadSecret = 'sandbox-secret'
const skewMs = 60_000

/** Naver's keyword tool: signed requests, counts by surface, `"< 10"`, and related words that nobody asked for. */
export const naverSearchadWire: SourceWire = {
  name: 'naver-searchad',
  tooFast: {
    status: 429,
    body: { code: 429, message: 'Too Many Requests' },
    headers: { connection: 'close' },
  },
  unavailable: { status: 500, body: { code: 1005, status: 500, title: 'Cannot handle the request.' } },
  answer(request, context) {
    if (request.method !== 'GET' || request.path !== path) return undefined
    const refusal = refusalOf(request)
    if (refusal) return refusal
    // Names are read as they are written: another case is another name, and no hint is no error.
    const hints = (request.query.get('hintKeywords') ?? '').split(',').filter((hint) => hint !== '')
    if (
      hints.some((hint) => /\s/.test(hint) || !/^[\p{L}\p{N}"#&.=+%?!;_@()~'\\/]+$/u.test(hint)) ||
      hints.length > 5
    )
      return { status: 400, body: invalidParameter }
    const list = hints.flatMap((hint) => (isUnknown(hint) ? [] : [row(hint, context)]))
    const related = hints.slice(0, 1).map((hint) => row(`${hint}추천`, context))
    const isRead = !context.strikes('unreadable')
    return {
      status: 200,
      body: { keywordList: isRead ? [...list, ...related] : null },
      paid: true,
      asks: hints.join(','),
      isGood: isRead,
      tells: list.map(({ relKeyword }) => relKeyword),
      headers: { 'x-transaction-id': 'SANDBOX' },
    }
  },
}

const invalidParameter = {
  title: 'Invalid Parameter',
  status: 'BAD_REQUEST',
  detail: 'There are invalid parameters',
  type: 'about:blank',
  parameters: [],
  instance: '',
}

/** Words that end so are never in an answer. */
function isUnknown(hint: string): boolean {
  return hint.endsWith('없음')
}

function refusalOf({ headers }: SourceRequest): SourceReply | undefined {
  const timestamp = headers['x-timestamp']?.toString() ?? ''
  const key = headers['x-api-key']?.toString() ?? ''
  const signature = headers['x-signature']?.toString() ?? ''
  const problem = (type: string, title: string, detail: string, more = {}) => ({
    status: 403,
    body: { timestamp, status: 403, type: `urn:naver:api:problem:${type}`, title, detail, ...more },
  })
  if (key === '' || /refused/.test(key))
    return problem('invalid-apikey', 'Invalid API-KEY', 'No such key.', { apikey: key })
  if (!(Math.abs(Date.now() - Number(timestamp)) <= skewMs))
    return problem('invalid-timestamp', 'Invalid Timestamp', 'Request has expired.')
  const expected = createHmac('sha256', searchadSecret).update(`${timestamp}.GET.${path}`).digest('base64')
  return signature === expected
    ? undefined
    : problem('invalid-signature', 'Invalid Signature', 'Signature is not valid.', { signature })
}

function row(hint: string, { web, day }: SourceContext) {
  const shown = (count: number) => (count < 10 ? '< 10' : count)
  const month = day().slice(0, 7)
  return {
    relKeyword: hint.toUpperCase(),
    monthlyPcQcCnt: shown(web.volume(hint, 'pc', month)),
    monthlyMobileQcCnt: shown(web.volume(hint, 'mobile', month)),
    monthlyAvePcClkCnt: 0.6,
    monthlyAveMobileClkCnt: 3.3,
    monthlyAvePcCtr: 0.03,
    monthlyAveMobileCtr: 0.08,
    plAvgDepth: 15,
    compIdx: '높음',
  }
}

import { createHash } from 'node:crypto'
import { addDays, dayOf } from '../../platform/time.ts'
import type { SourceContext, SourceReply, SourceRequest, SourceWire } from './source-sandbox.ts'

type Body = Record<string, unknown>

/** Google Search Console: a token for a signed claim, then the mean places of a site, of days that are final. */
export const searchConsoleWire: SourceWire = {
  name: 'search-console',
  tooFast: error(429, 'RESOURCE_EXHAUSTED', 'rateLimitExceeded'),
  unavailable: error(503, 'UNAVAILABLE', 'backendError'),
  answer(request, context) {
    if (request.method !== 'POST') return undefined
    const body = (typeof request.body === 'object' ? request.body : {}) as Body
    if (request.path === '/token') return grant(body)
    const site = /^\/webmasters\/v3\/sites\/([^/]+)\/searchAnalytics\/query$/.exec(request.path)?.[1]
    if (site === undefined) return undefined
    return refusalOf(request, decodeURIComponent(site)) ?? figures(decodeURIComponent(site), body, context)
  },
}

function error(status: number, name: string, reason: string): SourceReply {
  return {
    status,
    body: { error: { code: status, status: name, errors: [{ reason }], message: 'Made up.' } },
  }
}

/** The signature is the caller's own affair; what it claims must hold. An account with `refused` in its name has no key any more. */
function grant(body: Body): SourceReply {
  const [, claims = '', signature = ''] = String(body['assertion'] ?? '').split('.')
  const { iss, scope, aud, iat, exp } = parse(Buffer.from(claims, 'base64url').toString('utf8'))
  const now = Date.now() / 1000
  const isSound =
    body['grant_type'] === 'urn:ietf:params:oauth:grant-type:jwt-bearer' &&
    aud === 'https://oauth2.googleapis.com/token' &&
    scope === 'https://www.googleapis.com/auth/webmasters.readonly' &&
    Math.abs(Number(iat) - now) < 300 &&
    Number(exp) - Number(iat) <= 3600 &&
    signature.length > 300
  if (!isSound || /refused/.test(String(iss)))
    return { status: 400, body: { error: 'invalid_grant', error_description: 'Invalid JWT Signature.' } }
  return {
    status: 200,
    body: { access_token: `ya29.${String(iss)}`, expires_in: 3599, token_type: 'Bearer' },
  }
}

function parse(text: string): Body {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

function refusalOf({ headers }: SourceRequest, site: string): SourceReply | undefined {
  const token = /^Bearer ya29\.(.+)$/.exec(headers.authorization ?? '')?.[1]
  if (token === undefined) return error(401, 'UNAUTHENTICATED', 'authError')
  if (/empty/.test(token)) return error(403, 'PERMISSION_DENIED', 'quotaExceeded')
  if (/foreign/.test(site)) return error(403, 'PERMISSION_DENIED', 'forbidden')
  return undefined
}

// Three days after a day has ended where Google counts its days.
const daysUntilFinal = 4
const zone = 'America/Los_Angeles'

function figures(site: string, body: Body, { web, now, strikes }: SourceContext): SourceReply {
  const date = String(body['startDate'])
  const [dimension] = Array.isArray(body['dimensions']) ? body['dimensions'] : []
  if (!/^\d{4}-\d\d-\d\d$/.test(date) || date !== body['endDate'] || !['date', 'query'].includes(dimension))
    return error(400, 'INVALID_ARGUMENT', 'invalidParameter')
  const isFinal = date <= addDays(dayOf(now(), zone), -daysUntilFinal)
  const told = (rows: unknown[]): SourceReply => ({
    status: 200,
    isGood: true,
    body: { ...(rows.length > 0 && { rows }), responseAggregationType: 'byProperty' },
  })
  if (strikes('unreadable')) return { status: 200, body: { rows: [{ keys: [] }] } }
  if (!isFinal) return told([])
  if (dimension === 'date')
    return told([{ keys: [date], clicks: 9, impressions: 300, ctr: 0.03, position: 12.3 }])
  if (strikes('empty')) return told([])
  const filters = filtersIn(body)
  const keyword = filters.get('query') ?? ''
  const place = web
    .results({
      keyword,
      engine: 'google',
      device: (filters.get('device') ?? 'mobile').toLowerCase(),
      location: 'KR',
      day: date,
    })
    .findIndex((url) => isOf(url, site))
  // It knows queries in small letters only.
  if (keyword !== keyword.toLowerCase()) return told([])
  // What nobody saw is not told.
  if (place < 0 || place >= 100) return told([])
  const spread = createHash('sha256').update(`${keyword} ${date}`).digest()[0]! / 256
  const position = Math.round((place + 1 + spread) * 10) / 10
  return told([{ keys: [keyword.toLowerCase()], clicks: 1, impressions: 15, ctr: 0.07, position }])
}

function filtersIn(body: Body): Map<string, string> {
  const [group] = Array.isArray(body['dimensionFilterGroups']) ? body['dimensionFilterGroups'] : []
  const filters =
    (group as { filters?: { dimension: string; expression: string }[] } | undefined)?.filters ?? []
  return new Map(filters.map(({ dimension, expression }) => [dimension, expression]))
}

function isOf(url: string, site: string): boolean {
  if (!site.startsWith('sc-domain:')) return url.startsWith(site)
  const domain = site.slice('sc-domain:'.length)
  const { hostname } = new URL(url)
  return hostname === domain || hostname.endsWith(`.${domain}`)
}

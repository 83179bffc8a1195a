import { createSign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type JsonAnswer, openFetchJson } from '../../platform/fetch-json.ts'
import { cleanKeyword } from '../keywords/keyword.ts'
import { failed, isObject, largestAnswer, timeoutMs, transportFailure } from './answers.ts'
import {
  type MeanAsk,
  type MeanPlace,
  type Source,
  type SourceFailure,
  type SourceSettings,
  searchConsoleEngine,
} from './port.ts'

/**
 * Google Search Console: where the owner's own site was shown, as a mean over all searches of a day. It costs nothing, knows
 * no depth and tells only queries that enough people asked, so that silence about one means nothing.
 */
export function openSearchConsole(settings: SourceSettings): Source {
  const account = readAccount(settings.credentials['keyFile'] ?? '')
  const origin = (settings.baseUrl ?? 'https://searchconsole.googleapis.com').replace(/\/+$/, '')
  const fetchJson = openFetchJson({ timeoutMs, maxAnswerBytes: largestAnswer })
  const tokens = openTokens(account, settings.baseUrl, fetchJson)
  const finalDays = new Set<string>()
  const readings = new Map<string, Promise<boolean | SourceFailure>>()

  const query = async (
    ask: MeanAsk,
    fields: Record<string, unknown>,
  ): Promise<readonly Row[] | SourceFailure> => {
    const token = await tokens.get(Date.now())
    if (typeof token !== 'string') return token
    const answer = await fetchJson({
      method: 'POST',
      url: `${origin}/webmasters/v3/sites/${encodeURIComponent(propertyOf(ask))}/searchAnalytics/query`,
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({
        startDate: ask.day,
        endDate: ask.day,
        type: 'web',
        dataState: 'final',
        ...fields,
      }),
    })
    const rows = readRows(answer)
    if (!Array.isArray(rows) && (rows as SourceFailure).of === 'credentials') tokens.forget()
    return rows
  }

  /** A day without any row is not final yet; only then does a query without rows say something. */
  const readWhetherFinal = async (ask: MeanAsk, name: string): Promise<boolean | SourceFailure> => {
    const rows = await query(ask, { dimensions: ['date'] })
    if (!isRows(rows)) return rows
    if (rows.length === 0) return false
    if (finalDays.size >= 10_000) finalDays.clear()
    finalDays.add(name)
    return true
  }

  /**
   * Whoever asks at the same time waits for the same call: calls of their own would leave beside the rate. One that fails
   * is the failure of one check only, and the next in line asks again.
   */
  const isFinal = async (ask: MeanAsk): Promise<boolean | SourceFailure> => {
    const name = `${propertyOf(ask)} ${ask.day}`
    for (let underWay = readings.get(name); underWay; underWay = readings.get(name)) {
      const answer = await underWay
      if (typeof answer === 'boolean') return answer
    }
    if (finalDays.has(name)) return true
    const reading = readWhetherFinal(ask, name).finally(() => readings.delete(name))
    readings.set(name, reading)
    return reading
  }

  return {
    settings,
    ranks: {
      name: settings.name,
      engines: [searchConsoleEngine],
      devices: ['all', 'desktop', 'mobile', 'tablet'],
      locations: () => ({
        known: ['all', ...countries.keys()],
        has: (name) => countryOf(name) !== undefined,
      }),
      matches: ['domain', 'host', 'prefix'],
      deepest: () => 1000,
      callsFor: () => 0,
      async readMean(ask) {
        const final = await isFinal(ask)
        // The account was not added to this property, which says nothing about others.
        if (typeof final !== 'boolean')
          return final.reason === notShared ? { kind: 'unreported', reason: notShared } : final
        if (!final) return failed('not_final_yet', 'early')
        const rows = await query(ask, {
          dimensions: ['query'],
          dimensionFilterGroups: [{ filters: filtersOf(ask) }],
          rowLimit: 100,
        })
        return isRows(rows) ? meanOf(rows, ask.keyword) : rows
      },
    },
    volumes: undefined,
    close: () => fetchJson.close(),
  }
}

const notShared = 'site_not_shared'

type Account = { readonly email: string; readonly key: string }

/** The key file of a service account, as Google hands it out. */
export function readAccount(path: string): Account {
  const { client_email: email, private_key: key } = JSON.parse(readFileSync(path, 'utf8'))
  if (typeof email !== 'string' || typeof key !== 'string')
    throw new Error('This is no key of a service account.')
  // Pasted through a shell or a form, its line breaks come as two signs.
  return { email, key: key.replaceAll('\\n', '\n') }
}

const scope = 'https://www.googleapis.com/auth/webmasters.readonly'
const tokenUrl = 'https://oauth2.googleapis.com/token'

/** What the account claims of itself, as it is signed. */
export function claimsOf(email: string, now: Date): string {
  const iat = Math.floor(now.getTime() / 1000)
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { iss: email, scope, aud: tokenUrl, iat, exp: iat + 3600 }
  return `${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}`
}

function openTokens(
  account: Account,
  baseUrl: string | undefined,
  fetchJson: ReturnType<typeof openFetchJson>,
) {
  const url = baseUrl === undefined ? tokenUrl : `${baseUrl.replace(/\/+$/, '')}/token`
  let held: { token: string; until: number } | undefined
  let asking: Promise<string | SourceFailure> | undefined

  const ask = async (now: number): Promise<string | SourceFailure> => {
    const claims = claimsOf(account.email, new Date(now))
    const assertion = `${claims}.${createSign('RSA-SHA256').update(claims).sign(account.key, 'base64url')}`
    const body = new URLSearchParams({ grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion })
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const answer = await fetchJson({ method: 'POST', url, headers, body: body.toString() })
    const trouble = transportFailure(answer)
    if (trouble || answer.kind !== 'answered') return failed((trouble ?? failed('unreachable')).reason)
    const { access_token: token, expires_in: seconds } = isObject(answer.body) ? answer.body : {}
    // `invalid_grant` is a revoked key, or a clock that is off.
    if (answer.status !== 200 || typeof token !== 'string')
      return failed('credentials_refused', 'credentials')
    held = { token, until: now + (Number(seconds) || 60) * 1000 - 60_000 }
    return token
  }
  return {
    /** One at a time asks for a new one; the others wait for it. */
    async get(now: number): Promise<string | SourceFailure> {
      if (held && now < held.until) return held.token
      asking ??= ask(now).finally(() => {
        asking = undefined
      })
      return asking
    },
    forget() {
      held = undefined
    },
  }
}

/** Properties are whole domains, or addresses that everything under them belongs to. */
function propertyOf({ site, match }: MeanAsk): string {
  if (match === 'domain') return `sc-domain:${site}`
  const address = /^https?:/.test(site) ? site : `https://${site}`
  return address.endsWith('/') ? address : `${address}/`
}

const countries: ReadonlyMap<string, string> = new Map(
  Object.entries({
    AU: 'aus',
    BR: 'bra',
    CA: 'can',
    DE: 'deu',
    ES: 'esp',
    FR: 'fra',
    GB: 'gbr',
    HK: 'hkg',
    ID: 'idn',
    IN: 'ind',
    IT: 'ita',
    JP: 'jpn',
    KR: 'kor',
    SG: 'sgp',
    TH: 'tha',
    TW: 'twn',
    US: 'usa',
    VN: 'vnm',
  }),
)

/** Countries have three letters there. */
function countryOf(location: string): string | undefined {
  return location === 'all' || /^[a-z]{3}$/.test(location) ? location : countries.get(location.toUpperCase())
}

function filtersOf({ keyword, device, location }: MeanAsk) {
  const equals = (dimension: string, expression: string) => ({ dimension, operator: 'equals', expression })
  return [
    // Queries are told in small letters, whatever people typed, and compared sign by sign.
    equals('query', keyword.normalize('NFC').toLowerCase()),
    ...(device === 'all' ? [] : [equals('device', device.toUpperCase())]),
    ...(location === 'all' ? [] : [equals('country', countryOf(location)!)]),
  ]
}

type Row = { readonly keys: readonly unknown[]; readonly impressions: number; readonly position: number }

function isRows(rows: readonly Row[] | SourceFailure | boolean): rows is readonly Row[] {
  return Array.isArray(rows)
}

function readRows(answer: JsonAnswer): readonly Row[] | SourceFailure {
  const trouble = transportFailure(answer)
  if (trouble || answer.kind !== 'answered') return trouble ?? failed('unreachable')
  const body = isObject(answer.body) ? answer.body : {}
  if (answer.status === 401) return failed('credentials_refused', 'credentials')
  if (answer.status === 403 || answer.status === 429) return refusalOf(body)
  if (answer.status !== 200) return failed('request_refused')
  // Where there is nothing to tell, the list is left out altogether.
  const { rows = [] } = body
  if (!Array.isArray(rows) || !rows.every(isRow)) return failed('unreadable_results')
  return rows
}

function isRow(row: unknown): row is Row {
  return (
    isObject(row) &&
    Array.isArray(row['keys']) &&
    typeof row['impressions'] === 'number' &&
    typeof row['position'] === 'number' &&
    row['position'] >= 1
  )
}

/** One status for three troubles; the reason inside tells them apart. */
function refusalOf(body: Record<string, unknown>): SourceFailure {
  const error = isObject(body['error']) ? body['error'] : {}
  const words = JSON.stringify(error)
  if (/dailyLimitExceeded|quotaExceeded/.test(words)) return failed('quota_exhausted', 'quota')
  if (/rateLimitExceeded|userRateLimitExceeded|RESOURCE_EXHAUSTED/.test(words))
    return failed('throttled', 'rate')
  return failed(notShared)
}

/** Spellings that are one keyword here may be several queries there: their mean is weighted by how often each was shown. */
function meanOf(rows: readonly Row[], keyword: string): MeanPlace {
  const own = rows.filter(({ keys: [query] }) => keyOf(query) === keyOf(keyword))
  const shown = own.reduce((sum, { impressions }) => sum + impressions, 0)
  if (shown === 0) return { kind: 'unreported', reason: 'not_shown' }
  const sum = own.reduce((total, { impressions, position }) => total + impressions * position, 0)
  return { kind: 'mean', position: Math.round((sum / shown) * 100) / 100 }
}

function keyOf(text: unknown): string | undefined {
  const keyword = cleanKeyword(text)
  return keyword.refusal === undefined ? keyword.key : undefined
}

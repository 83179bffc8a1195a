import { keyTrouble, naverKeysOf, notChosen, quotaReply } from './naver-keys.ts'
import type { SourceContext, SourceReply, SourceRequest } from './source-sandbox.ts'
import type { Web } from './web.ts'

const hubPath = '/search-trend/v1/search'
const openPath = '/v1/datalab/search'
const mostPerDay = 1_000

export function isTrend({ method, path }: SourceRequest): boolean {
  return method === 'POST' && (path === hubPath || path === openPath)
}

/** The course of up to five groups of keywords, all on one scale. An id with `unchosen` has not chosen this service. */
export function answerTrend(request: SourceRequest, context: SourceContext): SourceReply {
  const isHub = request.path === hubPath
  const keys = naverKeysOf(request, isHub)
  const trouble = keyTrouble(keys, isHub)
  if (trouble) return trouble
  if (/unchosen/.test(keys.id)) return notChosen(isHub)
  const ask = readAsk(request.body)
  if (!ask) return isHub ? hubInvalid : openInvalid
  if (!withinQuota(context, keys.id)) return quotaReply(isHub)
  const { startDate, endDate, timeUnit, keywordGroups } = ask
  const told = { startDate, endDate, timeUnit }
  if (context.strikes('unreadable')) return { status: 200, paid: true, body: { ...told, results: null } }
  const results = context.strikes('empty')
    ? keywordGroups.map(({ groupName, keywords }) => ({ title: groupName, keywords, data: [] }))
    : courses(context.web, ask)
  const asks = JSON.stringify([startDate, endDate, timeUnit, keywordGroups])
  const tells = keywordGroups.map(({ keywords }) => [endDate, ...keywords].join('\t'))
  return { status: 200, paid: true, isGood: true, asks, tells, body: { ...told, results } }
}

const hubInvalid = { status: 400, body: { error: { errorCode: '100', message: 'Bad Request Exception' } } }
const openInvalid = { status: 400, body: { errorMessage: 'Invalid request', errorCode: '400' } }

/** Searches of a period below this are not told. */
const leastTold = 20

function courses(web: Web, { startDate, endDate, timeUnit, keywordGroups }: TrendAsk) {
  const periods = periodsOf(startDate, endDate, timeUnit)
  const searched = keywordGroups.map(({ keywords }) =>
    periods.map((period) => keywords.reduce((sum, one) => sum + searchesIn(web, one, period), 0)),
  )
  const highest = Math.max(...searched.flat().filter((count) => count >= leastTold))
  return keywordGroups.map(({ groupName, keywords }, group) => ({
    title: groupName,
    keywords,
    data: periods.flatMap((period, at) => {
      const count = searched[group]![at]!
      return count < leastTold ? [] : [{ period, ratio: Math.round((count / highest) * 1e7) / 1e5 }]
    }),
  }))
}

function searchesIn(web: Web, keyword: string, period: string): number {
  const month = period.slice(0, 7)
  return web.volume(keyword, 'pc', month) + web.volume(keyword, 'mobile', month)
}

type TrendAsk = {
  readonly startDate: string
  readonly endDate: string
  readonly timeUnit: string
  readonly keywordGroups: readonly { readonly groupName: string; readonly keywords: readonly string[] }[]
}

/** Undefined: refused. What need not be given must be left out; null is no value for it. */
function readAsk(body: unknown): TrendAsk | undefined {
  const { startDate, endDate, timeUnit, keywordGroups, device, gender, ages, ...more } = objectOf(body)
  const isSpan = isDay(startDate) && isDay(endDate) && startDate >= '2016-01-01' && startDate <= endDate
  const isUnit = timeUnit === 'date' || timeUnit === 'week' || timeUnit === 'month'
  if (!isSpan || !isUnit || Object.keys(more).length > 0) return undefined
  if (!isList(keywordGroups, 5) || !keywordGroups.every(isGroup)) return undefined
  if (device !== undefined && device !== 'pc' && device !== 'mo') return undefined
  if (gender !== undefined && gender !== 'm' && gender !== 'f') return undefined
  if (ages !== undefined && !(isList(ages, 11) && ages.every((age) => /^([1-9]|1[01])$/.test(String(age)))))
    return undefined
  return { startDate, endDate, timeUnit, keywordGroups }
}

function isGroup(value: unknown): value is TrendAsk['keywordGroups'][number] {
  const { groupName, keywords } = objectOf(value)
  return isText(groupName) && isList(keywords, 20) && keywords.every(isText)
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== ''
}

function isList(value: unknown, most: number): value is unknown[] {
  return Array.isArray(value) && value.length > 0 && value.length <= most
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function isDay(value: unknown): value is string {
  return typeof value === 'string' && !Number.isNaN(Date.parse(`${value}T00:00:00Z`)) && value.length === 10
}

const msPerDay = 86_400_000

/** The first day of each day, week (from Monday) or month that the span touches. */
function periodsOf(from: string, to: string, unit: string): string[] {
  const first = new Date(`${from}T00:00:00Z`)
  if (unit === 'week') first.setUTCDate(first.getUTCDate() - ((first.getUTCDay() + 6) % 7))
  if (unit === 'month') first.setUTCDate(1)
  const periods: string[] = []
  for (let at = first; at <= new Date(`${to}T00:00:00Z`); ) {
    periods.push(at.toISOString().slice(0, 10))
    at =
      unit === 'month'
        ? new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1))
        : new Date(at.getTime() + (unit === 'week' ? 7 : 1) * msPerDay)
  }
  return periods
}

/** How often each id has asked today, by simulator. */
const asked = new WeakMap<SourceContext, { day: string; calls: Map<string, number> }>()

function withinQuota(context: SourceContext, id: string): boolean {
  const day = context.day()
  const known = asked.get(context)
  const today = known?.day === day ? known : { day, calls: new Map<string, number>() }
  asked.set(context, today)
  const calls = (today.calls.get(id) ?? 0) + 1
  today.calls.set(id, calls)
  return calls <= mostPerDay
}

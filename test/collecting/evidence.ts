import type pg from 'pg'
import { trendMonthOn, volumeMonthOn } from '../../src/batch/sources/port.ts'
import type { SourceBook } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'
import type { AskedMonthly, Played, Tracked } from './stage.ts'

/** What a campaign left behind, in numbers: of the service's own books and of the simulators'. */
export type Evidence = {
  readonly keywords: number
  readonly days: number
  /** How often a check can be tried before its day ends. */
  readonly tries: number
  readonly sources: readonly SourceEvidence[]
  readonly monthly: readonly MonthlyEvidence[]
  readonly kills: number
  readonly restarts: number
  /** The longest that this process, and the simulators in it, stood still. */
  readonly longestStallMs: number
  readonly training: {
    readonly status: string
    readonly error: string | null
    readonly modelId: string | null
  }
}

/** What was used of a source, by both books. */
export type Usage = {
  readonly source: string
  readonly ratePerSecond: number
  readonly budgetPerDay: number
  readonly failing: number
  readonly spent: number
  readonly mostSpentInADay: number
  readonly reserved: number
  readonly lost: number
  readonly book: Book
  /** Calls at each host it was reached at, in the order of the days. */
  readonly callsByHost: readonly number[]
}

type Book = Pick<
  SourceBook,
  | 'paid'
  | 'paidAgain'
  | 'toldAgain'
  | 'paidByDay'
  | 'mostInASecond'
  | 'mostInAMinute'
  | 'throttled'
  | 'struck'
  | 'calls'
>

export type SourceEvidence = Usage & {
  /** How many keywords its tracker has. */
  readonly keywords: number
  readonly checksPerCall: number
  /** Rows by day, and how many keywords they are about. */
  readonly rowsByDay: Readonly<Record<string, { readonly rows: number; readonly keywords: number }>>
  readonly failedByReason: Readonly<Record<string, number>>
  readonly failedWithoutReason: number
  /** Days on which checks failed for want of a budget that was not used up. */
  readonly stingyDays: readonly string[]
  /** Rows that tell another place than the web showed on their day. */
  readonly untrue: readonly string[]
  /** Checks of the campaign's days that are neither done nor failed. */
  readonly openChecks: number
  /** Checks that were in the hands of workers when they were killed. */
  readonly orphaned: number
  /** Checks that were due when their day's last stop ended, while the source was left alone. */
  readonly keptBack: number
}

export type MonthlyEvidence = Usage & {
  readonly tells: 'volumes' | 'trends'
  readonly keywordsPerCall: number
  readonly month: string
  /** Keywords by what became of them. */
  readonly checks: Readonly<Record<string, number>>
  readonly failedWithoutReason: number
  /** Keywords that count as done and of which nothing is stored. */
  readonly doneInVain: number
}

export const workspace = 'campaign'

/** What was seen of each source while the campaign went on. */
export type Watched = { readonly orphaned: Map<string, number>; readonly keptBack: Map<string, number> }

export async function readSourceEvidence(
  db: pg.Pool,
  tracked: Tracked,
  { keywords, days, watched }: { keywords: number; days: { first: string; last: string }; watched: Watched },
): Promise<SourceEvidence> {
  const { source, engine, device, location, daysBack } = tracked
  const told = { first: dayBefore(days.first, daysBack), last: dayBefore(days.last, daysBack) }
  const ofRows = [workspace, engine, device, location, told.first, told.last]
  const where = `workspace_id = $1 and engine = $2 and device = $3 and location = $4 and day between $5 and $6`
  const byDay = await db.query<{ day: string; rows: number; keywords: number; broke: number }>(
    `select day::text, count(*)::int as rows, count(distinct keyword_id)::int as keywords,
            count(*) filter (where reason = 'budget_exhausted')::int as broke
     from batch.rank where ${where} group by day order by day`,
    ofRows,
  )
  const reasons = await db.query<{ reason: string | null; count: number }>(
    `select reason, count(*)::int as count from batch.rank where ${where} and status = 'failed' group by reason`,
    ofRows,
  )
  const open = await db.query<{ count: number }>(
    `select count(*)::int as count from batch.rank_check
     where workspace_id = $1 and source = $2 and day between $3 and $4 and status in ('due', 'asked', 'ordered')`,
    [workspace, source, days.first, days.last],
  )
  const usage = await readUsage(db, tracked)
  const spentOn = await spendingByDay(db, source)
  return {
    ...usage,
    keywords: tracked.keywords?.length ?? keywords,
    checksPerCall: tracked.checksPerCall,
    rowsByDay: Object.fromEntries(
      byDay.rows.map(({ day, rows, keywords }) => [dayBefore(day, -daysBack), { rows, keywords }]),
    ),
    failedByReason: Object.fromEntries(
      reasons.rows.flatMap(({ reason, count }) => (reason === null ? [] : [[reason, count]])),
    ),
    failedWithoutReason: reasons.rows.find(({ reason }) => reason === null)?.count ?? 0,
    stingyDays: byDay.rows.flatMap(({ day, broke }) => {
      const spent = spentOn.get(dayBefore(day, -daysBack)) ?? 0
      return broke > 0 && spent < usage.budgetPerDay ? [`${day}: ${spent}`] : []
    }),
    untrue: await listUntrue(db, tracked, ofRows, where),
    openChecks: open.rows[0]!.count,
    orphaned: watched.orphaned.get(source) ?? 0,
    keptBack: watched.keptBack.get(source) ?? 0,
  }
}

export async function readMonthlyEvidence(
  db: pg.Pool,
  asked: AskedMonthly,
  lastDay: string,
): Promise<MonthlyEvidence> {
  const { source, tells, keywordsPerCall } = asked
  const kind = source === 'naver_searchad' ? 'rolling_30d' : 'month'
  const month = tells === 'trends' ? trendMonthOn(lastDay) : volumeMonthOn(lastDay, kind)
  const stored = tells === 'trends' ? 'batch.keyword_trend' : 'batch.volume_observation'
  const checks = await db.query<{ status: string; count: number; bare: number; done: string[] | null }>(
    `select status, count(*)::int as count,
            count(*) filter (where status = 'failed' and reason is null)::int as bare,
            array_agg(key) filter (where status = 'done') as done
     from batch.volume_check where source = $1 and month = $2 group by status`,
    [source, month],
  )
  const done = checks.rows.flatMap((row) => row.done ?? [])
  // A query of its own: on a cluster the checks lie on the coordinator, and what was told is spread over the nodes.
  const told = await db.query<{ count: number }>(
    `select count(distinct key)::int as count from ${stored} where source = $1 and key = any ($2)`,
    [source, done],
  )
  return {
    ...(await readUsage(db, asked)),
    tells,
    keywordsPerCall,
    month,
    checks: Object.fromEntries(checks.rows.map(({ status, count }) => [status, count])),
    failedWithoutReason: checks.rows.reduce((sum, { bare }) => sum + bare, 0),
    doneInVain: new Set(done).size - told.rows[0]!.count,
  }
}

async function readUsage(
  db: pg.Pool,
  { source, sandboxes, ratePerSecond, budgetPerDay, failing }: Played,
): Promise<Usage> {
  const spending = await db.query<{ spent: number; most: number; reserved: number; lost: number }>(
    `select coalesce(sum(spent), 0)::int as spent, coalesce(max(spent + reserved), 0)::int as most,
            coalesce(sum(reserved), 0)::int as reserved, coalesce(sum(lost), 0)::int as lost
     from batch.source_spending where source = $1 and scope = ''`,
    [source],
  )
  const { spent, most, reserved, lost } = spending.rows[0]!
  const books = sandboxes.map(({ book }) => book)
  return {
    source,
    ratePerSecond,
    budgetPerDay,
    failing,
    spent,
    mostSpentInADay: most,
    reserved,
    lost,
    book: books.map(bookOf).reduce(added),
    callsByHost: books.map(({ calls }) => calls),
  }
}

function bookOf(book: SourceBook): Book {
  const { paid, paidAgain, toldAgain, mostInASecond, mostInAMinute, throttled, calls } = book
  const copied = { paidByDay: { ...book.paidByDay }, struck: { ...book.struck } }
  return { paid, paidAgain, toldAgain, mostInASecond, mostInAMinute, throttled, calls, ...copied }
}

/** Two hosts of one source are never asked at the same time. */
function added(one: Book, other: Book): Book {
  return {
    paid: one.paid + other.paid,
    paidAgain: one.paidAgain + other.paidAgain,
    toldAgain: one.toldAgain + other.toldAgain,
    throttled: one.throttled + other.throttled,
    calls: one.calls + other.calls,
    mostInASecond: Math.max(one.mostInASecond, other.mostInASecond),
    mostInAMinute: Math.max(one.mostInAMinute, other.mostInAMinute),
    paidByDay: addedByName(one.paidByDay, other.paidByDay),
    struck: addedByName(one.struck, other.struck),
  }
}

function addedByName(one: Readonly<Record<string, number>>, other: Readonly<Record<string, number>>) {
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])]
  return Object.fromEntries(names.map((name) => [name, (one[name] ?? 0) + (other[name] ?? 0)]))
}

async function spendingByDay(db: pg.Pool, source: string): Promise<Map<string, number>> {
  const { rows } = await db.query<{ day: string; spent: number }>(
    `select day::text, spent from batch.source_spending where source = $1 and scope = ''`,
    [source],
  )
  return new Map(rows.map(({ day, spent }) => [day, spent]))
}

// All of a long campaign would take an hour; these are drawn by a hash, the same for everybody.
const mostCompared = 5_000

/** A row that is not failed tells what the web showed on its day, whatever went wrong meanwhile; and one that says "not shown" does so rightly. */
async function listUntrue(
  db: pg.Pool,
  { web: shown, location }: Tracked,
  ofRows: readonly string[],
  where: string,
): Promise<string[]> {
  const { rows } = await db.query<{
    keyword: string
    day: string
    position: number | null
    reason: string | null
  }>(
    `select k.display as keyword, r.day::text, r.position, r.reason
     from (select * from batch.rank where ${where} and (status <> 'failed' or reason = 'not_shown')
           order by md5(keyword_id || ' ' || day) limit ${mostCompared}) r
     join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id`,
    [...ofRows],
  )
  const web = openWeb('web')
  return rows.flatMap(({ keyword, day, position, reason }) => {
    const results = web.results({ keyword, engine: shown.engine, device: shown.device, location, day })
    const at = results
      .slice(0, shown.isMean ? 100 : 10)
      .findIndex((url) => /\/\/([a-z]+\.)?example\.com\//.test(url))
    const place = at < 0 ? null : at + 1
    // A mean lies up to one place behind.
    const isTrue =
      shown.isMean && place !== null && position !== null
        ? position === place || position === place + 1
        : place === position
    return isTrue ? [] : [`${keyword} on ${day}: ${position ?? reason}, not ${place}`]
  })
}

function dayBefore(day: string, count: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) - count * 86_400_000).toISOString().slice(0, 10)
}

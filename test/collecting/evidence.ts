import type pg from 'pg'
import type { SourceBook } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'
import type { Tracked } from './stage.ts'

/** What a campaign left behind, in numbers: of the service's own books and of the simulators'. */
export type Evidence = {
  readonly keywords: number
  readonly days: number
  readonly sources: readonly SourceEvidence[]
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

export type SourceEvidence = {
  readonly source: string
  readonly ratePerSecond: number
  readonly budgetPerDay: number
  /** Rows by day, and how many keywords they are about. */
  readonly rowsByDay: Readonly<Record<string, { readonly rows: number; readonly keywords: number }>>
  readonly failed: number
  readonly failedWithoutReason: number
  /** Rows that tell another place than the web showed on their day. */
  readonly untrue: readonly string[]
  /** Checks of the campaign's days that are neither done nor failed. */
  readonly openChecks: number
  readonly spent: number
  readonly mostSpentInADay: number
  readonly reserved: number
  readonly lost: number
  readonly book: Pick<SourceBook, 'paid' | 'paidAgain' | 'paidByDay' | 'mostInASecond' | 'calls'>
}

export const workspace = 'campaign'

export async function readSourceEvidence(
  db: pg.Pool,
  tracked: Tracked,
  days: { first: string; last: string },
): Promise<SourceEvidence> {
  const { source, sandbox, engine, device, ratePerSecond, budgetPerDay, daysBack } = tracked
  const told = { first: dayBefore(days.first, daysBack), last: dayBefore(days.last, daysBack) }
  const ofRows = [workspace, engine, device, told.first, told.last]
  const where = `workspace_id = $1 and engine = $2 and device = $3 and day between $4 and $5`
  const byDay = await db.query<{ day: string; rows: number; keywords: number }>(
    `select day::text, count(*)::int as rows, count(distinct keyword_id)::int as keywords
     from batch.rank where ${where} group by day order by day`,
    ofRows,
  )
  const counts = await db.query<{ failed: number; bare: number }>(
    `select count(*) filter (where status = 'failed')::int as failed,
            count(*) filter (where status = 'failed' and reason is null)::int as bare
     from batch.rank where ${where}`,
    ofRows,
  )
  const open = await db.query<{ count: number }>(
    `select count(*)::int as count from batch.rank_check
     where workspace_id = $1 and source = $2 and day between $3 and $4 and status in ('due', 'asked', 'ordered')`,
    [workspace, source, days.first, days.last],
  )
  const spending = await db.query<{ spent: number; most: number; reserved: number; lost: number }>(
    `select coalesce(sum(spent), 0)::int as spent, coalesce(max(spent + reserved), 0)::int as most,
            coalesce(sum(reserved), 0)::int as reserved, coalesce(sum(lost), 0)::int as lost
     from batch.source_spending where source = $1 and scope = ''`,
    [source],
  )
  const { paid, paidAgain, paidByDay, mostInASecond, calls } = sandbox.book
  return {
    source,
    ratePerSecond,
    budgetPerDay,
    rowsByDay: Object.fromEntries(
      byDay.rows.map(({ day, rows, keywords }) => [dayBefore(day, -daysBack), { rows, keywords }]),
    ),
    failed: counts.rows[0]!.failed,
    failedWithoutReason: counts.rows[0]!.bare,
    untrue: await listUntrue(db, tracked, ofRows, where),
    openChecks: open.rows[0]!.count,
    spent: spending.rows[0]!.spent,
    mostSpentInADay: spending.rows[0]!.most,
    reserved: spending.rows[0]!.reserved,
    lost: spending.rows[0]!.lost,
    book: { paid, paidAgain, paidByDay: { ...paidByDay }, mostInASecond, calls },
  }
}

// All of a long campaign would take an hour; these are drawn by a hash, the same for everybody.
const mostCompared = 5_000

/** A row that is not failed tells what the web showed on its day, whatever went wrong meanwhile. */
async function listUntrue(
  db: pg.Pool,
  { web: shown }: Tracked,
  ofRows: readonly string[],
  where: string,
): Promise<string[]> {
  if (!shown) return []
  const { rows } = await db.query<{ keyword: string; day: string; position: number | null }>(
    `select k.display as keyword, r.day::text, r.position
     from (select * from batch.rank where ${where} and status <> 'failed'
           order by md5(keyword_id || ' ' || day) limit ${mostCompared}) r
     join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id`,
    [...ofRows],
  )
  const web = openWeb('web')
  return rows.flatMap(({ keyword, day, position }) => {
    const results = web.results({ keyword, ...shown, location: 'KR', day }).slice(0, 10)
    const at = results.findIndex((url) => /\/\/([a-z]+\.)?example\.com\//.test(url))
    const place = at < 0 ? null : at + 1
    return place === position ? [] : [`${keyword} on ${day}: ${position}, not ${place}`]
  })
}

function dayBefore(day: string, count: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) - count * 86_400_000).toISOString().slice(0, 10)
}

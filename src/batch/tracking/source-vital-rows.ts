import { sql } from 'kysely'
import { dayOf } from '../../platform/time.ts'
import type { BatchApp, BatchDb } from '../app.ts'
import { type SourceState, withFirstOfEachSource } from './source-rows.ts'

/** How a source fares, in numbers for those who watch it. */
export type SourceVitals = {
  readonly source: string
  readonly state: SourceState['state']
  readonly spentToday: number
  readonly lostToday: number
  readonly budgetPerDay: number
  /** Of the calls that its breaker judges by. */
  readonly recentGood: number
  readonly recentFailed: number
  /** Until its next check; below zero: it is overdue. Null: none is planned. */
  readonly nextCheckSeconds: number | null
}

/** The vitals of every source that is set up here. */
export async function readSourceVitals(app: BatchApp): Promise<SourceVitals[]> {
  const now = app.clock()
  const names = [...app.sources.keys()]
  if (names.length === 0) return []
  const nextChecks = await listNextChecks(app.db, names)
  const { rows } = await sql<Omit<SourceVitals, 'budgetPerDay' | 'nextCheckSeconds'>>`
    select n.name as source, coalesce(s.state, 'ready') as state, coalesce(p.spent, 0) as "spentToday",
           coalesce(p.lost, 0) as "lostToday", coalesce(s.recent_good, 0) as "recentGood",
           coalesce(s.recent_failed, 0) as "recentFailed"
    from unnest(${names}::text[]) as n (name)
    left join batch.source s on s.name = n.name
    left join batch.source_spending p on p.source = n.name and p.day = ${dayOf(now, app.timeZone)} and p.scope = ''
    order by n.name`.execute(app.db)
  return rows.map((row) => {
    const next = nextChecks.get(row.source)
    return {
      ...row,
      budgetPerDay: app.sources.get(row.source as never)!.settings.budgetPerDay,
      nextCheckSeconds: next ? (next.getTime() - now.getTime()) / 1000 : null,
    }
  })
}

/** When each of these sources is next to be asked for ranks. What is planned comes first; else the next window that opens. */
export async function listNextChecks(db: BatchDb, names: readonly string[]): Promise<Map<string, Date>> {
  const { rows } = await sql<{ source: string; at: Date | null }>`
    ${withFirstOfEachSource(sql`batch.tracker`, sql`next_plan_at`)}
    select n.name as source, coalesce(
      (select c.due_at from batch.rank_check c where c.source = n.name and c.status = 'due' order by c.due_at limit 1),
      (select f.at from first f where f.source = n.name)) as at
    from unnest(${[...names]}::text[]) as n (name)`.execute(db)
  return new Map(rows.flatMap(({ source, at }) => (at ? [[source, at] as const] : [])))
}

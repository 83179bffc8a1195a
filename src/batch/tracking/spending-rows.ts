import { sql } from 'kysely'
import { addDays, type Day } from '../../platform/time.ts'
import type { BatchDb, BatchTx } from '../app.ts'
import { installationScope, trackerScope, workspaceScope } from './tracker-rows.ts'

export type Spending = { readonly scope: string; readonly used: number; readonly spent: number }

/** What was spent and set aside on a day, for some of its scopes. */
export async function listSpending(
  db: BatchDb | BatchTx,
  source: string,
  day: Day,
  scopes: readonly string[],
): Promise<Map<string, Spending>> {
  const { rows } = await sql<Spending>`
    select scope, reserved + spent as used, spent from batch.source_spending
    where source = ${source} and day = ${day} and scope = any (${[...scopes]}::text[])`.execute(db)
  return new Map(rows.map((row) => [row.scope, row]))
}

/** What was spent of every source on a day, in one scope. */
export async function listSpendingOf(
  db: BatchDb,
  day: Day,
  scope: string,
): Promise<Map<string, { spent: number; lost: number }>> {
  const { rows } = await sql<{ source: string; spent: number; lost: number }>`
    select source, spent, lost from batch.source_spending
    where day = ${day} and scope = ${scope} order by source limit 100`.execute(db)
  return new Map(rows.map((row) => [row.source, row]))
}

/** Books calls against everybody whose budget they count for; what is set aside may also go down. */
export async function bookCalls(
  tx: BatchTx,
  source: string,
  day: Day,
  calls: readonly { scope: string; reserved: number; spent: number }[],
): Promise<void> {
  if (calls.length === 0) return
  const sorted = [...calls].sort((a, b) => (a.scope < b.scope ? -1 : 1))
  const scopes = sorted.map(({ scope }) => scope)
  await sql`
    insert into batch.source_spending (source, day, scope)
    select ${source}, ${day}, scope from unnest(${scopes}::text[]) as scope
    on conflict do nothing`.execute(tx)
  await sql`
    update batch.source_spending p set reserved = p.reserved + g.reserved, spent = p.spent + g.spent
    from unnest(${scopes}::text[], ${sorted.map(({ reserved }) => reserved)}::int[],
                ${sorted.map(({ spent }) => spent)}::int[]) as g (scope, reserved, spent)
    where p.source = ${source} and p.day = ${day} and p.scope = g.scope`.execute(tx)
}

/** The scopes that a tracker's calls count for. */
export function scopesOf({ workspaceId, trackerId }: { workspaceId: string; trackerId: string }): string[] {
  return [installationScope, workspaceScope(workspaceId), trackerScope(workspaceId, trackerId)]
}

// Budgets are of one day; a year of spending, and some more, is there to be compared.
const keptDays = 400

export async function forgetOldSpending(tx: BatchTx, today: Day): Promise<void> {
  // Sources are named one by one, so that the primary key finds what is old.
  await sql`
    delete from batch.source_spending
    where source in (select name from batch.source) and day < ${addDays(today, -keptDays)}`.execute(tx)
}

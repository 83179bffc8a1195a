import { sql } from 'kysely'
import type { BatchDb } from '../app.ts'

const mostCounted = 1_000_000

/** Registered keywords of a workspace, or of all; no further than a million is counted. */
export async function countKeywords(db: BatchDb, workspaceId: string | undefined): Promise<number> {
  const ofOne = workspaceId === undefined ? sql`` : sql`and workspace_id = ${workspaceId}`
  const found = await sql<{ n: number }>`
    select count(*)::int as n from (
      select from batch.keyword where removed_at is null ${ofOne} limit ${mostCounted}) k`.execute(db)
  return found.rows[0]!.n
}

/** The first workspaces by name, each found by one step of the index. */
export async function listWorkspaces(db: BatchDb, limit: number): Promise<string[]> {
  const found = await sql<{ id: string }>`
    with recursive found (id) as (
      (select workspace_id from batch.keyword order by workspace_id limit 1)
      union all
      select (select k.workspace_id from batch.keyword k where k.workspace_id > found.id order by k.workspace_id limit 1)
      from found where found.id is not null
    )
    select id from found where id is not null limit ${limit}`.execute(db)
  return found.rows.map(({ id }) => id)
}

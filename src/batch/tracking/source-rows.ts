import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import type { BatchDb, BatchTx } from '../app.ts'
import type { SourceSettings } from '../sources/port.ts'

export type SourceState = {
  readonly state: 'ready' | 'resting' | 'refused'
  readonly until: Date | null
  readonly throttles: number
  readonly recentGood: number
  readonly recentFailed: number
  readonly lastError: string | null
  readonly lastErrorAt: Date | null
}

/** Sees to it that a source has its row. New credentials end a refusal of the old ones. */
export async function openSourceRow(db: BatchDb, { name, credentials }: SourceSettings): Promise<void> {
  const hash = createHash('sha256').update(JSON.stringify(credentials)).digest('hex').slice(0, 32)
  await sql`
    insert into batch.source as s (name, credentials) values (${name}, ${hash})
    on conflict (name) do update
      set credentials = excluded.credentials,
          state = case when s.state = 'refused' then 'ready' else s.state end,
          until = case when s.state = 'refused' then null else s.until end
      where s.credentials is distinct from excluded.credentials`.execute(db)
}

/** Locks how a source fares. Whoever claims or settles its calls does so one behind the other. */
export async function lockSource(tx: BatchTx, name: string): Promise<SourceState> {
  const { rows } = await sql<SourceState>`
    select state, until, throttles, recent_good as "recentGood", recent_failed as "recentFailed",
           last_error as "lastError", last_error_at as "lastErrorAt"
    from batch.source where name = ${name} for update`.execute(tx)
  return rows[0]!
}

export async function updateSource(tx: BatchTx, name: string, state: SourceState): Promise<void> {
  await sql`
    update batch.source
    set state = ${state.state}, until = ${state.until}, throttles = ${state.throttles},
        recent_good = ${state.recentGood}, recent_failed = ${state.recentFailed},
        last_error = ${state.lastError}, last_error_at = ${state.lastErrorAt}
    where name = ${name}`.execute(tx)
}

export async function listSourceStates(db: BatchDb): Promise<Map<string, SourceState>> {
  const { rows } = await sql<SourceState & { name: string }>`
    select name, state, until, throttles, recent_good as "recentGood", recent_failed as "recentFailed",
           last_error as "lastError", last_error_at as "lastErrorAt"
    from batch.source order by name limit 100`.execute(db)
  return new Map(rows.map((row) => [row.name, row]))
}

/** Lets no call leave for a while, in any process. */
export async function holdCalls(db: BatchDb | BatchTx, name: string, ms: number): Promise<void> {
  await sql`
    update batch.source
    set next_send_at = greatest(next_send_at, clock_timestamp() + make_interval(secs => ${ms / 1000}::float8))
    where name = ${name}`.execute(db)
}

/** Takes the next places in the line of calls: in how many milliseconds the first may leave; the others follow evenly. */
export async function takePlaces(
  db: BatchDb,
  name: string,
  count: number,
  spacingMs: number,
): Promise<number> {
  const { rows } = await sql<{ wait: number }>`
    update batch.source
    set next_send_at = greatest(next_send_at, clock_timestamp())
      + make_interval(secs => ${(count * spacingMs) / 1000}::float8)
    where name = ${name}
    returning extract(epoch from next_send_at - clock_timestamp())::float8 * 1000
      - ${count * spacingMs}::float8 as wait`.execute(db)
  return Math.max(0, rows[0]?.wait ?? 0)
}

// No more than nine at once, and ten a minute after that, make less than twenty in any minute.
const lookupSpacingSeconds = 6
const lookupsAtOnce = 9

/** Takes the next place in the line of lists of ready orders: in how many milliseconds it may leave. */
export async function takeLookupPlace(db: BatchDb, name: string): Promise<number> {
  const { rows } = await sql<{ wait: number }>`
    update batch.source
    set next_lookup_at = make_interval(secs => ${lookupSpacingSeconds}::float8) + greatest(next_lookup_at,
      clock_timestamp() - make_interval(secs => ${lookupSpacingSeconds * lookupsAtOnce}::float8))
    where name = ${name}
    returning extract(epoch from next_lookup_at - clock_timestamp())::float8 * 1000 as wait`.execute(db)
  return Math.max(0, rows[0]?.wait ?? 0)
}

/**
 * Begins a statement with `first`, which holds of each source the row whose time comes first, by steps of an index over source
 * and time. Asked in any other way a server that plans for every source or time alike, or takes it for likely that some row
 * fits, reads the rows of all others.
 */
export function withFirstOfEachSource(
  table: RawBuilder<unknown>,
  time: RawBuilder<unknown>,
  which: RawBuilder<unknown> = sql`true`,
): RawBuilder<unknown> {
  return sql`
    with recursive first (source, at) as (
      (select source, ${time} from ${table} where ${which} order by source, ${time} limit 1)
      union all
      select next.* from first, lateral (
        select source, ${time} from ${table} where ${which} and source > first.source order by source, ${time} limit 1
      ) next
    )`
}

import { type RawBuilder, sql } from 'kysely'

/**
 * A list whose length the planner cannot see. It plans for ten then, and keeps that plan. A list that it can see makes a
 * statement with few of them look cheaper than that, so that it is planned anew each time, for longer than it runs.
 */
export function anyLength(values: readonly unknown[]): RawBuilder<unknown> {
  return sql`(select ${values}::text)`
}

import { CompiledQuery } from 'kysely'
import type pg from 'pg'
import type { BatchDb } from './app.ts'

/** SQL that is sent as it is written, with $1, $2 …: a long list that stands in it twice is sent once. */
export type Statement = {
  /** Under which an import's connection prepares it; `db` names statements by itself. */
  readonly name: string
  readonly text: string
  readonly values: readonly unknown[]
}

/** Sends a statement by way of the database, inside a transaction, or on the connection that an import copies over. */
export async function send<Row extends object>(
  to: BatchDb | pg.PoolClient,
  { name, text, values }: Statement,
): Promise<Row[]> {
  const { rows } =
    'executeQuery' in to
      ? await to.executeQuery<Row>(CompiledQuery.raw(text, [...values]))
      : await to.query<Row>({ name, text, values: [...values] })
  return rows
}

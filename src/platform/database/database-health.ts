import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { type DatabaseTrouble, troubleOf } from './database-errors.ts'

/** Whether the database would do what the next request asks of it. */
export type DatabaseHealth = {
  /** A statement failed for this reason; reading alone does not show every one of them. */
  note(trouble: DatabaseTrouble): void
  /** Undefined: it is well. */
  check(): Promise<DatabaseTrouble | undefined>
}

const patienceMs = 2_000

export function openDatabaseHealth(pool: pg.Pool): DatabaseHealth {
  let fullSeen = false
  let asked: Promise<DatabaseTrouble | undefined> | undefined

  async function look(): Promise<DatabaseTrouble | undefined> {
    try {
      // Named like the statements of the service, so that a pooler which loses those is noticed here too.
      const { rows } = await pool.query<{ read_only: boolean }>({
        name: 'readiness',
        text: "select current_setting('transaction_read_only') = 'on' as read_only",
        query_timeout: patienceMs,
      } as pg.QueryConfig)
      if (rows[0]!.read_only) return 'read_only'
      if (fullSeen) await writeSomething(pool)
      fullSeen = false
      return undefined
    } catch (error) {
      return troubleOf(error) ?? 'unreachable'
    }
  }

  return {
    note(trouble) {
      if (trouble === 'disk_full') fullSeen = true
    },
    check() {
      asked ??= inTime(look()).finally(() => {
        asked = undefined
      })
      return asked
    },
  }
}

/** Takes new room on the disk and gives it back. Only asked once a statement found none. */
async function writeSomething(pool: pg.Pool): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query('insert into platform.write_probe (bytes) values ($1)', [randomBytes(256 * 1024)])
    await client.query('rollback')
    client.release()
  } catch (error) {
    client.release(true)
    throw error
  }
}

/** A pool that has no connection left to give is as good as away. */
async function inTime(look: Promise<DatabaseTrouble | undefined>): Promise<DatabaseTrouble | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<DatabaseTrouble>((resolve) => {
    timer = setTimeout(() => resolve('unreachable'), patienceMs + 500)
  })
  return Promise.race([look, late]).finally(() => clearTimeout(timer))
}

import type pg from 'pg'
import type { Clock } from '../platform/clock.ts'
import type { Db, PoolLimits, Tx } from '../platform/database/db.ts'
import type { Fence } from '../platform/queue/queue.ts'
import type { Sources } from './sources/port.ts'
import type { BatchTables } from './tables.ts'

export type BatchDb = Db<BatchTables>
export type BatchTx = Tx<BatchTables>

/** What batch's use-cases may reach. */
export type BatchApp = {
  readonly db: BatchDb
  /** The pool under `db`, for what `db` does not do: an import's COPY, and a statement that must not be prepared. */
  readonly pool: pg.Pool
  /** How `pool` reaches the database, for a thread that opens connections of its own. */
  readonly connection: Partial<PoolLimits> & { readonly url: string }
  /** A replica that may lag, for `reading`; absent: there is none. */
  readonly replica?: { readonly db: BatchDb; readonly pool: pg.Pool }
  readonly clock: Clock
  readonly timeZone: string
  /** Called in every transaction that settles a job's work. */
  readonly fence: Fence
  /** Ends long work early when this process is asked to stop; what was begun is resumed elsewhere. */
  readonly stopping?: AbortSignal
  /** When tasks start by themselves, as cron fields in the service's zone. Without it none does. */
  readonly schedule?: { readonly training: string; readonly prediction: string; readonly aggregation: string }
  /** Where artifacts of models are kept as files too. The database has them all; without this nothing is cached. */
  readonly modelCacheDir?: string
  /** What is set up to ask for ranks and volumes. */
  readonly sources: Sources
}

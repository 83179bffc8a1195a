import type pg from 'pg'

/** A place in the primary's write-ahead log, such as `0/16B3748`: what was committed before it was written before it. */
export type WritePosition = string

/**
 * What may be read from a streaming replica. `behind`: it lags more than is allowed. `away`: nobody answers there.
 * `foreign`: what answers replays another cluster or database, or none at all, as after a promotion.
 */
export type ReplicaState = 'unknown' | 'ready' | 'behind' | 'away' | 'foreign'

export type Replica = {
  /** Read-only, because the server is. */
  readonly pool: pg.Pool
  state(): ReplicaState
  /** How long ago the primary was where the replica is now; 0 when nothing is missing. */
  lagMs(): number
  /** Whether all that was written up to there can be read here. Asked of the replica itself, each time. */
  hasReplayed(position: WritePosition): Promise<boolean>
  /** A read failed there; until the next look nobody else tries. */
  noteAway(): void
  close(): Promise<void>
}

export type ReplicaOptions = {
  readonly primary: pg.Pool
  readonly pool: pg.Pool
  readonly mostLagMs: number
  readonly onState: (state: ReplicaState) => void
}

const lookEveryMs = 1_000
const patienceMs = 2_000

/** Follows a replica by a look each second. Nothing waits for it: without a good answer the primary is read. */
export function openReplica({ primary, pool, mostLagMs, onState }: ReplicaOptions): Replica {
  const sessions = trackSessions(pool)
  const trail = openTrail()
  let home: Home | undefined
  let state: ReplicaState = 'unknown'
  let closed = false

  function become(next: ReplicaState): void {
    if (closed || next === state) return
    state = next
    // Whoever waits for an answer of a server that vanished is told now, and reads the primary.
    if (next === 'away') sessions.cut()
    onState(next)
  }

  async function look(): Promise<void> {
    try {
      const found = await ask<Place>(primary, homeQuery)
      trail.passed(positionOf(found.position), performance.now())
      home = found
    } catch {
      // Nothing is written to a primary that is away, so that what is known of it stays true.
    }
    if (!home) return
    try {
      const found = await ask<Place & { standby: boolean }>(pool, replicaQuery)
      if (!found.standby || found.cluster !== home.cluster || found.database !== home.database)
        return become('foreign')
      trail.reached(positionOf(found.position))
      become(trail.lagMs(performance.now()) > mostLagMs ? 'behind' : 'ready')
    } catch {
      become('away')
    }
  }

  let looking = look()
  const timer = setInterval(() => {
    looking = looking.then(look)
  }, lookEveryMs)
  timer.unref()

  return {
    pool,
    state: () => state,
    lagMs: () => trail.lagMs(performance.now()),
    async hasReplayed(position) {
      const { reached } = await ask<{ reached: boolean }>(pool, { ...reachedQuery, values: [position] })
      return reached
    },
    noteAway: () => become('away'),
    async close() {
      closed = true
      clearInterval(timer)
      await looking
      await pool.end()
    },
  }
}

type Home = { cluster: string; database: string }
type Place = Home & { position: string }

const here = `(select system_identifier::text from pg_control_system()) as cluster, current_database() as database`
const homeQuery = { name: 'primary-place', text: `select ${here}, pg_current_wal_lsn()::text as position` }
const replicaQuery = {
  name: 'replica-place',
  text: `select ${here}, pg_is_in_recovery() as standby, coalesce(pg_last_wal_replay_lsn(), '0/0')::text as position`,
}
const reachedQuery = {
  name: 'replica-reached',
  text: `select coalesce(pg_is_in_recovery() and pg_last_wal_replay_lsn() >= $1::pg_lsn, false) as reached`,
}

/** Where the primary writes next: everything that is committed by now was written before it. */
export async function writePosition(primary: pg.Pool): Promise<WritePosition> {
  return (await ask<{ position: WritePosition }>(primary, writtenQuery)).position
}

const writtenQuery = {
  name: 'write-position',
  text: 'select pg_current_wal_insert_lsn()::text as position',
}

export function isWritePosition(text: string): boolean {
  return /^[0-9A-F]{1,8}\/[0-9A-F]{1,8}$/i.test(text)
}

async function ask<Row extends pg.QueryResultRow>(pool: pg.Pool, query: pg.QueryConfig): Promise<Row> {
  const { rows } = await pool.query<Row>({ ...query, query_timeout: patienceMs } as pg.QueryConfig)
  return rows[0]!
}

function positionOf(text: WritePosition): bigint {
  const [high, low] = text.split('/') as [string, string]
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`)
}

/** The primary's places that the replica has not reached so far, oldest first, each with the time it was seen there. */
function openTrail() {
  const ahead: { position: bigint; seenAt: number }[] = []
  return {
    passed(position: bigint, seenAt: number): void {
      if ((ahead.at(-1)?.position ?? -1n) === position) return
      ahead.push({ position, seenAt })
      // The oldest tells the lag. Of a replica that stands still for hours the others need not all be kept.
      if (ahead.length > 1_000) ahead.splice(1, 500)
    },
    reached(position: bigint): void {
      while (ahead.length > 0 && ahead[0]!.position <= position) ahead.shift()
    },
    lagMs: (now: number): number => (ahead.length > 0 ? now - ahead[0]!.seenAt : 0),
  }
}

function trackSessions(pool: pg.Pool): { cut(): void } {
  const open = new Set<pg.PoolClient>()
  pool.on('connect', (client) => open.add(client))
  pool.on('remove', (client) => open.delete(client))
  return {
    cut() {
      for (const client of open) (client as unknown as pg.Client).end().catch(() => {})
    },
  }
}

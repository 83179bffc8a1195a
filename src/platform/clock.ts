import type pg from 'pg'

/** The one "now" of the service: real time, plus an offset that only the sandbox may move. */
export type Clock = {
  (): Date
  /** Reads the offset that all processes share. Free where time cannot be moved. */
  sync(): Promise<void>
  /** Moves this and every other process to an instant; the clock ticks on from there. */
  moveTo(instant: Date): Promise<void>
}

/** Time as it is. */
export function realClock(): Clock {
  return Object.assign(() => new Date(), {
    sync: async () => {},
    moveTo: () => Promise.reject(new Error('Time cannot be moved outside the sandbox.')),
  })
}

/** Time that can be moved forward. The offset is one row, so that all processes agree and a restart keeps it. */
export async function movableClock(pool: pg.Pool): Promise<Clock> {
  let offsetMs = 0
  const clock: Clock = Object.assign(() => new Date(Date.now() + offsetMs), {
    async sync() {
      const { rows } = await pool.query<{ offset_ms: bigint }>({
        name: 'clock-sync',
        text: 'select offset_ms from platform.clock',
      })
      offsetMs = Number(rows[0]?.offset_ms ?? 0)
    },
    async moveTo(instant: Date) {
      const { rows } = await pool.query<{ offset_ms: bigint }>(
        // Never backwards, whoever else moved it meanwhile.
        'update platform.clock set offset_ms = greatest(offset_ms, $1) returning offset_ms',
        [instant.getTime() - Date.now()],
      )
      offsetMs = Number(rows[0]?.offset_ms ?? 0)
    },
  })
  await clock.sync()
  return clock
}

import type pg from 'pg'

// Renewed while the mover lives; another process takes it for dead after this.
export const moveLeaseSeconds = 10

/** Claims the one right to move time. False: somebody else is moving it. */
export async function claimMove(pool: pg.Pool, target: Date): Promise<boolean> {
  const claimed = await pool.query(
    `update platform.clock set moving_to = $1, moving_until = clock_timestamp() + make_interval(secs => $2)
     where moving_until is null or moving_until < clock_timestamp() returning 1`,
    [target, moveLeaseSeconds],
  )
  return claimed.rows.length === 1
}

/** A renewal that arrives after the move has ended must not stop the clock for the rest of a lease. */
export async function renewMove(pool: pg.Pool, target: Date): Promise<void> {
  await pool.query(
    `update platform.clock set moving_until = clock_timestamp() + make_interval(secs => $1)
     where moving_to = $2`,
    [moveLeaseSeconds, target],
  )
}

export async function endMove(pool: pg.Pool, target: Date): Promise<void> {
  await pool.query('update platform.clock set moving_to = null, moving_until = null where moving_to = $1', [
    target,
  ])
}

/** Whether a move is under way. Sweeps hold still meanwhile: the mover does their work, in order. */
export async function isMoving(pool: pg.Pool): Promise<boolean> {
  const { rows } = await pool.query<{ moving: boolean }>(
    'select coalesce(moving_until > clock_timestamp(), false) as moving from platform.clock',
  )
  return rows[0]?.moving ?? false
}

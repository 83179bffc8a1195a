import type pg from 'pg'
import { hashSession, sessionSeconds, signInSeconds } from './session.ts'

const mostOfToken = 100

/** Begins a session for a token, by real time, and ends those that stand behind its newest hundred. */
export async function insertSession(pool: pg.Pool, session: string, tokenId: string): Promise<void> {
  await pool.query(
    `insert into platform.session (hash, token_id, expires_at)
     values ($1, $2, clock_timestamp() + make_interval(secs => $3))`,
    [hashSession(session), tokenId, sessionSeconds],
  )
  // By a statement of its own, which sees what others began meanwhile. What is locked somebody else ends already.
  await pool.query(
    `delete from platform.session where hash in
       (select hash from platform.session
        where token_id = $1
          and expires_at < (select expires_at from platform.session where token_id = $1
                            order by expires_at desc offset $2 limit 1)
        order by expires_at for update skip locked)`,
    [tokenId, mostOfToken - 1],
  )
}

export async function deleteSession(pool: pg.Pool, session: string): Promise<void> {
  await pool.query('delete from platform.session where hash = $1', [hashSession(session)])
}

/** When a session ends, by real time. */
export async function findSessionEnd(pool: pg.Pool, session: string): Promise<Date | undefined> {
  const { rows } = await pool.query<{ expires_at: Date }>(
    'select expires_at from platform.session where hash = $1',
    [hashSession(session)],
  )
  return rows[0]?.expires_at
}

export async function insertSignInCode(pool: pg.Pool, code: string, tokenId: string): Promise<void> {
  await pool.query(
    `insert into platform.sign_in_code (hash, token_id, expires_at)
     values ($1, $2, clock_timestamp() + make_interval(secs => $3))`,
    [hashSession(code), tokenId, signInSeconds],
  )
}

/** Uses a sign-in link up. Of two who try, one gets the token's id. */
export async function takeSignInCode(pool: pg.Pool, code: string): Promise<string | undefined> {
  const { rows } = await pool.query<{ token_id: string }>(
    'delete from platform.sign_in_code where hash = $1 and expires_at > clock_timestamp() returning token_id',
    [hashSession(code)],
  )
  return rows[0]?.token_id
}

const portion = 10_000

/** Drops what is over, in portions, until nothing of it is left; nobody could use it any more. */
export async function forgetOldSessions(pool: pg.Pool): Promise<void> {
  let dropped: number
  do {
    const { rowCount } = await pool.query(
      `delete from platform.session where hash in
         (select hash from platform.session where expires_at < statement_timestamp()
          order by expires_at limit $1 for update skip locked)`,
      [portion],
    )
    dropped = rowCount ?? 0
  } while (dropped === portion)
  await pool.query('delete from platform.sign_in_code where expires_at < statement_timestamp()')
}

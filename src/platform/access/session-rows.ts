import type pg from 'pg'
import { hashSession, sessionSeconds, signInSeconds } from './session.ts'

/** Begins a session for a token, by real time. */
export async function insertSession(pool: pg.Pool, session: string, tokenId: string): Promise<void> {
  await pool.query(
    `insert into platform.session (hash, token_id, expires_at)
     values ($1, $2, clock_timestamp() + make_interval(secs => $3))`,
    [hashSession(session), tokenId, sessionSeconds],
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

/** Drops what is over, in portions; nobody could use it any more. */
export async function forgetOldSessions(pool: pg.Pool): Promise<void> {
  await pool.query(
    `delete from platform.session where hash in
       (select hash from platform.session where expires_at < statement_timestamp() order by expires_at limit 10000)`,
  )
  await pool.query('delete from platform.sign_in_code where expires_at < statement_timestamp()')
}

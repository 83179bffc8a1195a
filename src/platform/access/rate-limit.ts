import type pg from 'pg'

export const quota = 100
export const windowSeconds = 60

export type Verdict = {
  readonly admitted: boolean
  readonly remaining: number
  /** Whole seconds after which a lone caller gets in again. */
  readonly retryAfterSeconds: number
}

export type RateLimiter = { admit(bucket: string): Promise<Verdict> }

type Waiting = { resolve(verdict: Verdict): void; reject(error: unknown): void }
type Decision = { bucket: string; admitted: number; remaining: number; seconds_until_free: number }

/**
 * At most 100 accepted requests in any 60 s per bucket, exact across all processes: the database decides, by its own
 * clock, under the bucket's row lock. Requests that arrive while a decision is under way share the next statement, so
 * that a busy process pays one round trip for many of them.
 */
export function openRateLimiter(pool: pg.Pool): RateLimiter {
  let waiting = new Map<string, Waiting[]>()
  let underWay = 0

  async function decide(): Promise<void> {
    const taken = waiting
    waiting = new Map()
    underWay++
    try {
      const { rows } = await pool.query<Decision>({
        name: 'rate-admit',
        text: 'select bucket, admitted, remaining, seconds_until_free from platform.admit($1, $2, $3, make_interval(secs => $4))',
        values: [[...taken.keys()], [...taken.values()].map((asked) => asked.length), quota, windowSeconds],
      })
      for (const row of rows) {
        taken.get(row.bucket)!.forEach((asked, at) => {
          asked.resolve(verdictOf(row, at))
        })
      }
    } catch (error) {
      for (const asked of [...taken.values()].flat()) asked.reject(error)
    } finally {
      underWay--
      if (waiting.size > 0) void decide()
    }
  }

  return {
    admit(bucket) {
      return new Promise((resolve, reject) => {
        const asked = waiting.get(bucket)
        if (asked) asked.push({ resolve, reject })
        else waiting.set(bucket, [{ resolve, reject }])
        // One decision at a time: the wait is what gathers the crowd. A turn's delay lets one tick's arrivals join.
        if (underWay === 0 && waiting.size === 1 && !asked)
          setImmediate(() => underWay === 0 && void decide())
      })
    },
  }
}

/** The first ones in line get in; each sees the room left behind it. */
function verdictOf(decision: Decision, at: number): Verdict {
  const behind = decision.admitted - at - 1
  const untilFree = Math.min(windowSeconds, Math.max(1, Math.ceil(decision.seconds_until_free)))
  return {
    admitted: behind >= 0,
    remaining: decision.remaining + Math.max(0, behind),
    retryAfterSeconds: untilFree,
  }
}

/** Drops the windows of callers that have long been quiet. */
export async function forgetQuietBuckets(pool: pg.Pool): Promise<void> {
  await pool.query(`
    delete from platform.rate_window
    where bucket in (
      select bucket from platform.rate_window
      where hits[cardinality(hits)] < clock_timestamp() - interval '10 minutes'
      limit 10000
      for update skip locked)`)
}

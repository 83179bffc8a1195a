import type pg from 'pg'

/** What a provider keeps beside its money: customers, setups, stored cards, intents; and its first answers under a key. */
export type WireObjects = ReturnType<typeof openWireObjects>

export type FirstAnswer = {
  readonly fingerprint: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * True, and spares its transaction the wait for the disk. A claim that is lost with the database did nothing yet, because
 * money that moved under it is flushed after it; an answer that is lost leaves its key in use, as a provider's crash would.
 */
const isFlushedLater = `set_config('synchronous_commit', 'off', true) = 'off'`

export function openWireObjects(pool: pg.Pool, wire: string) {
  return {
    /** Whose objects these are. */
    wire,

    /** Stores an object under its id; an older one of the same id gives way. */
    async put(kind: string, id: string, body: object, now: Date): Promise<void> {
      await pool.query({
        name: 'sandbox-put-object',
        text: `insert into sandbox.wire_object (wire, kind, id, body, created_at) values ($1, $2, $3, $4, $5)
               on conflict (wire, kind, id) do update set body = excluded.body`,
        values: [wire, kind, id, JSON.stringify(body), now],
      })
    },

    async get<T>(kind: string, id: string): Promise<T | undefined> {
      const { rows } = await pool.query<{ body: T }>({
        name: 'sandbox-get-object',
        text: 'select body from sandbox.wire_object where wire = $1 and kind = $2 and id = $3',
        values: [wire, kind, id],
      })
      return rows[0]?.body
    },

    /** Those of a kind whose body holds this, newest first. */
    async find<T>(kind: string, part: object, limit = 100): Promise<T[]> {
      const { rows } = await pool.query<{ body: T }>({
        name: 'sandbox-find-objects',
        text: `select body from sandbox.wire_object where wire = $1 and kind = $2 and body @> $3
               order by created_at desc, id desc limit $4`,
        values: [wire, kind, JSON.stringify(part), limit],
      })
      return rows.map(({ body }) => body)
    },

    /**
     * Those of a kind whose ids lie between, at a limit: the newest, newest first, or the oldest, oldest first. Ids that
     * start with their time of making stand for it.
     */
    async between<T>(
      kind: string,
      order: 'newest' | 'oldest',
      { from, before, part = {} }: { from: string; before: string; part?: object },
      limit: number,
    ): Promise<T[]> {
      const { rows } = await pool.query<{ body: T }>({
        name: `sandbox-${order}-objects-between`,
        text: `select body from sandbox.wire_object
               where wire = $1 and kind = $2 and id >= $3 and id < $4 and body @> $5
               order by id ${order === 'newest' ? 'desc' : ''} limit $6`,
        values: [wire, kind, from, before, JSON.stringify(part), limit],
      })
      return rows.map(({ body }) => body)
    },

    async remove(kind: string, id: string): Promise<boolean> {
      const { rowCount } = await pool.query({
        name: 'sandbox-remove-object',
        text: 'delete from sandbox.wire_object where wire = $1 and kind = $2 and id = $3',
        values: [wire, kind, id],
      })
      return rowCount === 1
    },

    /**
     * Takes a key for a request. `taken`: it is this one's to answer; `running`: another has it; else the first answer.
     * A key older than its window is as good as new.
     */
    async claimKey(
      key: string,
      fingerprint: string,
      now: Date,
      windowMs: number,
    ): Promise<'taken' | 'running' | FirstAnswer> {
      const { rows } = await pool.query<{ taken: boolean } & FirstAnswer & { status: number | null }>({
        name: 'sandbox-claim-wire-key',
        text: `with mine as (
                 insert into sandbox.wire_answer as a (wire, key, fingerprint, created_at)
                 select $1, $2, $3, $4 where ${isFlushedLater}
                 on conflict (wire, key) do update
                   set fingerprint = excluded.fingerprint, created_at = excluded.created_at,
                       status = null, headers = null, body = null
                   where a.created_at <= $4::timestamptz - $5 * interval '1 ms'
                 returning fingerprint)
               select true as taken, fingerprint, null::int as status, null::jsonb as headers, null::text as body
               from mine
               union all
               select false, fingerprint, status, headers, body from sandbox.wire_answer
               where wire = $1 and key = $2 and not exists (select from mine)`,
        values: [wire, key, fingerprint, now, windowMs],
      })
      const row = rows[0]
      if (!row) return 'running'
      if (row.taken) return 'taken'
      return row.status === null ? 'running' : row
    },

    /** Keeps the first answer of a key that was taken. */
    async answerKey(key: string, { status, headers, body }: Omit<FirstAnswer, 'fingerprint'>): Promise<void> {
      await pool.query({
        name: 'sandbox-answer-wire-key',
        text: `update sandbox.wire_answer set status = $3, headers = $4, body = $5
               where wire = $1 and key = $2 and ${isFlushedLater}`,
        values: [wire, key, status, JSON.stringify(headers), body],
      })
    },

    /** Gives a key back as if it had never been used. */
    async freeKey(key: string): Promise<void> {
      await pool.query({
        name: 'sandbox-free-wire-key',
        text: 'delete from sandbox.wire_answer where wire = $1 and key = $2',
        values: [wire, key],
      })
    },
  }
}

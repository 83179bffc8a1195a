import type pg from 'pg'
import { shareStatements } from '../platform/database/share-statements.ts'

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

const shared = { together: 50, atOnce: 1 }

/** A list whose length the planner does not see, so that it keeps its plan; `anyLength` says why. */
const list = (at: number, type: string) => `(select $${at}::text)::${type}[]`

export function openWireObjects(pool: pg.Pool, wire: string) {
  const getShared = shareStatements(shared, (named: readonly Named[]) => getObjects(pool, wire, named))
  const referredShared = shareStatements(shared, (names: readonly Named[]) => getReferred(pool, wire, names))
  const claimShared = shareStatements(shared, (claims: readonly KeyClaim[]) => claimKeys(pool, wire, claims))
  const answerShared = shareStatements(shared, (answers: readonly KeyAnswer[]) =>
    answerKeys(pool, wire, answers),
  )

  const bodiesOf = async <T>(query: pg.QueryConfig): Promise<T[]> =>
    (await pool.query<{ body: T }>(query)).rows.map(({ body }) => body)

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

    get: async <T>(kind: string, id: string): Promise<T | undefined> =>
      (await getShared({ kind, id })) as T | undefined,

    /** The first one of a kind that was made for a merchant's reference. */
    ofReference: async <T>(kind: string, reference: string): Promise<T | undefined> =>
      (await referredShared({ kind, id: reference })) as T | undefined,

    /** All of a kind that were made for a merchant's reference, newest first. */
    async allOfReference<T>(kind: string, reference: string): Promise<T[]> {
      return bodiesOf<T>({
        name: 'sandbox-find-referred',
        text: `select body from sandbox.wire_object
               where wire = $1 and kind = $2 and body ->> 'reference' = $3
               order by created_at desc, id desc limit 100`,
        values: [wire, kind, reference],
      })
    },

    /** A customer's cards, newest first. */
    async cardsOf<T>(customer: string): Promise<T[]> {
      return bodiesOf<T>({
        name: 'sandbox-find-cards',
        text: `select body from sandbox.wire_object
               where wire = $1 and kind = 'payment_method' and body ->> 'customer' = $2
               order by created_at desc, id desc limit 100`,
        values: [wire, customer],
      })
    },

    /** Those of a kind, newest first. */
    async newest<T>(kind: string, limit: number): Promise<T[]> {
      return bodiesOf<T>({
        name: 'sandbox-newest-objects',
        text: `select body from sandbox.wire_object where wire = $1 and kind = $2
               order by created_at desc, id desc limit $3`,
        values: [wire, kind, limit],
      })
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
      return bodiesOf<T>({
        name: `sandbox-${order}-objects-between`,
        text: `select body from sandbox.wire_object
               where wire = $1 and kind = $2 and id >= $3 and id < $4 and body @> $5
               order by id ${order === 'newest' ? 'desc' : ''} limit $6`,
        values: [wire, kind, from, before, JSON.stringify(part), limit],
      })
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
    claimKey: (
      key: string,
      fingerprint: string,
      now: Date,
      windowMs: number,
    ): Promise<'taken' | 'running' | FirstAnswer> => claimShared({ key, fingerprint, now, windowMs }),

    /** Keeps the first answer of a key that was taken. */
    async answerKey(key: string, answer: Omit<FirstAnswer, 'fingerprint'>): Promise<void> {
      await answerShared({ key, ...answer })
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

type Named = { readonly kind: string; readonly id: string }

async function getObjects(pool: pg.Pool, wire: string, named: readonly Named[]): Promise<unknown[]> {
  const { rows } = await pool.query<{ body: unknown }>({
    name: 'sandbox-get-objects',
    text: `select o.body
           from unnest(${list(2, 'text')}, ${list(3, 'text')}) with ordinality as n (kind, id, at)
           left join sandbox.wire_object as o on o.wire = $1 and o.kind = n.kind and o.id = n.id
           order by n.at`,
    values: [wire, named.map(({ kind }) => kind), named.map(({ id }) => id)],
  })
  return rows.map(({ body }) => body ?? undefined)
}

async function getReferred(pool: pg.Pool, wire: string, named: readonly Named[]): Promise<unknown[]> {
  const { rows } = await pool.query<{ body: unknown }>({
    name: 'sandbox-get-referred',
    text: `select o.body
           from unnest(${list(2, 'text')}, ${list(3, 'text')}) with ordinality as n (kind, reference, at)
           left join lateral (
             select body from sandbox.wire_object
             where wire = $1 and kind = n.kind and body ->> 'reference' = n.reference
             order by created_at, id limit 1) as o on true
           order by n.at`,
    values: [wire, named.map(({ kind }) => kind), named.map(({ id }) => id)],
  })
  return rows.map(({ body }) => body ?? undefined)
}

type KeyClaim = {
  readonly key: string
  readonly fingerprint: string
  readonly now: Date
  readonly windowMs: number
}

/** In the order of the keys, which is everybody's. Two claims of one key cannot share a statement, and are then made alone. */
async function claimKeys(
  pool: pg.Pool,
  wire: string,
  claims: readonly KeyClaim[],
): Promise<('taken' | 'running' | FirstAnswer)[]> {
  type Row = FirstAnswer & { key: string; taken: boolean; status: number | null }
  const { rows } = await pool.query<Row>({
    name: 'sandbox-claim-wire-keys',
    text: `with given as (
             select * from unnest(${list(2, 'text')}, ${list(3, 'text')}, ${list(4, 'timestamptz')}, ${list(5, 'timestamptz')})
               as g (key, fingerprint, now, forgotten)),
           mine as (
             insert into sandbox.wire_answer as a (wire, key, fingerprint, created_at)
             select $1, key, fingerprint, now from given where ${isFlushedLater} order by key
             on conflict (wire, key) do update
               set fingerprint = excluded.fingerprint, created_at = excluded.created_at,
                   status = null, headers = null, body = null
               where a.created_at <= (select forgotten from given as g where g.key = excluded.key)
             returning key, fingerprint)
           select key, true as taken, fingerprint, null::int as status, null::jsonb as headers, null::text as body
           from mine
           union all
           select key, false, fingerprint, status, headers, body from sandbox.wire_answer
           where wire = $1 and key = any (${list(2, 'text')}) and key not in (select key from mine)`,
    values: [
      wire,
      claims.map(({ key }) => key),
      claims.map(({ fingerprint }) => fingerprint),
      claims.map(({ now }) => now),
      claims.map(({ now, windowMs }) => new Date(now.getTime() - windowMs)),
    ],
  })
  const found = new Map(rows.map((row) => [row.key, row]))
  return claims.map(({ key }) => {
    const row = found.get(key)
    if (!row) return 'running'
    if (row.taken) return 'taken'
    return row.status === null ? 'running' : row
  })
}

type KeyAnswer = Omit<FirstAnswer, 'fingerprint'> & { readonly key: string }

/** Their bodies go as one run of bytes: in a list or in JSON, each would be escaped here and read sign by sign there. */
async function answerKeys(pool: pg.Pool, wire: string, answers: readonly KeyAnswer[]): Promise<undefined[]> {
  const bodies = answers.map(({ body }) => Buffer.from(body))
  await pool.query({
    name: 'sandbox-answer-wire-keys',
    text: `update sandbox.wire_answer as a
           set status = g.status, headers = g.headers::jsonb,
               body = convert_from(substr($2::bytea, g.upto - g.size + 1, g.size), 'UTF8')
           from (select *, sum(size) over (order by at)::int as upto
                 from unnest(${list(3, 'text')}, ${list(4, 'int')}, ${list(5, 'text')}, ${list(6, 'int')})
                        with ordinality as each (key, status, headers, size, at)) as g
           where a.wire = $1 and a.key = g.key and ${isFlushedLater}`,
    values: [
      wire,
      Buffer.concat(bodies),
      answers.map(({ key }) => key),
      answers.map(({ status }) => status),
      answers.map(({ headers }) => JSON.stringify(headers)),
      bodies.map(({ length }) => length),
    ],
  })
  return answers.map(() => undefined)
}

import { type RawBuilder, sql } from 'kysely'
import type { BillingApp, BillingDb } from './app.ts'

/**
 * Every place that keeps sealed values: its table, what identifies a row in text, and the word that binds a value to its
 * row. The installation's own secrets come last: as long as they need an older key, no process starts without it.
 */
const places: readonly Place[] = [
  { table: 'billing.payment_method', keys: ['id'], word: 'payment_method' },
  { table: 'billing.payment_method_to_delete', keys: ['payment_method_id'], word: 'payment_method' },
  { table: 'billing.next_action', keys: ['payment_id'], word: 'next_action' },
  { table: 'billing.account_contact', keys: ['account_id'], word: 'account_contact' },
  { table: 'billing.webhook', keys: ['provider', 'event_id'], word: 'webhook' },
  { table: 'platform.idempotency_key', keys: ['scope', 'key'], word: 'answer' },
  { table: 'platform.secret', keys: ['name'], word: 'secret' },
]

type Place = { readonly table: string; readonly keys: readonly string[]; readonly word: string }
type SealedRow = { readonly id: readonly (string | Buffer)[]; readonly name: string; readonly sealed: Buffer }

export type Resealed = { readonly checked: number; readonly resealed: number }

const pageSize = 500

/**
 * Seals everything anew that the first key has not sealed, so that older keys can be taken out of VAULT_KEYS. It may be
 * stopped and run again at any time, and values that change meanwhile stay as they were changed.
 */
export async function reseal(
  app: BillingApp,
  onProgress: (done: Resealed) => void = () => {},
): Promise<Resealed> {
  let [checked, resealed] = [0, 0]
  for (const place of places) {
    let page = await listSealed(app.db, place, undefined)
    while (page.length > 0) {
      const stale = page.filter(({ sealed }) => !app.quietVault.isCurrent(sealed))
      if (stale.length > 0) resealed += await sealAnew(app, place, stale)
      checked += page.length
      onProgress({ checked, resealed })
      page = await listSealed(app.db, place, page.at(-1))
    }
  }
  return { checked, resealed }
}

async function listSealed(
  db: BillingDb,
  { table, keys, word }: Place,
  after: SealedRow | undefined,
): Promise<SealedRow[]> {
  const columns = sql.join(keys.map((key) => sql.ref(key)))
  const beyond = after ? sql`and (${columns}) > (${sql.join([...after.id])})` : sql``
  const found = await sql<Record<string, string | Buffer> & { sealed: Buffer }>`
    select ${columns}, sealed from ${sql.table(table)}
    where sealed is not null ${beyond}
    order by ${columns} limit ${pageSize}`.execute(db)
  return found.rows.map((row) => {
    const id = keys.map((key) => row[key]!)
    const name = id.map((part) => (typeof part === 'string' ? part : part.toString('hex'))).join(' ')
    return { id, name: `${word}:${name}`, sealed: row.sealed }
  })
}

/**
 * All that nobody holds are sealed in one statement, which waits for no lock; the others one by one, each by a statement
 * that holds nothing else. Others lock many of these rows in orders of their own, and so none waits with this one in a ring.
 */
async function sealAnew(app: BillingApp, place: Place, stale: readonly SealedRow[]): Promise<number> {
  const sealed = await sealRows(app, place, stale, sql`skip locked`)
  let count = sealed.size
  for (const row of stale) if (!sealed.has(row.name)) count += (await sealRows(app, place, [row], sql``)).size
  return count
}

/** The names of those that were sealed: neither gone, nor changed, nor held by somebody else if `held` passes them over. */
async function sealRows(
  app: BillingApp,
  { table, keys }: Place,
  stale: readonly SealedRow[],
  held: RawBuilder<unknown>,
): Promise<ReadonlySet<string>> {
  const { quietVault: vault } = app
  const ids = keys.map((_, at) => stale.map(({ id }) => id[at]!))
  const lists = [
    ...ids.map((list) => (typeof list[0] === 'string' ? sql`${list}::text[]` : sql`${list}::bytea[]`)),
    sql`${stale.map(({ sealed }) => sealed)}::bytea[]`,
    sql`${stale.map(({ name, sealed }) => vault.seal(vault.open(sealed, name), name))}::bytea[]`,
    sql`${stale.map(({ name }) => name)}::text[]`,
  ]
  const columns = keys.map((key) => sql.ref(key))
  const same = (row: string) =>
    sql.join(
      keys.map((key) => sql`t.${sql.ref(key)} = ${sql.ref(`${row}.${key}`)}`),
      sql` and `,
    )
  const changed = await sql<{ place: string }>`
    with locked as (
      select g.* from ${sql.table(table)} t
      join unnest(${sql.join(lists)}) as g (${sql.join([...columns, sql`stale`, sql`fresh`, sql`place`])}) on ${same('g')}
      where t.sealed = g.stale
      for no key update of t ${held})
    update ${sql.table(table)} t set sealed = l.fresh from locked l where ${same('l')}
    returning l.place`.execute(app.db)
  return new Set(changed.rows.map((row) => row.place))
}

/** How many sealed values there are, for a progress bar. */
export async function countSealed(db: BillingDb): Promise<number> {
  const counts = places.map(
    ({ table }) => sql`(select count(*) from ${sql.table(table)} where sealed is not null)`,
  )
  const found = await sql<{ n: number }>`select (${sql.join(counts, sql` + `)})::int as n`.execute(db)
  return found.rows[0]!.n
}

/** A table that holds values sealed with one of these keys, if any does. It may have to read all of them. */
export async function findSealedBy(db: BillingDb, versions: readonly number[]): Promise<string | undefined> {
  return db
    .transaction()
    .setAccessMode('read only')
    .execute(async (tx) => {
      await sql`set local statement_timeout = 0`.execute(tx)
      for (const { table } of [...places].reverse()) {
        // A sealed value tells its key's number in its second to fifth byte.
        const found = await sql`
        select 1 from ${sql.table(table)}
        where sealed is not null
          and ('x' || encode(substring(sealed from 2 for 4), 'hex'))::bit(32)::bigint = any (${[...versions]}::bigint[])
        limit 1`.execute(tx)
        if (found.rows.length > 0) return table
      }
      return undefined
    })
}

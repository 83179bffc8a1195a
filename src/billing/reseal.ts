import { sql } from 'kysely'
import { openVault } from '../platform/vault.ts'
import type { BillingApp } from './app.ts'

/** Every place that keeps sealed values: its table, its key, and the word that binds a value to its row. */
const places = [
  { table: 'billing.payment_method', key: 'id', word: 'payment_method' },
  { table: 'billing.account_contact', key: 'account_id', word: 'account_contact' },
  { table: 'billing.webhook', key: 'event_id', word: 'webhook' },
] as const

export type Resealed = { readonly checked: number; readonly resealed: number }

const pageSize = 500

/**
 * Seals everything anew that the newest key has not sealed, so that older keys can be taken out of VAULT_KEYS. It may be
 * stopped and run again at any time, and values that change meanwhile stay as they were changed.
 */
export async function reseal(
  app: BillingApp,
  onProgress: (done: Resealed) => void = () => {},
): Promise<Resealed> {
  // The service's own vault tells the log every secret that passes; a rotation would push out those in use.
  const vault = openVault(app.terms.vaultKeys)
  let [checked, resealed] = [0, 0]
  for (const { table, key, word } of places) {
    let after = ''
    for (;;) {
      const found = await sql<{ id: string; sealed: Buffer }>`
        select ${sql.ref(key)} as id, sealed from ${sql.table(table)}
        where sealed is not null and ${sql.ref(key)} > ${after}
        order by ${sql.ref(key)} limit ${pageSize}`.execute(app.db)
      if (found.rows.length === 0) break
      const stale = found.rows.filter(({ sealed }) => !vault.isCurrent(sealed))
      if (stale.length > 0) {
        const changed = await sql`
          update ${sql.table(table)} t set sealed = g.new
          from unnest(
            ${stale.map(({ id }) => id)}::text[],
            ${stale.map(({ sealed }) => sealed)}::bytea[],
            ${stale.map(({ id, sealed }) => vault.seal(vault.open(sealed, `${word}:${id}`), `${word}:${id}`))}::bytea[]
          ) as g (id, old, new)
          where t.${sql.ref(key)} = g.id and t.sealed = g.old
          returning 1`.execute(app.db)
        resealed += changed.rows.length
      }
      checked += found.rows.length
      onProgress({ checked, resealed })
      after = found.rows.at(-1)!.id
    }
  }
  return { checked, resealed }
}

/** How many sealed values there are, for a progress bar. */
export async function countSealed(app: BillingApp): Promise<number> {
  const found = await sql<{ n: number }>`
    select (select count(*) from billing.payment_method where sealed is not null)::int
         + (select count(*) from billing.account_contact)::int
         + (select count(*) from billing.webhook where sealed is not null)::int as n`.execute(app.db)
  return found.rows[0]!.n
}

import { type RawBuilder, sql } from 'kysely'
import { anyLength } from '../../platform/database/any-length.ts'
import { invariant } from '../../platform/invariant.ts'
import type { BillingTx } from '../app.ts'
import type { Money } from '../money.ts'
import type { Book } from '../tables.ts'

/** Money that moves from one book to another because of one fact. */
export type Transfer = {
  /** The fact, such as `payment:pay_1`. Posting the same fact twice is refused by the database. */
  readonly cause: string
  readonly accountId: string
  readonly amount: Money
  readonly from: Book
  readonly to: Book
}

/** Appends transfers. Each debits one book by what it credits the other; the database checks that at commit. */
export async function postTransfers(tx: BillingTx, now: Date, transfers: readonly Transfer[]): Promise<void> {
  if (transfers.length === 0) return
  await sql`with ${postingCtes(now, transfers)} select 1`.execute(tx)
}

/** The same as parts of a larger statement, for outcomes that are recorded in one round trip. */
export function postingCtes(now: Date, transfers: readonly Transfer[]): RawBuilder<unknown> {
  invariant(
    transfers.every(({ amount, from, to }) => amount.minor > 0n && from !== to),
    'a transfer moves something from one book to another',
  )
  return sql`
    moved as (
      select * from unnest(
        ${anyLength(transfers.map(({ cause }) => cause))}::text[],
        ${anyLength(transfers.map(({ accountId }) => accountId))}::text[],
        ${anyLength(transfers.map(({ amount }) => amount.currency))}::text[],
        ${anyLength(transfers.map(({ amount }) => amount.minor))}::bigint[],
        ${anyLength(transfers.map(({ from }) => from))}::text[],
        ${anyLength(transfers.map(({ to }) => to))}::text[]
      ) as g (cause, account_id, currency, amount, credited, debited)
    ),
    posted as (
      insert into billing.ledger_transfer (cause, account_id, currency, occurred_at)
      select cause, account_id, currency, ${now} from moved
      returning id, cause
    ),
    entered as (
      insert into billing.ledger_entry (transfer_id, book, amount)
      select posted.id, side.book, side.amount
      from posted join moved using (cause),
        lateral (values (moved.debited, moved.amount), (moved.credited, -moved.amount)) as side (book, amount)
    )`
}

import { sql } from 'kysely'
import type { BillingDb } from '../app.ts'

/** One thing that does not add up: what the rest of the books makes of it, and what it says itself. */
export type LedgerFault = {
  readonly check: string
  readonly subject: string
  readonly expected: bigint
  readonly actual: bigint
}

export type LedgerReport = { readonly transfers: number; readonly faults: readonly LedgerFault[] }

const mostFaults = 1_000

/**
 * Recomputes every total from the facts below it: transfers from their entries, payments and refunds from the ledger,
 * invoices from their payments, invoice numbers from a count. One snapshot, so that work under way disturbs nothing.
 */
export async function checkLedger(db: BillingDb): Promise<LedgerReport> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (tx) => {
      // A large book takes longer than any request may.
      await sql`set local statement_timeout = 0`.execute(tx)
      const faults: LedgerFault[] = []
      for (const [check, query] of Object.entries(checks)) {
        const found = await sql<Omit<LedgerFault, 'check'>>`
          select subject, expected::bigint, actual::bigint from (${sql.raw(query)}) as c
          where expected is distinct from actual
          order by subject limit ${mostFaults}`.execute(tx)
        faults.push(...found.rows.map((row) => ({ check, ...row })))
      }
      const counted = await sql<{
        n: number
      }>`select count(*)::int as n from billing.ledger_transfer`.execute(tx)
      return { transfers: counted.rows[0]!.n, faults }
    })
}

const movedBy = (cause: string) => `(
  select coalesce(sum(e.amount), 0) from billing.ledger_transfer t
  join billing.ledger_entry e on e.transfer_id = t.id and e.book = 'provider'
  where t.cause = ${cause})`

/** Each yields a subject, what it should be and what it is. */
const checks: Readonly<Record<string, string>> = {
  transfer_sums_to_zero: `
    select t.cause as subject, 0 as expected, coalesce(sum(e.amount), 0) as actual
    from billing.ledger_transfer t left join billing.ledger_entry e on e.transfer_id = t.id
    group by t.id, t.cause`,
  transfer_has_two_sides: `
    select t.cause as subject, 2 as expected, count(e.book) as actual
    from billing.ledger_transfer t left join billing.ledger_entry e on e.transfer_id = t.id
    group by t.id, t.cause`,
  transfer_has_a_cause: `
    select t.cause as subject, 1 as expected, (case split_part(t.cause, ':', 1)
      when 'payment' then exists (select from billing.payment p where p.id = split_part(t.cause, ':', 2))
      when 'refund' then exists (select from billing.refund r where r.id = split_part(t.cause, ':', 2))
      when 'refund_reversal' then exists (select from billing.refund r where r.id = split_part(t.cause, ':', 2))
      when 'dispute_lost' then exists (select from billing.payment p where p.id = split_part(t.cause, ':', 2))
      when 'dispute_reversal' then exists (select from billing.payment p where p.id = split_part(t.cause, ':', 2))
      when 'unmatched_settled' then exists (
        select from billing.unmatched_settlement u where u.payment_id = split_part(t.cause, ':', 2))
      else false end)::int as actual
    from billing.ledger_transfer t`,
  payment_captured: `
    select p.id as subject, ${movedBy(`'payment:' || p.id`)} as expected, p.captured as actual
    from billing.payment p`,
  payment_captured_if_succeeded: `
    select p.id as subject, case when p.status = 'succeeded' then p.amount else 0 end as expected, p.captured as actual
    from billing.payment p`,
  payment_refunded: `
    select p.id as subject, coalesce(sum(r.amount) filter (where r.status = 'succeeded'), 0) as expected,
      p.refunded as actual
    from billing.payment p left join billing.refund r on r.payment_id = p.id
    group by p.id`,
  payment_refund_pending: `
    select p.id as subject, coalesce(sum(r.amount) filter (where r.status = 'pending'), 0) as expected,
      p.refund_pending as actual
    from billing.payment p left join billing.refund r on r.payment_id = p.id
    group by p.id`,
  refund_posted: `
    select r.id as subject, case when r.status = 'succeeded' then r.amount else 0 end as expected,
      - ${movedBy(`'refund:' || r.id`)} - ${movedBy(`'refund_reversal:' || r.id`)} as actual
    from billing.refund r`,
  dispute_posted: `
    select p.id as subject, coalesce(l.lost, 0) as expected, p.dispute_lost as actual
    from billing.payment p
    left join (
      select split_part(t.cause, ':', 2) as payment_id, -sum(e.amount) as lost
      from billing.ledger_transfer t join billing.ledger_entry e on e.transfer_id = t.id and e.book = 'provider'
      where split_part(t.cause, ':', 1) in ('dispute_lost', 'dispute_reversal')
      group by 1
    ) l on l.payment_id = p.id`,
  unmatched_settlement_posted: `
    select p.id as subject, coalesce(sum(u.amount), 0) as expected, p.settled_by_hand as actual
    from billing.payment p left join billing.unmatched_settlement u on u.payment_id = p.id
    group by p.id`,
  // Nothing is wrong with the books then; but somebody is owed this, and nothing goes on by itself.
  unmatched_money_went_back: `
    select p.id as subject, p.captured as expected, p.refunded + p.settled_by_hand + p.dispute_lost as actual
    from billing.payment p where p.unmatched and p.refund_pending = 0`,
  invoice_paid: `
    select i.id as subject, coalesce(sum(p.captured), 0) as expected, i.amount_paid as actual
    from billing.invoice i left join billing.payment p on p.invoice_id = i.id and p.status = 'succeeded' and not p.unmatched
    group by i.id`,
  invoice_refunded: `
    select i.id as subject, coalesce(sum(p.refunded), 0) as expected, i.amount_refunded as actual
    from billing.invoice i left join billing.payment p on p.invoice_id = i.id and p.status = 'succeeded' and not p.unmatched
    group by i.id`,
  invoice_paid_in_full: `
    select i.id as subject,
      case when i.status in ('paid', 'partially_refunded', 'refunded') then i.amount_due else 0 end as expected,
      i.amount_paid as actual
    from billing.invoice i`,
  invoice_numbers_gapless: `
    select a.id as subject, a.invoice_count as expected,
      case when coalesce(max(i.number), 0) = count(i.id) then count(i.id) else coalesce(max(i.number), 0) end as actual
    from billing.account a left join billing.invoice i on i.account_id = a.id
    group by a.id`,
}

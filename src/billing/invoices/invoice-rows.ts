import { type RawBuilder, sql } from 'kysely'
import { anyLength } from '../../platform/database/any-length.ts'
import { highestId, lowestId } from '../../platform/id.ts'
import { limitOf, type Page, type PageRequest, pageOf, readCursor } from '../../platform/page.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Currency } from '../money.ts'
import { type KeptAction, listNextActions } from '../payments/next-action-rows.ts'
import type { Seller } from '../seller.ts'
import { isOpenPayment } from '../unsettled-rows.ts'
import {
  type Invoice,
  type InvoicePayment,
  type InvoiceRefund,
  type InvoiceStatus,
  renderNumber,
  statusAfterRefunds,
} from './invoice.ts'

export type InvoiceFilter = {
  accountId?: string
  subscriptionId?: string
  status?: InvoiceStatus
  from?: Date
  to?: Date
}

export async function findInvoice(db: BillingDb, invoiceId: string): Promise<Invoice | undefined> {
  const rows = await selectInvoices(db).where('i.id', '=', invoiceId).execute()
  return (await withMoney(db, rows))[0]
}

/** Newest first. */
export async function listInvoices(
  db: BillingDb,
  filter: InvoiceFilter,
  page: PageRequest,
): Promise<Page<Invoice>> {
  const limit = limitOf(page)
  const after = readCursor(page, 1)?.[0]
  const rows = await selectNewest(db, filter, after, limit + 1)
  return pageOf(await withMoney(db, rows), limit, (invoice) => [invoice.invoiceId])
}

async function selectNewest(
  db: BillingDb,
  filter: InvoiceFilter,
  after: string | undefined,
  limit: number,
): Promise<InvoiceRow[]> {
  if (filter.to === undefined || !isOfAll(filter)) return selectBelow(db, filter, after, limit).execute()
  // What was written long after that instant is not read: of all that, only late ones can be dated before it.
  const until = highestId('inv_', new Date(filter.to.getTime() + lateAfterMs))
  const late =
    after !== undefined && after <= until
      ? []
      : await selectBelow(db, filter, after, limit, { areLate: true }).where('i.id', '>=', until).execute()
  if (late.length === limit) return late
  const below = after !== undefined && after < until ? after : until
  return [...late, ...(await selectBelow(db, filter, below, limit - late.length).execute())]
}

// Hardly any invoice is written a day after the date it bears, only what an outage held up.
const lateAfterMs = 86_400_000

/** Invoices dated before this instant are late when they are written now. */
export function latelyIssuedFrom(now: Date): Date {
  return new Date(now.getTime() - lateAfterMs)
}

function isOfAll({ accountId, subscriptionId }: InvoiceFilter): boolean {
  return accountId === undefined && subscriptionId === undefined
}

function selectBelow(
  db: BillingDb,
  filter: InvoiceFilter,
  below: string | undefined,
  limit: number,
  { areLate = false } = {},
) {
  let query = selectInvoices(db).orderBy('i.id', 'desc').limit(limit)
  if (filter.accountId !== undefined) query = query.where('i.account_id', '=', filter.accountId)
  if (filter.subscriptionId !== undefined)
    query = query.where('i.subscription_id', '=', filter.subscriptionId)
  if (filter.status !== undefined) query = query.where('i.status', '=', filter.status)
  if (areLate) query = query.where('i.issued_late', '=', true)
  // Of those that are late, which have an index of their own, nearly all are paid.
  if (filter.status !== undefined && isOfAll(filter) && !(areLate && filter.status === 'paid'))
    query = query.where(ofStatus(filter.status, filter.to, below, limit))
  // No invoice is written before the day it is dated, and its id tells when it was written.
  if (filter.from !== undefined)
    query = query.where('i.issued_at', '>=', filter.from).where('i.id', '>=', lowestId('inv_', filter.from))
  if (filter.to !== undefined) query = query.where('i.issued_at', '<', filter.to)
  return below === undefined ? query : query.where('i.id', '<', below)
}

/**
 * Finds the invoices of a status by an index. Nearly all are paid, but a wave of open ones may lie on top of them, so they are
 * met by their payments. An open one is being charged, waits for dunning or is held, and those that ended otherwise stand
 * apart: an index over every status would make each payment rewrite all of them.
 */
function ofStatus(
  status: InvoiceStatus,
  to: Date | undefined,
  below: string | undefined,
  limit: number,
): RawBuilder<boolean> {
  if (status !== 'open' && status !== 'paid') return sql`i.apart = ${status}`
  const newest = (from: RawBuilder<unknown>, id = 'o.id') => sql`
    (select o.id from ${from}
     and ${below === undefined ? sql`true` : sql`${sql.ref(id)} < ${below}`}
     and ${to === undefined ? sql`true` : sql`o.issued_at < ${to}`}
     order by ${sql.ref(id)} desc limit ${limit})`
  if (status === 'paid') {
    // The offset keeps the planner from reading the invoices first.
    const theirs = sql`(select id, status, issued_at from billing.invoice where id = p.invoice_id offset 0)`
    const paying = sql`
      billing.payment p cross join lateral ${theirs} o
      where p.status = 'succeeded' and not p.unmatched and o.status = 'paid'`
    return sql`i.id in ${newest(paying, 'p.invoice_id')}`
  }
  return sql`i.id in (
    ${newest(sql`billing.invoice o join billing.payment p on p.invoice_id = o.id where ${isOpenPayment('p')}`)}
    union all ${newest(sql`billing.invoice o where o.due_at is not null`)}
    union all ${newest(sql`billing.invoice o where o.hold is not null`)})`
}

function selectInvoices(db: BillingDb) {
  return db
    .selectFrom('billing.invoice as i')
    .innerJoin('billing.subscription as s', 's.id', 'i.subscription_id')
    .select([
      'i.id',
      'i.account_id',
      'i.subscription_id',
      'i.number',
      'i.status',
      'i.description',
      'i.amount_due',
      'i.amount_paid',
      'i.amount_refunded',
      'i.currency',
      'i.period_start',
      'i.period_end',
      'i.issued_at',
      'i.seller',
      'i.paid_at',
      'i.attempt_count',
      'i.dunning',
      'i.due_at',
      'i.hold',
      's.time_zone',
    ])
}

type InvoiceRow = Awaited<ReturnType<ReturnType<typeof selectInvoices>['execute']>>[number]

/** Fills in the attempts and refunds of a page of invoices, two reads for all of them. */
async function withMoney(db: BillingDb, rows: InvoiceRow[]): Promise<Invoice[]> {
  if (rows.length === 0) return []
  const ids = rows.map(({ id }) => id)
  const payments = await db
    .selectFrom('billing.payment')
    .select([
      'id',
      'provider_reference',
      'provider',
      'provider_id',
      'provider_code',
      'invoice_id',
      'status',
      'amount',
      'refunded',
      'currency',
      'code',
      'disputed',
      'dispute_status',
      'dispute_amount',
      'dispute_opened_at',
      'dispute_closed_at',
      'created_at',
      'settled_at',
    ])
    .where('invoice_id', 'in', ids)
    // Ids made by two processes within a millisecond, or after a restore, are in no order.
    .orderBy('attempt')
    .execute()
  const refunds = await db
    .selectFrom('billing.refund')
    .select([
      'id',
      'invoice_id',
      'payment_id',
      'amount',
      'currency',
      'status',
      'reason',
      'note',
      'created_at',
    ])
    .where('invoice_id', 'in', ids)
    .orderBy('id')
    .execute()
  // Nobody is awaited but for what is open.
  const open = rows.filter(({ status }) => status === 'open').map(({ id }) => id)
  const actions = open.length > 0 ? await listNextActions(db, open) : []
  return rows.map((row) =>
    toInvoice(
      row,
      payments
        .filter((payment) => payment.invoice_id === row.id)
        .map((payment) => ({
          paymentId: payment.id,
          reference: payment.provider_reference,
          status: payment.status === 'sending' || payment.status === 'unknown' ? 'pending' : payment.status,
          amount: { minor: payment.amount, currency: payment.currency },
          refunded: { minor: payment.refunded, currency: payment.currency },
          code: payment.code,
          trace: {
            provider: payment.provider,
            provider_id: payment.provider_id,
            provider_code: payment.provider_code,
          },
          disputed: payment.disputed,
          dispute:
            payment.dispute_status === null
              ? null
              : {
                  status: payment.dispute_status,
                  amount: { minor: payment.dispute_amount!, currency: payment.currency },
                  openedAt: payment.dispute_opened_at!,
                  closedAt: payment.dispute_closed_at,
                },
          createdAt: payment.created_at,
          settledAt: payment.settled_at,
        })),
      refunds
        .filter((refund) => refund.invoice_id === row.id)
        .map((refund) => ({
          refundId: refund.id,
          paymentId: refund.payment_id,
          amount: { minor: refund.amount, currency: refund.currency },
          status: refund.status,
          reason: refund.reason,
          note: refund.note,
          createdAt: refund.created_at,
        })),
      actions.find(({ invoiceId }) => invoiceId === row.id) ?? null,
    ),
  )
}

function toInvoice(
  row: InvoiceRow,
  payments: readonly InvoicePayment[],
  refunds: readonly InvoiceRefund[],
  nextAction: KeptAction | null,
): Invoice {
  const money = (minor: bigint) => ({ minor, currency: row.currency as Currency })
  return {
    invoiceId: row.id,
    accountId: row.account_id,
    subscriptionId: row.subscription_id,
    number: renderNumber(row.account_id, row.number),
    status: row.status,
    description: row.description,
    due: money(row.amount_due),
    paid: money(row.amount_paid),
    refunded: money(row.amount_refunded),
    periodStart: row.period_start,
    periodEnd: row.period_end,
    issuedAt: row.issued_at,
    paidAt: row.paid_at,
    attemptCount: row.attempt_count,
    nextAttemptAt: row.dunning === 'retry' ? row.due_at : null,
    hold: row.hold,
    nextAction,
    timeZone: row.time_zone,
    seller: { ...nobody, ...row.seller },
    payments,
    refunds,
  }
}

const nobody: Seller = { name: '', address: null, registration: null, tax_id: null, logo: null }

/** Part of a larger statement: open invoices are paid in full. */
export function paidUpdate(now: Date, invoiceIds: readonly string[]): RawBuilder<unknown> {
  return sql`
    update billing.invoice
    set status = 'paid', amount_paid = amount_due, paid_at = ${now}, due_at = null, hold = null
    where id = any (${anyLength(invoiceIds)}::text[]) and status = 'open'`
}

/** Ends an open invoice without money: `void` was never owed, `uncollectible` was and could not be had. */
export async function closeInvoice(
  tx: BillingTx,
  invoiceId: string,
  status: 'void' | 'uncollectible',
): Promise<boolean> {
  const closed = await tx
    .updateTable('billing.invoice')
    .set({ status, due_at: null, hold: null })
    .where('id', '=', invoiceId)
    .where('status', '=', 'open')
    .returning('id')
    .executeTakeFirst()
  return closed !== undefined
}

/** The open invoices of a subscription that are owed now; held ones wait for an operator. */
export async function listOwed(tx: BillingTx, subscriptionId: string): Promise<{ invoiceId: string }[]> {
  const rows = await tx
    .selectFrom('billing.invoice')
    .select('id')
    .where('subscription_id', '=', subscriptionId)
    .where('status', '=', 'open')
    .where('hold', 'is', null)
    .orderBy('id')
    .execute()
  return rows.map(({ id }) => ({ invoiceId: id }))
}

/** Charges without a clear answer of a subscription's invoices that are no longer owed. */
export async function listInDoubtOfVoid(db: BillingDb, subscriptionId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('billing.payment as p')
    .innerJoin('billing.invoice as i', 'i.id', 'p.invoice_id')
    .select('p.id')
    .where('i.subscription_id', '=', subscriptionId)
    .where('i.status', '=', 'void')
    .where(isOpenPayment('p'))
    .execute()
  return rows.map(({ id }) => id)
}

/** Brings an invoice's totals in line with what has gone back of its payment. */
export async function setRefunded(tx: BillingTx, invoiceId: string, refunded: bigint): Promise<void> {
  const { amount_paid } = await tx
    .selectFrom('billing.invoice')
    .select('amount_paid')
    .where('id', '=', invoiceId)
    .forUpdate()
    .executeTakeFirstOrThrow()
  await tx
    .updateTable('billing.invoice')
    .set({ amount_refunded: refunded, status: statusAfterRefunds(amount_paid, refunded) })
    .where('id', '=', invoiceId)
    .execute()
}

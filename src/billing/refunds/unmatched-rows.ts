import { sql } from 'kysely'
import { clearAlarm, raiseAlarm } from '../../platform/alarm.ts'
import { enqueue } from '../../platform/queue/queue.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Currency, Money } from '../money.ts'
import { insertRefund } from './refund-rows.ts'

/** Money that was taken and pays for nothing, and that did not go back by itself. */
export type Unmatched = {
  readonly paymentId: string
  /** By which the provider knows it. */
  readonly reference: string
  readonly provider: string
  /** The provider's own id of it. */
  readonly providerId: string | null
  readonly accountId: string
  readonly subscriptionId: string
  readonly invoiceId: string
  /** Taken and neither given back, lost nor settled by hand. Negative: more went back than was taken. */
  readonly left: Money
  readonly captured: Money
  readonly refunded: Money
  readonly reason: UnmatchedReason
  readonly since: Date
}

export type UnmatchedReason = 'declined' | 'disputed' | 'given_back_twice' | 'other'

const alarmKind = 'unmatched_money'

/** Stays as long as the money does; a refund that is on its way is no reason for alarm. */
const isUnmatched = sql`
  p.unmatched and p.captured <> p.refunded + p.settled_by_hand + p.dispute_lost and p.refund_pending = 0`

/** Oldest first. */
export async function listUnmatched(db: BillingDb, limit: number): Promise<Unmatched[]> {
  return (await selectUnmatched(sql`${isUnmatched} order by p.id limit ${limit}`).execute(db)).rows.map(
    toUnmatched,
  )
}

/** One of them, locked against every refund of it. Undefined: it is not, or no longer. */
export async function lockUnmatched(tx: BillingTx, paymentId: string): Promise<Unmatched | undefined> {
  await sql`select from billing.payment where id = ${paymentId} for update`.execute(tx)
  const found = await selectUnmatched(sql`p.id = ${paymentId} and ${isUnmatched}`).execute(tx)
  return found.rows[0] && toUnmatched(found.rows[0])
}

/** How many there are for each reason, and how old the oldest is in seconds of service time. */
export async function measureUnmatched(
  db: BillingDb,
  now: Date,
): Promise<{ counts: Record<UnmatchedReason, number>; oldestSeconds: number }> {
  const counts = { declined: 0, disputed: 0, given_back_twice: 0, other: 0 }
  const found = await sql<{ reason: UnmatchedReason; count: number; since: Date }>`
    select reason, count(*)::int as count, min(since) as since
    from (${selectUnmatched(isUnmatched)}) u group by reason`.execute(db)
  let oldestSeconds = 0
  for (const { reason, count, since } of found.rows) {
    counts[reason] = count
    oldestSeconds = Math.max(oldestSeconds, (now.getTime() - since.getTime()) / 1000)
  }
  return { counts, oldestSeconds }
}

/** Raises the alarm while unmatched money is stuck and clears it once it is not. Called with every change of such a payment. */
export async function watchUnmatched(tx: BillingTx, now: Date, paymentId: string): Promise<void> {
  const found = await sql`select from billing.payment p where p.id = ${paymentId} and ${isUnmatched}`.execute(
    tx,
  )
  if (found.rows.length === 0) {
    await clearAlarm(tx, alarmKind, paymentId)
    return
  }
  const note =
    'Money that pays for nothing did not go back; `rankledger backlog unmatched` lists, retries and settles it.'
  await raiseAlarm(tx, { kind: alarmKind, subject: paymentId, note }, now)
}

/** Writes the intent to give all that is left back, and has it sent. The caller holds the payment's lock. */
export async function refundUnmatched(
  tx: BillingTx,
  now: Date,
  paymentId: string,
): Promise<string | undefined> {
  const unmatched = await lockUnmatched(tx, paymentId)
  if (!unmatched || unmatched.left.minor <= 0n || unmatched.reason === 'disputed') return undefined
  const refund = {
    ...unmatched,
    amount: unmatched.left,
    reason: null,
    note: null,
    origin: 'unmatched',
  } as const
  const refundId = await insertRefund(tx, now, refund, 0)
  await enqueue(tx, 'billing.send-refund', { refundId })
  return refundId
}

/** Writes down that unmatched money was put right by hand, and says how often it was for this payment. */
export async function insertSettlement(
  tx: BillingTx,
  settlement: { paymentId: string; amount: bigint; note: string; actor: string; at: Date },
): Promise<number> {
  const { paymentId, amount, note, actor, at } = settlement
  const { count } = await tx
    .selectFrom('billing.unmatched_settlement')
    .select((row) => row.fn.countAll<bigint>().as('count'))
    .where('payment_id', '=', paymentId)
    .executeTakeFirstOrThrow()
  const n = Number(count) + 1
  await tx
    .insertInto('billing.unmatched_settlement')
    .values({ payment_id: paymentId, n, amount, note, actor, at })
    .execute()
  await tx
    .updateTable('billing.payment')
    .set((row) => ({ settled_by_hand: row('settled_by_hand', '+', amount) }))
    .where('id', '=', paymentId)
    .execute()
  return n
}

/** Forgets what was written about them. */
export async function eraseSettlementNotes(tx: BillingTx, accountId: string): Promise<void> {
  await tx
    .updateTable('billing.unmatched_settlement')
    .set({ note: null })
    .where('payment_id', 'in', (query) =>
      query
        .selectFrom('billing.payment as p')
        .innerJoin('billing.invoice as i', 'i.id', 'p.invoice_id')
        .select('p.id')
        .where('i.account_id', '=', accountId),
    )
    .execute()
}

function selectUnmatched(where: ReturnType<typeof sql>) {
  return sql<UnmatchedRow>`
    select p.id, p.provider_reference, p.provider, p.provider_id, p.account_id, p.subscription_id, p.invoice_id, p.currency,
      p.captured, p.refunded,
      p.captured - p.refunded - p.settled_by_hand - p.dispute_lost as "left", p.settled_at as since,
      case
        when p.captured < p.refunded + p.settled_by_hand + p.dispute_lost then 'given_back_twice'
        when p.dispute_status = 'open' then 'disputed'
        when (select r.code from billing.refund r where r.payment_id = p.id order by r.id desc limit 1) = 'refund_declined'
          then 'declined'
        else 'other'
      end as reason
    from billing.payment p
    where ${where}`
}

type UnmatchedRow = {
  id: string
  provider_reference: string
  provider: string
  provider_id: string | null
  account_id: string
  subscription_id: string
  invoice_id: string
  currency: Currency
  captured: bigint
  refunded: bigint
  left: bigint
  since: Date
  reason: UnmatchedReason
}

function toUnmatched(row: UnmatchedRow): Unmatched {
  const money = (minor: bigint): Money => ({ minor, currency: row.currency })
  return {
    paymentId: row.id,
    reference: row.provider_reference,
    provider: row.provider,
    providerId: row.provider_id,
    accountId: row.account_id,
    subscriptionId: row.subscription_id,
    invoiceId: row.invoice_id,
    left: money(row.left),
    captured: money(row.captured),
    refunded: money(row.refunded),
    reason: row.reason,
    since: row.since,
  }
}

import type { DeliveryEntry, Entry, RequestEntry, RestoreEntry } from './history.ts'
import type { AskedCharge, BookCharge, ProviderCall, ToldNo, TurnedAway } from './model-provider.ts'
import { type Key, openSealed } from './open-sealed.ts'

/** All that a verdict may rest on: what was said, the provider's own book, the database, and every byte that came out. */
export type Evidence = {
  readonly history: readonly Entry[]
  readonly book: readonly BookCharge[]
  /** Every charge that reached out for the provider, in order. */
  readonly asked: readonly AskedCharge[]
  /** Every call of the provider in order, and every "no" to a charge; absent where nobody takes them down. */
  readonly calls?: readonly ProviderCall[]
  readonly told?: readonly ToldNo[]
  /** When the provider could not be asked for money. */
  readonly turnedAway?: readonly TurnedAway[]
  readonly query: <R extends object>(text: string) => Promise<R[]>
  /** Logs and whatever else left a process. */
  readonly outputs: readonly string[]
  readonly secrets: readonly string[]
  /** What each process lists as its vault keys. */
  readonly vaultKeys: readonly (readonly Key[])[]
  /** References that the provider refused or declined for reasons of its own; absent where nobody knows. */
  readonly refused?: ReadonlySet<string>
  /** Every price that each plan had, the first one first. */
  readonly prices: ReadonlyMap<string, readonly bigint[]>
  /** Service time at the end. */
  readonly now: number
  /** How long the provider knows a key. */
  readonly keyWindowMs: number
  /** Its record shows no disputes once money went back. */
  readonly hidesDisputes: boolean
  /** The bank has what is disputed while it decides. */
  readonly withdrawsDisputed: boolean
  /** The last digits of the card behind a key; without it the model's. */
  readonly last4Of?: (key: string) => string
  /** Real times between which the database was away. Absent where it never is, and nobody may say that it is. */
  readonly outages?: readonly { readonly from: number; readonly to: number }[]
}

export type Subscription = {
  id: string
  account_id: string
  plan_id: string
  amount: bigint
  currency: string
  interval_unit: 'day' | 'week' | 'month' | 'year'
  interval_count: number
  created_at: Date
  time_zone: string
  status: string
  anchor: Date
  last_k: number
  next_billing_at: Date | null
  trial_ends_at: Date | null
  cancel_at: Date | null
  cancel_code: string | null
  cancel_note: string | null
  canceled_at: Date | null
  payment_method_id: string | null
}
export type Invoice = {
  id: string
  account_id: string
  subscription_id: string
  number: number
  amount_due: bigint
  amount_paid: bigint
  amount_refunded: bigint
  currency: string
  period_start: Date
  period_end: Date
  status: string
  hold: string | null
  attempt_count: number
  paid_at: Date | null
  first_failed_at: Date | null
  due_at: Date | null
}
type Period = { subscription_id: string; k: number; start_at: Date; end_at: Date; invoice_id: string }
export type Payment = {
  id: string
  provider_reference: string
  attempt: number
  invoice_id: string
  subscription_id: string
  account_id: string
  payment_method_id: string
  amount: bigint
  currency: string
  status: string
  code: string | null
  captured: bigint
  refunded: bigint
  refund_pending: bigint
  unmatched: boolean
  settled_by_hand: bigint
  dispute_status: string | null
  dispute_lost: bigint
  created_at: Date
  sent_at: Date | null
  settled_at: Date | null
}
type Refund = {
  id: string
  payment_id: string
  n: number | null
  provider_reference: string | null
  invoice_id: string
  amount: bigint
  origin: string
  status: string
  code: string | null
  account_id: string
  note: string | null
  created_at: Date
  settled_at: Date | null
}
/** What was kept of a request under its key. */
type KeptAnswer = { scope: string; status: number | null; text: string | undefined; erased: boolean }
/** A sealed value, and what it says; undefined: it does not open. */
export type Sealed = {
  readonly row: string
  readonly accountId: string | null
  /** Service time of what it belongs to, where that is known. */
  readonly at: Date | null
  readonly text: string | undefined
  readonly fault: string | undefined
}
type Transfer = { id: bigint; cause: string; currency: string; book: string; amount: bigint }
type BillingEvent = {
  type: string
  subscription_id: string | null
  occurred_at: Date
  data: Record<string, unknown>
}
type Method = {
  id: string
  subscription_id: string
  account_id: string
  state: string
  /** Why it was turned down, or that a restore took it away; null for one that has always been the subscription's own. */
  failure: string | null
  last4: string | null
  /** Got in exchange for a key for one use. */
  issued: boolean
  is_sealed: boolean
}
type Webhook = { event_id: string; status: string; reference: string | null }

/**
 * The evidence, read once and put in order. Where the provider speaks of a charge or refund by its reference, it stands
 * here by our id, if there is one.
 */
export type Facts = Evidence & {
  readonly installation: string
  /** Every request that there was. */
  readonly allRequests: readonly RequestEntry[]
  /** But for those that the database has forgotten, because it went back to an earlier copy. */
  readonly requests: readonly RequestEntry[]
  readonly forgotten: readonly RequestEntry[]
  readonly restores: readonly RestoreEntry[]
  /** Payments that a restored database took over from the provider. */
  readonly adopted: ReadonlySet<string>
  readonly deliveries: readonly DeliveryEntry[]
  readonly subscriptions: readonly Subscription[]
  readonly invoices: readonly Invoice[]
  readonly periods: readonly Period[]
  readonly payments: readonly Payment[]
  readonly refunds: readonly Refund[]
  readonly transfers: readonly Transfer[]
  readonly events: readonly BillingEvent[]
  readonly methods: readonly Method[]
  readonly webhooks: readonly Webhook[]
  readonly grants: readonly { account_id: string; subscription_id: string }[]
  readonly keywords: readonly { keyword: string }[]
  readonly plans: readonly { id: string; amount: bigint; trial_days: number }[]
  readonly keptAnswers: readonly KeptAnswer[]
  readonly sealed: readonly Sealed[]
  readonly accounts: readonly { id: string; erased_at: Date | null }[]
  readonly alarms: readonly { kind: string; subject: string }[]
  readonly jobs: readonly { task: string; attempts: number; max_attempts: number }[]
}

export async function gatherFacts(evidence: Evidence): Promise<Facts> {
  const { history, query } = evidence
  const jobs = await query<Facts['jobs'][number]>(
    `select t.identifier as task, j.attempts, j.max_attempts from graphile_worker._private_jobs j
     join graphile_worker._private_tasks t on t.id = j.task_id order by j.id`,
  )
  const payments = await query<Payment>('select * from billing.payment order by id')
  const refunds = await query<Refund>('select * from billing.refund order by id')
  const [installation] = await query<{ id: string }>('select id from billing.installation')
  const ids = new Map([...payments, ...refunds].map(({ id, provider_reference }) => [provider_reference, id]))
  const ours = (reference: string) => ids.get(reference) ?? reference
  const restores = history.filter((entry) => entry.kind === 'restore')
  const isForgotten = ({ step }: Entry) => restores.some(({ since, step: at }) => step > since && step <= at)
  const allRequests = history.filter((entry) => entry.kind === 'request')
  const isPlaced = ({ reference }: BookCharge) => !restores.some(({ unplaced }) => unplaced.has(reference))
  return {
    ...evidence,
    installation: installation!.id,
    ...(evidence.calls && { calls: evidence.calls.map((one) => ({ ...one, key: ours(one.key) })) }),
    ...(evidence.told && { told: evidence.told.map((one) => ({ ...one, key: ours(one.key) })) }),
    restores,
    adopted: new Set(restores.flatMap(({ adopted }) => [...adopted])),
    allRequests,
    requests: allRequests.filter((entry) => !isForgotten(entry)),
    forgotten: allRequests.filter(isForgotten),
    book: evidence.book.filter(isPlaced).map((charge) => ({
      ...charge,
      reference: ours(charge.reference),
      refunds: charge.refunds.map((refund) => ({
        ...refund,
        reference: ids.get(refund.reference) ?? refund.reference,
      })),
    })),
    asked: evidence.asked.map((one) => ({ ...one, key: ours(one.key) })),
    deliveries: history
      .filter((entry) => entry.kind === 'delivery')
      .filter((entry) => !isForgotten(entry))
      .map((entry) => ({ ...entry, reference: ours(entry.reference) })),
    subscriptions: await query('select * from billing.subscription order by id'),
    invoices: await query('select * from billing.invoice order by id'),
    periods: await query('select * from billing.period order by subscription_id, k'),
    payments,
    refunds,
    transfers: await query(
      `select t.id, t.cause, t.currency, e.book, e.amount from billing.ledger_transfer t
       left join billing.ledger_entry e on e.transfer_id = t.id order by t.id, e.book`,
    ),
    events: await query('select type, subscription_id, occurred_at, data from billing.event order by id'),
    methods: await query(
      'select id, subscription_id, account_id, state, failure, last4, issued, sealed is not null as is_sealed from billing.payment_method order by id',
    ),
    webhooks: await query('select event_id, status, reference from billing.webhook'),
    grants: await query('select account_id, subscription_id from billing.trial_grant'),
    keptAnswers: await readAnswers(evidence),
    sealed: await readSealed(evidence),
    accounts: await query('select id, erased_at from billing.account'),
    keywords: await query('select display as keyword from batch.keyword'),
    plans: await query('select id, amount, trial_days from billing.plan'),
    alarms: await query('select kind, subject from platform.alarm'),
    jobs,
  }
}

async function readAnswers({ query, vaultKeys }: Evidence): Promise<KeptAnswer[]> {
  const rows = await query<{
    scope: string
    key: Buffer
    status: number | null
    sealed: Buffer | null
    erased: boolean
  }>('select scope, key, status, sealed, erased from platform.idempotency_key')
  return rows.map(({ scope, key, status, sealed, erased }) => {
    const row = `answer:${scope} ${key.toString('hex')}`
    return { scope, status, erased, text: sealed ? openWith(vaultKeys.flat(), sealed, row).text : undefined }
  })
}

/** Every sealed value of the database, as every process would find it. */
async function readSealed({ query, vaultKeys }: Evidence): Promise<Sealed[]> {
  const rows = await query<{ row: string; sealed: Buffer; account_id: string | null; at: Date | null }>(
    `select 'payment_method:' || id as row, sealed, account_id, created_at as at from billing.payment_method
     union all select 'account_contact:' || account_id, sealed, account_id, updated_at from billing.account_contact
     union all select 'webhook:' || w.provider || ' ' || event_id, w.sealed, p.account_id, received_at
       from billing.webhook w left join billing.payment p on p.provider_reference = w.reference
     union all select 'answer:' || scope || ' ' || encode(key, 'hex'), sealed, coalesce(s.account_id, r.account_id), k.created_at
       from platform.idempotency_key k
       left join billing.subscription s on s.id = k.subject left join billing.refund r on r.id = k.subject
     union all select 'secret:' || name, sealed, null, null from platform.secret`,
  )
  return rows
    .filter(({ sealed }) => sealed !== null)
    .map(({ row, sealed, account_id, at }) => {
      const opened = vaultKeys.map((keys) => openWith(keys, sealed, row))
      const fault = opened.find((one) => one.fault !== undefined)?.fault
      return { row, accountId: account_id, at, text: opened[0]!.text, fault }
    })
}

function openWith(
  keys: readonly Key[],
  sealed: Buffer,
  row: string,
): { text: string | undefined; fault: string | undefined } {
  try {
    return { text: openSealed(keys, sealed, row), fault: undefined }
  } catch (error) {
    return { text: undefined, fault: (error as Error).message }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: invariants read the fields that their routes promise
export function dataOf(entry: RequestEntry): any {
  return entry.answer && entry.answer.status < 300 ? JSON.parse(entry.answer.text).data : undefined
}

export function errorCodeOf(entry: RequestEntry): string | undefined {
  return entry.answer && entry.answer.status >= 400 ? JSON.parse(entry.answer.text).error?.code : undefined
}

/** The last step in which a request may have done something. */
export function lastStepOf({ step, ended }: RequestEntry): number {
  return ended?.step ?? step
}

/** Whether a request may have done something: it was answered well, or nobody knows. */
export function mayHaveWorked({ answer }: RequestEntry): boolean {
  return answer === null || answer.status < 300 || answer.status >= 500 || answer.status === 402
}

/**
 * When somebody who looked in that step could know its outcome. What a restored copy had in doubt was in doubt for whoever came
 * before the copy, whenever the provider dates what came of it.
 */
export function settledAt(
  { restores }: Pick<Facts, 'restores'>,
  { id, settled_at }: Pick<Payment, 'id' | 'settled_at'>,
  step: number,
): number {
  const isLater = restores.some(({ since, inDoubt }) => step <= since && inDoubt.has(id))
  return isLater || settled_at === null ? Number.POSITIVE_INFINITY : settled_at.getTime()
}

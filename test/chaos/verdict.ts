import { findCard } from '../../src/sandbox/cards.ts'
import { check, type Violation } from '../simulation/checker.ts'
import { dataOf } from '../simulation/facts.ts'
import type { History, RequestEntry } from '../simulation/history.ts'
import type { AskedCharge, BookCharge, BookRefund } from '../simulation/model-provider.ts'
import { type Caller, type Errand, isClear } from './caller.ts'
import { prices } from './clients.ts'
import type { Fleet } from './fleet.ts'
import type { ServiceTime } from './service-time.ts'
import type { Troubles } from './troubles.ts'

export type Witness = {
  readonly fleet: Fleet
  readonly history: History
  readonly caller: Caller
  readonly time: ServiceTime
  readonly asked: readonly AskedCharge[]
  readonly troubles: Troubles
  readonly secrets: ReadonlySet<string>
}

/** Judges a run by the same checker as the simulation, and by what only real processes can break. */
export async function judge(witness: Witness): Promise<Violation[]> {
  const { fleet, history, time, asked, troubles, secrets } = witness
  const query = async <R extends object>(text: string): Promise<R[]> =>
    (await fleet.database.observer.query<R>(text)).rows
  const violations = await check({
    history: history.entries,
    book: await readBook(query),
    asked,
    query,
    outputs: await fleet.outputs(),
    vaultKeys: [fleet.vaultKeys],
    secrets: [...fleet.secrets, ...secrets],
    prices,
    now: time.earliest(),
    last4Of,
    outages: troubles.outages,
  })
  return [
    ...violations,
    ...found('every request gets a clear answer in the end', leftInDoubt(witness.caller.errands)),
    ...found('what was acknowledged is seen by everybody at once', unseen(history.requests())),
    ...found("a refund is one request's", await unmatchedRefunds(witness.caller.errands, query)),
    ...found('no process ends by itself', fleet.mishaps),
    ...found('whatever was killed comes back', troubles.failures),
  ]
}

function found(invariant: string, details: readonly string[]): Violation[] {
  return details.map((detail) => ({ invariant, detail }))
}

type Query = <R extends object>(text: string) => Promise<R[]>

const keyWindowMs = 86_400_000

/** The provider's own book, as its own tables have it. */
async function readBook(query: Query): Promise<BookCharge[]> {
  const charges = await query<{
    id: string
    reference: string
    account_id: string
    amount: bigint
    currency: 'KRW' | 'USD'
    status: 'paid' | 'declined'
    decline_code: BookCharge['code']
    created_at: Date
    asked_at: Date | null
    dispute_status: 'open' | 'won' | 'lost' | null
    dispute_amount: bigint | null
    dispute_opened_at: Date | null
    dispute_closed_at: Date | null
  }>(
    `select s.*, p.created_at as asked_at from sandbox.payment s
     left join billing.payment p on p.provider_reference = s.reference order by s.created_at, s.id`,
  )
  const refunds = await query<{
    payment_id: string
    reference: string
    amount: bigint
    status: 'succeeded' | 'failed'
    created_at: Date
  }>('select * from sandbox.refund order by created_at, id')
  const refundsOf = new Map<string, BookRefund[]>()
  for (const { payment_id, reference, amount, status, created_at } of refunds) {
    const own = refundsOf.get(payment_id) ?? []
    refundsOf.set(payment_id, [...own, { reference, minor: amount, status, at: created_at.getTime() }])
  }
  return charges.map((charge) => ({
    reference: charge.reference,
    accountId: charge.account_id,
    card: null,
    amount: { minor: charge.amount, currency: charge.currency },
    at: charge.created_at.getTime(),
    status: charge.status,
    code: charge.decline_code,
    // The clock was turned while its request was on the way, further than a provider keeps a key.
    late: charge.asked_at !== null && charge.created_at.getTime() >= charge.asked_at.getTime() + keyWindowMs,
    refunds: refundsOf.get(charge.id) ?? [],
    dispute: charge.dispute_status && {
      minor: charge.dispute_amount!,
      openedAt: charge.dispute_opened_at!.getTime(),
      status: charge.dispute_status,
      closedAt: charge.dispute_closed_at?.getTime() ?? null,
    },
  }))
}

function last4Of(key: string): string {
  return findCard(key.replace(/^ak_/, 'bk_'))!.last4
}

function leftInDoubt(errands: readonly Errand[]): string[] {
  return errands
    .filter(({ entries }) => !entries.some(isClear))
    .map(({ ask, entries }) => {
      const last = entries.at(-1)?.answer
      return `${ask.path} ${ask.key}: ${last ? `${last.status} ${last.text}` : 'no answer'}`
    })
}

/** A client asks only for what it was told of, so that "no such thing" is wrong whoever says it. */
function unseen(requests: readonly RequestEntry[]): string[] {
  return requests
    .filter(({ path, answer }) => path.startsWith('/api/billing/') && answer?.status === 404)
    .map(({ step, path, body, process }) => `#${step} ${process}: ${path} ${JSON.stringify(body ?? '')}`)
}

/** Each refund was told to exactly one errand, unless the provider declined it; a repeat never makes another. */
async function unmatchedRefunds(errands: readonly Errand[], query: Query): Promise<string[]> {
  const toldTo = new Map<string, Set<Errand>>()
  for (const errand of errands) {
    for (const entry of errand.entries) {
      const id = dataOf(entry)?.refund_id
      if (typeof id === 'string') toldTo.set(id, (toldTo.get(id) ?? new Set()).add(errand))
    }
  }
  const refunds = await query<{ id: string; status: string; invoice_id: string }>(
    `select id, status, invoice_id from billing.refund where origin = 'request'`,
  )
  const forgotten = new Set(errands.filter(askedTooLate).map(({ ask }) => invoiceOf(ask.body)))
  return refunds.flatMap(({ id, status, invoice_id }) => {
    const count = toldTo.get(id)?.size ?? 0
    if (count > 1) return [`${id} was told to ${count}`]
    const isLost = count === 0 && status === 'succeeded' && !forgotten.has(invoice_id)
    return isLost ? [`${id} was told to nobody`] : []
  })
}

/** The clock was moved so far between its questions that its key was forgotten: the last of them asked for something new. */
function askedTooLate({ entries }: Errand): boolean {
  return entries.length > 1 && entries.at(-1)!.at >= entries[0]!.at + keysAreKeptMs
}

const keysAreKeptMs = 30 * 86_400_000

function invoiceOf(body: unknown): string | undefined {
  return (body as { invoice_id?: string } | undefined)?.invoice_id
}

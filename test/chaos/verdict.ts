import { check, type Violation } from '../simulation/checker.ts'
import { dataOf } from '../simulation/facts.ts'
import type { History, RequestEntry } from '../simulation/history.ts'
import {
  type AskedCharge,
  type BookCharge,
  type BookRefund,
  profileOf,
} from '../simulation/model-provider.ts'
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
  readonly hints: readonly Hint[]
  /** What the last comparison of both books left for a person. */
  readonly differences: readonly string[]
  readonly troubles: Troubles
  readonly secrets: ReadonlySet<string>
}

/** An unsigned notification, and what was answered to it. */
export type Hint = { readonly reference: string; answer: { status: number; text: string } | null }

/** Judges a run by the same checker as the simulation, and by what only real processes can break. */
export async function judge(witness: Witness): Promise<Violation[]> {
  const { fleet, history, time, asked, troubles, secrets } = witness
  const query = async <R extends object>(text: string): Promise<R[]> =>
    (await fleet.database.observer.query<R>(text)).rows
  const { keyWindowMs, hidesDisputes = false, withdrawsDisputed = false } = profileOf(fleet.provider.name)
  const violations = await check({
    history: history.entries,
    book: await readBook(query, keyWindowMs),
    asked,
    query,
    outputs: await fleet.outputs(),
    vaultKeys: [fleet.vaultKeys],
    secrets: [...fleet.secrets, ...secrets],
    prices,
    now: time.earliest(),
    keyWindowMs,
    hidesDisputes,
    withdrawsDisputed,
    last4Of: fleet.provider.last4Of,
    outages: troubles.outages,
  })
  return [
    ...violations,
    ...found('every request gets a clear answer in the end', leftInDoubt(witness.caller.errands)),
    ...found('what was acknowledged is seen by everybody at once', unseen(history.requests())),
    ...found("a refund is one request's", await unmatchedRefunds(witness.caller.errands, query)),
    ...found('both books agree when they are compared', witness.differences),
    ...found('an acknowledged hint is looked up', await unheeded(witness.hints, query)),
    ...found('no process ends by itself', fleet.mishaps),
    ...found('whatever was killed comes back', troubles.failures),
  ]
}

function found(invariant: string, details: readonly string[]): Violation[] {
  return details.map((detail) => ({ invariant, detail }))
}

type Query = <R extends object>(text: string) => Promise<R[]>

/** Keys and references of ours have this form; what somebody gave back at the provider has another, or none. */
function isOurs(reference: string): boolean {
  return /^rl_[0-9a-f]{40}$/.test(reference)
}

/** A decline as every provider's adapter must call it. */
function declineOf(code: string | null): BookCharge['code'] {
  return code === 'stolen_card' || code === 'lost_card' ? 'lost_or_stolen' : (code as BookCharge['code'])
}

/** The provider's own book, as its own tables have it. */
async function readBook(query: Query, keyWindowMs: number): Promise<BookCharge[]> {
  const charges = await query<{
    id: string
    reference: string
    account_id: string
    amount: bigint
    currency: 'KRW' | 'USD'
    status: 'paid' | 'declined'
    decline_code: string | null
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
    const ours = isOurs(reference) ? reference : null
    refundsOf.set(payment_id, [...own, { reference: ours, minor: amount, status, at: created_at.getTime() }])
  }
  const taken = charges.map(
    (charge): BookCharge => ({
      reference: charge.reference,
      accountId: charge.account_id,
      card: null,
      amount: { minor: charge.amount, currency: charge.currency },
      at: charge.created_at.getTime(),
      status: charge.status,
      code: declineOf(charge.decline_code),
      // The clock was turned while its request was on the way, further than a provider keeps a key.
      late: isLate(charge, keyWindowMs),
      refunds: refundsOf.get(charge.id) ?? [],
      dispute: charge.dispute_status && {
        minor: charge.dispute_amount!,
        openedAt: charge.dispute_opened_at!.getTime(),
        status: charge.dispute_status,
        closedAt: charge.dispute_closed_at?.getTime() ?? null,
      },
    }),
  )
  return [...taken, ...(await readUnpaid(query, keyWindowMs))]
}

function isLate(
  { created_at, asked_at }: { created_at: Date; asked_at: Date | null },
  keyWindowMs: number,
): boolean {
  return asked_at !== null && created_at.getTime() >= asked_at.getTime() + keyWindowMs
}

/** Intents for which nothing was taken: their customer is awaited, or they were ended before anybody confirmed them. */
async function readUnpaid(query: Query, keyWindowMs: number): Promise<BookCharge[]> {
  const intents = await query<{
    reference: string
    account_id: string
    amount: string
    currency: 'KRW' | 'USD'
    is_canceled: boolean
    created_at: Date
    asked_at: Date | null
  }>(
    `select o.body->>'reference' as reference, o.body->>'accountId' as account_id, o.body->>'amount' as amount,
       o.body->>'currency' as currency, o.body->>'canceledAt' is not null as is_canceled, o.created_at,
       p.created_at as asked_at
     from sandbox.wire_object o left join billing.payment p on p.provider_reference = o.body->>'reference'
     where o.kind = 'payment_intent' and jsonb_array_length(o.body->'charges') = 0 order by o.created_at, o.id`,
  )
  return intents.map((intent) => ({
    reference: intent.reference,
    accountId: intent.account_id,
    card: null,
    amount: { minor: BigInt(intent.amount), currency: intent.currency },
    at: intent.created_at.getTime(),
    status: intent.is_canceled ? 'canceled' : 'awaiting',
    code: null,
    late: isLate(intent, keyWindowMs),
    asks: true,
    refunds: [],
    dispute: null,
  }))
}

/** A hint has no id: it makes us look at its payment, once for any number of hints that wait. */
async function unheeded(hints: readonly Hint[], query: Query): Promise<string[]> {
  const done = await query<{ reference: string }>(
    `select p.provider_reference as reference from billing.webhook w
     join billing.payment p on w.event_id = 'hint:' || p.id where w.status = 'done'`,
  )
  const looked = new Set(done.map(({ reference }) => reference))
  return hints
    .filter(({ answer, reference }) => answer !== null && !isFair(answer, looked.has(reference)))
    .map(({ reference, answer }) => `${reference}: ${answer!.status} ${answer!.text}`)
}

/** Taken and looked at, or the database was away and its sender comes again. */
function isFair({ status, text }: { status: number; text: string }, isLooked: boolean): boolean {
  if (status === 200) return isLooked
  return status === 503 || (status === 500 && text.includes('OutcomeUnknown'))
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

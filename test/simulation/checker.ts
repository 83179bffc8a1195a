import { createHash } from 'node:crypto'
import { addLocal } from './calendar.ts'
import {
  dataOf,
  type Evidence,
  errorCodeOf,
  type Facts,
  gatherFacts,
  type Invoice,
  lastStepOf,
  mayHaveWorked,
  type Payment,
  type Subscription,
} from './facts.ts'
import type { RequestEntry } from './history.ts'
import {
  contactsAreTheNewest,
  erasedTextIsGone,
  erasureHolds,
  repeatsAgree,
  sealedOpens,
} from './judge-answers.ts'
import { pricesAreAsAgreed } from './judge-prices.ts'
import { failuresHaveCauses, heldStaysHeld, refusalsAreRightful } from './judge-service.ts'
import { groupBy, sum } from './lists.ts'
import { givenBack, last4Of as last4OfModel, lostTo } from './model-provider.ts'
import { type WaveSeen, waved } from './wave.ts'

export type Violation = { readonly invariant: string; readonly detail: string }

/** Judges a run that has come to rest. It shares no code with the service and believes nothing that it says of itself. */
export async function check(evidence: Evidence): Promise<Violation[]> {
  const facts = await gatherFacts(evidence)
  const violations: Violation[] = []
  for (const [invariant, findings] of Object.entries(invariants)) {
    for (const detail of await findings(facts)) violations.push({ invariant, detail })
  }
  return violations
}

type Invariant = (facts: Facts) => string[] | Promise<string[]>

const invariants: Readonly<Record<string, Invariant>> = {
  'ledger transfers sum to zero': ledgerBalances,
  "the provider's money is ours": moneyAgrees,
  'a period is charged once, in time, and the right amount': chargedOnce,
  'periods follow the calendar': periodsFollowTheCalendar,
  'a price is the one that was agreed on': pricesAreAsAgreed,
  'what was rightful is not refused': refusalsAreRightful,
  'what failed was declined by somebody': failuresHaveCauses,
  'what was missed is collected by operators alone': heldStaysHeld,
  'no more goes back than was taken': refundsStayWithin,
  'what was acknowledged is there': acknowledgedIsThere,
  'every doubt ends': doubtsEnd,
  'a doubt is given up late enough, and a key is used only while it is known': doubtsTakeTheirTime,
  'a "no" counts only where it proves something': refusalsProveSomething,
  'a late first send is looked up before': lateSendsAreLookedUp,
  'nothing is booked while the provider names another amount': otherAmountsWait,
  'an alarm ends with its cause': alarmsEnd,
  'a key follows from its place alone': keysFollowFromPlaces,
  'one trial per account for ever': oneTrial,
  'one live subscription per account': oneLive,
  'an acknowledged notification takes effect once': notificationsOnce,
  'each fact is told once': eventsOnce,
  'a repeat gets the first answer to the byte': repeatsAgree,
  'what is sealed opens with the keys of every process': sealedOpens,
  'what was erased is gone': erasureHolds,
  'what was told before an erasure is not kept after it': erasedTextIsGone,
  'a contact is the newest that was given': contactsAreTheNewest,
  'no charge after an accepted cancellation': cancellationHolds,
  'money that pays for nothing goes back': unmatchedMoneyGoesBack,
  'unmatched money is never silent': unmatchedIsTold,
  'a dispute is followed to its end, and a lost one is booked': disputesAreFollowed,
  'invoice numbers have no gap': numbersHaveNoGap,
  'retries keep their days': retriesKeepTheirDays,
  'the limiter is exact': limiterIsExact,
  'no secret is seen': secretsStayInside,
  'nothing due stays undone': nothingDue,
  'a wave keeps nobody waiting': wavesKeepNobodyWaiting,
  'states agree with the money': statesAgree,
  'every answer is one the contract knows': answersAreKnown,
}

function ledgerBalances({ transfers }: Facts): string[] {
  return [...groupBy(transfers, ({ cause }) => cause)]
    .filter(([, entries]) => sum(entries, ({ amount }) => amount ?? 0n) !== 0n || entries.length !== 2)
    .map(
      ([cause, entries]) => `${cause}: ${entries.map(({ book, amount }) => `${book} ${amount}`).join(', ')}`,
    )
}

function moneyAgrees({ book, payments, transfers, invoices, refunds }: Facts): string[] {
  const found: string[] = []
  const known = new Map(payments.map((payment) => [payment.id, payment]))
  const taken = groupBy(
    book.filter(({ status }) => status === 'paid'),
    ({ reference }) => reference,
  )
  for (const [reference, charges] of taken) {
    if (!known.has(reference)) found.push(`the provider charged ${reference}, which we do not know`)
    if (charges.length > 1) found.push(`the provider charged ${reference} ${charges.length} times`)
  }
  const refundsOf = groupBy(refunds, ({ payment_id }) => payment_id)
  for (const payment of payments) {
    const charges = taken.get(payment.id) ?? []
    const captured = sum(charges, ({ amount }) => amount.minor)
    const returned = sum(charges, givenBack)
    if (captured !== payment.captured)
      found.push(`${payment.id}: the provider took ${captured}, we recorded ${payment.captured}`)
    if (returned !== payment.refunded)
      found.push(`${payment.id}: the provider gave back ${returned}, we recorded ${payment.refunded}`)
    const done = (refundsOf.get(payment.id) ?? []).filter(({ status }) => status === 'succeeded')
    if (sum(done, ({ amount }) => amount) !== payment.refunded)
      found.push(`${payment.id}: refunds do not add up`)
  }
  const attemptsOf = groupBy(payments, ({ invoice_id }) => invoice_id)
  for (const invoice of invoices) {
    const paying = (attemptsOf.get(invoice.id) ?? []).filter(
      ({ status, unmatched }) => status === 'succeeded' && !unmatched,
    )
    const paid = sum(paying, ({ captured }) => captured)
    const refunded = sum(paying, (payment) => payment.refunded)
    if (paid !== invoice.amount_paid || refunded !== invoice.amount_refunded)
      found.push(
        `${invoice.id}: its totals are ${invoice.amount_paid} − ${invoice.amount_refunded}, its payments ${paid} − ${refunded}`,
      )
  }
  for (const currency of ['KRW', 'USD']) {
    const ours = payments.filter((payment) => payment.currency === currency)
    const unmatched = ours.filter((payment) => payment.unmatched)
    const proper = ours.filter((payment) => !payment.unmatched)
    const balance = (name: string) =>
      sum(
        transfers.filter((entry) => entry.currency === currency && entry.book === name),
        ({ amount }) => amount,
      )
    const atProvider = sum(
      book.filter(({ status, amount }) => status === 'paid' && amount.currency === currency),
      (charge) => charge.amount.minor - givenBack(charge) - lostTo(charge),
    )
    const expected = {
      provider: atProvider,
      revenue: -sum(proper, ({ captured }) => captured),
      refunds: sum(proper, ({ refunded }) => refunded),
      unclaimed: -sum(unmatched, leftOf),
      disputes: sum(proper, ({ dispute_lost }) => dispute_lost),
      settlements: -sum(unmatched, ({ settled_by_hand }) => settled_by_hand),
    }
    for (const [name, amount] of Object.entries(expected))
      if (balance(name) !== amount)
        found.push(`book ${name} holds ${balance(name)} ${currency} instead of ${amount}`)
  }
  return found
}

/** What nobody has got back of money that pays for nothing. */
function leftOf({ captured, refunded, settled_by_hand, dispute_lost }: Payment): bigint {
  return captured - refunded - settled_by_hand - dispute_lost
}

function chargedOnce({ book, periods, payments, invoices, subscriptions, prices, adopted }: Facts): string[] {
  const found: string[] = []
  const attemptsOf = groupBy(payments, (payment) => payment.invoice_id)
  const chargesOf = groupBy(book, ({ reference }) => reference)
  for (const { subscription_id, k, start_at, end_at, invoice_id } of periods) {
    const name = `period ${k} of ${subscription_id}`
    const invoice = invoices.find(({ id }) => id === invoice_id)!
    const subscription = subscriptions.find(({ id }) => id === subscription_id)!
    const attempts = attemptsOf.get(invoice_id) ?? []
    const proper = attempts.filter(({ status, unmatched }) => status === 'succeeded' && !unmatched)
    if (proper.length > 1) found.push(`${name} was charged ${proper.length} times`)
    for (const unmatched of attempts.filter((payment) => payment.unmatched)) {
      const charge = chargesOf.get(unmatched.id)?.[0]
      const withdrawn = invoice.status === 'void' || invoice.status === 'uncollectible'
      if (!withdrawn && !charge?.late) found.push(`${name} was charged once more, as ${unmatched.id}`)
    }
    for (const { reference, amount, at } of attempts.flatMap(({ id }) => chargesOf.get(id) ?? [])) {
      if (amount.minor !== invoice.amount_due || amount.currency !== invoice.currency)
        found.push(
          `${name}: ${reference} asked for ${amount.minor} ${amount.currency}, due was ${invoice.amount_due}`,
        )
      if (at < start_at.getTime()) found.push(`${name} was charged before it began`)
    }
    if (attempts[0] && attempts[0].created_at >= end_at && !adopted.has(attempts[0].id))
      found.push(`${name} was over when it was first charged`)
    if (invoice.amount_due !== subscription.amount || invoice.currency !== subscription.currency)
      found.push(`${name} is billed ${invoice.amount_due}, its terms say ${subscription.amount}`)
  }
  for (const { id, plan_id, amount } of subscriptions)
    if (!prices.get(plan_id)?.includes(amount))
      found.push(`${id} costs ${amount}, which ${plan_id} never did`)
  const billed = groupBy(periods, ({ invoice_id }) => invoice_id)
  for (const { id } of invoices) if (billed.get(id)?.length !== 1) found.push(`${id} bills not one period`)
  return found
}

const day = 86_400_000

/** The k-th interval after an anchor, computed anew. */
function startOf({ anchor, time_zone, interval_unit, interval_count }: Subscription, k: number): number {
  const at = anchor.getTime()
  return k === 0 ? at : addLocal(at, time_zone, interval_unit, k * interval_count)
}

function periodsFollowTheCalendar({ subscriptions, periods, invoices, plans, requests }: Facts): string[] {
  const found: string[] = []
  for (const subscription of subscriptions) {
    const own = periods.filter(({ subscription_id }) => subscription_id === subscription.id)
    own.forEach(({ k, start_at, end_at, invoice_id }, at) => {
      const name = `period ${k} of ${subscription.id}`
      if (k !== at) found.push(`${name} stands where ${at} should`)
      const right =
        startOf(subscription, k) === start_at.getTime() && startOf(subscription, k + 1) === end_at.getTime()
      if (!right) found.push(`${name} is ${start_at.toISOString()} to ${end_at.toISOString()}`)
      const invoice = invoices.find(({ id }) => id === invoice_id)!
      if (
        invoice.period_start.getTime() !== start_at.getTime() ||
        invoice.period_end.getTime() !== end_at.getTime()
      )
        found.push(`${name} and its invoice disagree on when it is`)
    })
    const { status, next_billing_at, trial_ends_at, last_k } = subscription
    const begins = own[0]?.start_at.getTime() ?? trial_ends_at?.getTime()
    if (trial_ends_at && begins !== trial_ends_at.getTime())
      found.push(`${subscription.id} is billed from another instant than its trial's end`)
    const asked = requests.find((entry) => dataOf(entry)?.subscription_id === subscription.id)
    const zone = (asked?.body as { timezone?: string } | undefined)?.timezone
    // A trial keeps the zone in which it began.
    if (zone !== undefined && zone !== subscription.time_zone && !trial_ends_at)
      found.push(`${subscription.id} lives in ${subscription.time_zone}, and ${zone} was asked for`)
    if (trial_ends_at && trial_ends_at.getTime() !== trialEndOf(subscription, plans))
      found.push(`${subscription.id} is on trial until ${trial_ends_at.toISOString()}`)
    if (last_k !== own.length - 1)
      found.push(`${subscription.id} counts ${last_k} and has ${own.length} periods`)
    const next = own.length === 0 ? trial_ends_at?.getTime() : startOf(subscription, own.length)
    if (status !== 'canceled' && next_billing_at?.getTime() !== next)
      found.push(`${subscription.id} is billed next at ${next_billing_at?.toISOString()}`)
  }
  return found
}

/** The plan may have been replaced since; every plan with a trial offers its own days. */
function trialEndOf(
  { created_at, time_zone, trial_ends_at }: Subscription,
  plans: Facts['plans'],
): number | undefined {
  return plans
    .map(({ trial_days }) => addLocal(created_at.getTime(), time_zone, 'day', trial_days))
    .find((end) => end === trial_ends_at!.getTime())
}

function refundsStayWithin({ book, payments }: Facts): string[] {
  return [
    ...payments
      .filter(({ captured, refunded, refund_pending }) => refunded + refund_pending > captured)
      .map(({ id }) => `${id} at ours`),
    ...book
      .filter((charge) => givenBack(charge) > charge.amount.minor)
      .map(({ reference }) => `${reference} at the provider`),
  ]
}

function acknowledgedIsThere(facts: Facts): string[] {
  return facts.requests.flatMap((entry) => {
    const data = dataOf(entry)
    if (data === undefined) return []
    const missing = acknowledgedBy(facts, entry, data)
    return missing === undefined ? [] : [`#${entry.step} ${entry.path}: ${missing}`]
  })
}

// biome-ignore lint/suspicious/noExplicitAny: see dataOf
function acknowledgedBy(facts: Facts, entry: RequestEntry, data: any): string | undefined {
  const body = entry.body as { amount?: number; keywords?: string[] } | undefined
  const subscription = facts.subscriptions.find(({ id }) => id === data.subscription_id)
  switch (entry.path.replace('/api/billing', '')) {
    case '/subscribe': {
      if (!subscription) return 'there is no such subscription'
      if (entry.answer!.status !== 201 || data.status !== 'active') return undefined
      const first = facts.periods.find(
        ({ subscription_id, k }) => subscription_id === subscription.id && k === 0,
      )
      const invoice = facts.invoices.find(({ id }) => id === first?.invoice_id)
      if (invoice && invoice.amount_paid === invoice.amount_due) return undefined
      // A trial that got its card long after its end: the periods that were missed meanwhile wait for an operator.
      return subscription.trial_ends_at && invoice?.hold ? undefined : 'its first period is not paid'
    }
    case '/trial':
      if (!subscription?.trial_ends_at) return 'there is no such trial'
      return facts.grants.some(({ subscription_id }) => subscription_id === subscription.id)
        ? undefined
        : 'the grant is missing'
    case '/resume': {
      const later = laterOf(facts, deedOf(facts, entry), '/cancel', data.subscription_id)
      return !later && subscription?.status === 'canceled' && subscription.cancel_code === 'requested'
        ? 'it ended as if it had not been resumed'
        : undefined
    }
    case '/payment-method':
      return entry.answer!.status === 200 ? cardInUse(facts, entry, subscription) : undefined
    case '/refund': {
      const refund = facts.refunds.find(({ id }) => id === data.refund_id)
      if (!refund) return 'there is no such refund'
      if (body?.amount !== undefined && BigInt(body.amount) !== refund.amount) return 'its amount differs'
      if (data.status !== 'succeeded' || refund.status === 'succeeded') return undefined
      const bounced = facts.book.some(({ refunds }) =>
        refunds.some(({ reference, status }) => reference === refund.id && status === 'failed'),
      )
      return bounced ? undefined : `it is ${refund.status}`
    }
    case '/plans/weekly':
    case '/plans/monthly': {
      const later = facts.requests.some(
        ({ step, path, method }) => method === 'PUT' && path === entry.path && step > entry.step,
      )
      return later || facts.plans.find(({ id }) => id === data.plan_id)?.amount === BigInt(data.amount)
        ? undefined
        : 'the price is another'
    }
    case '/api/batch/keywords': {
      if (entry.method !== 'POST') return undefined
      const asked = body!.keywords!
      if (data.registered + data.skipped !== asked.length) return 'the counts do not add up'
      const absent = asked.filter((keyword) => !facts.keywords.some((one) => one.keyword === keyword))
      return absent.length > 0 ? `${absent.join(', ')} are not there` : undefined
    }
    default:
      return undefined
  }
}

/** A repeat tells once more of what the first request with its key did. */
function deedOf({ requests }: Facts, entry: RequestEntry): RequestEntry {
  if (!entry.answer?.replayed) return entry
  return requests.find(({ path, key }) => path === entry.path && key === entry.key) ?? entry
}

/** A request of that kind about the same subscription that may have worked at the same time or later. */
function laterOf(
  facts: Facts,
  entry: RequestEntry,
  path: string,
  subscriptionId: string,
): RequestEntry | undefined {
  return facts.allRequests.find(
    (one) =>
      one !== entry &&
      one.path === `/api/billing${path}` &&
      lastStepOf(one) >= entry.step &&
      (one.body as { subscription_id?: string })?.subscription_id === subscriptionId &&
      mayHaveWorked(one),
  )
}

/** The newest accepted card is the one in use, unless a later one may have taken its place or the account was erased. */
function cardInUse(
  facts: Facts,
  entry: RequestEntry,
  subscription: Subscription | undefined,
): string | undefined {
  if (!subscription) return 'there is no such subscription'
  const { requests, methods, last4Of = last4OfModel } = facts
  const first = requests.find((one) => one.key !== undefined && one.key === entry.key) ?? entry
  const others = requests.filter(
    (one) =>
      one !== entry &&
      one.path === entry.path &&
      (one.key === undefined || one.key !== entry.key) &&
      (one.body as { subscription_id: string }).subscription_id === subscription.id &&
      one.answer?.status !== 404,
  )
  // Cards that were asked for earlier and settled later may also have won.
  const contested = others.some(
    (one) => lastStepOf(one) >= first.step || one.answer === null || one.answer.status !== 200,
  )
  const account = subscription.account_id
  const erased = facts.allRequests.some(
    (one) => one.method === 'DELETE' && one.path.endsWith(`/${account}`) && mayHaveWorked(one),
  )
  const converted = requests.some(
    (one) =>
      one.path === '/api/billing/subscribe' &&
      (one.body as { account_id: string }).account_id === account &&
      lastStepOf(one) >= first.step &&
      mayHaveWorked(one),
  )
  const lost = facts.alarms.some(
    (one) => one.kind === 'card_lost_in_restore' && one.subject === subscription.id,
  )
  if (contested || erased || converted || lost) return undefined
  const given = (entry.body as { payment_method: { billing_key?: string; auth_key?: string } }).payment_method
  const used = methods.find(({ id }) => id === subscription.payment_method_id)
  return used?.last4 === last4Of(given.billing_key ?? given.auth_key!) ? undefined : 'another card is in use'
}

function doubtsEnd({ payments, refunds, methods, subscriptions, book }: Facts): string[] {
  const paid = new Set(book.filter(({ status }) => status === 'paid').map(({ reference }) => reference))
  const returns = book.flatMap(({ refunds: all }) =>
    all
      .filter(({ status }) => status === 'succeeded')
      .map((one) => ({ ...one, bounced: all.some(({ status }) => status === 'failed') })),
  )
  return [
    ...payments
      .filter(({ status }) => status !== 'succeeded' && status !== 'failed')
      .map(({ id, status }) => `${id} is ${status}`),
    ...payments
      .filter(({ id, status }) => (status === 'succeeded') !== paid.has(id))
      .map(({ id, status }) => `${id} is ${status}, the provider says otherwise`),
    ...refunds.filter(({ status }) => status === 'pending').map(({ id }) => `${id} is pending`),
    // One that arrives after it was given up is another matter, and is recorded as money that went back by itself.
    ...refunds
      .filter(({ status }) => status === 'failed')
      .filter(({ id, code, settled_at }) =>
        returns.some(
          // What was refused because of another's money may be done later, once that has bounced.
          ({ reference, at, bounced }) =>
            reference === id && ((code === 'refund_declined' && !bounced) || at < settled_at!.getTime()),
        ),
      )
      .map(({ id }) => `${id} failed, and the provider had given the money back`),
    ...methods.filter(({ state }) => state === 'pending').map(({ id }) => `${id} is pending`),
    ...subscriptions.filter(({ status }) => status === 'incomplete').map(({ id }) => `${id} is incomplete`),
  ]
}

const keyWindowMs = day

/** Sent again only inside the key window; given up an hour after it at the soonest. */
function doubtsTakeTheirTime({ asked, payments, restores, adopted }: Facts): string[] {
  const found: string[] = []
  // Whoever went back to a copy looks the key up, and asks for the first time.
  const eraOf = (step: number) => restores.filter((one) => one.step < step).length
  for (const [name, times] of groupBy(asked, (one) => `${one.key} ${eraOf(one.step)}`)) {
    const [key] = name.split(' ')
    const late = times.filter(({ at }) => at >= times[0]!.at + keyWindowMs)
    if (late.length > 0) found.push(`${key} was sent again ${late.length} times after its window`)
  }
  for (const { id, created_at, settled_at, code } of payments.filter((one) => !adopted.has(one.id)))
    if (code === 'never_arrived' && settled_at!.getTime() < created_at.getTime() + keyWindowMs + 3_600_000)
      found.push(`${id} was given up too soon`)
  return found
}

const hour = 3_600_000
const ownEnds = new Set(['never_arrived', 'provider_unavailable', 'withdrawn'])

/**
 * An attempt fails for what the provider said to its first send, or said again as its first answer, or has on record; or
 * for the same "no" to re-sends, three times over an hour. Our own credentials are nobody's "no".
 */
function refusalsProveSomething({ payments, asked, told, book }: Facts): string[] {
  if (!told) return []
  return payments
    .filter(({ status, code }) => status === 'failed' && !ownEnds.has(code!))
    .filter(({ id, code }) => {
      // A key for one use that cannot be exchanged, or a card that is gone, needs no provider's word on the charge.
      if (!asked.some(({ key }) => key === id)) return code !== 'billing_key_invalid'
      if (book.some(({ reference, status }) => reference === id && status === 'declined')) return false
      const same = told.filter((one) => one.key === id && one.code === code)
      if (same.some(({ first, replayed }) => first || replayed)) return false
      return same.length < 3 || same.at(-1)!.at - same[0]!.at < hour
    })
    .map(({ id, code }) => `${id} failed as ${code}`)
}

/** More than an hour after its invoice fell due, and some air for what takes time. */
function lateSendsAreLookedUp({ payments, invoices, calls }: Facts): string[] {
  if (!calls) return []
  const dueOf = new Map(invoices.map(({ id, period_start }) => [id, period_start.getTime()]))
  return payments
    .filter(({ id, invoice_id }) => {
      const own = calls.filter(({ key }) => key === id)
      const sent = own.findIndex(({ call }) => call === 'charge')
      return sent === 0 && own[0]!.at > dueOf.get(invoice_id)! + 2 * hour
    })
    .map(({ id }) => id)
}

function otherAmountsWait({ payments, book, adopted }: Facts): string[] {
  return payments
    .filter(({ id }) => !adopted.has(id))
    .filter(({ id, settled_at, status }) =>
      book.some(
        ({ reference, wrongUntil }) =>
          reference === id &&
          wrongUntil !== undefined &&
          status === 'succeeded' &&
          settled_at!.getTime() < wrongUntil,
      ),
    )
    .map(({ id }) => id)
}

function alarmsEnd({ alarms }: Facts): string[] {
  const passing = new Set(['amount_differs', 'key_used_otherwise', 'credentials_refused', 'sweep_failed'])
  return alarms.filter(({ kind }) => passing.has(kind)).map(({ kind, subject }) => `${kind} ${subject}`)
}

/** Computed anew: a database that forgot what it sent must come to the same key for the same obligation. */
function keysFollowFromPlaces({ installation, payments, periods, refunds, restores }: Facts): string[] {
  const derive = (...place: unknown[]) =>
    `rl_${createHash('sha256').update(place.join(' ')).digest('hex').slice(0, 40)}`
  const periodOf = new Map(periods.map((one) => [one.invoice_id, one]))
  const referenceOf = new Map(payments.map(({ id, provider_reference }) => [id, provider_reference]))
  const numbered = (all: readonly (number | null)[]) =>
    all.filter((n) => n !== null).every((_, at, own) => own.includes(at + 1))
  return [
    ...payments
      .filter(({ invoice_id, attempt, provider_reference }) => {
        const { subscription_id, k } = periodOf.get(invoice_id)!
        return derive('charge', installation, subscription_id, k, attempt) !== provider_reference
      })
      .map(({ id }) => id),
    ...refunds
      .filter(({ provider_reference }) => provider_reference !== null)
      .filter(
        ({ payment_id, n, provider_reference }) =>
          derive('refund', referenceOf.get(payment_id), n) !== provider_reference,
      )
      .map(({ id }) => id),
    ...[...groupBy(payments, ({ invoice_id }) => invoice_id)]
      .filter(([, own]) => !numbered(own.map(({ attempt }) => attempt)))
      .map(([id]) => `the attempts of ${id} are not numbered from 1`),
    ...[...groupBy(refunds, ({ payment_id }) => payment_id)]
      // Of forgotten refunds only those come back that the provider has on record.
      .filter(([, own]) => restores.length === 0 && !numbered(own.map(({ n }) => n)))
      .map(([id]) => `the refunds of ${id} are not numbered from 1`),
  ]
}

function oneTrial({ allRequests, subscriptions, grants }: Facts): string[] {
  const told = groupBy(
    allRequests.filter((entry) => entry.path === '/api/billing/trial' && entry.answer?.status === 201),
    (entry) => dataOf(entry).account_id as string,
  )
  const held = groupBy(
    subscriptions.filter(({ trial_ends_at }) => trial_ends_at !== null),
    ({ account_id }) => account_id,
  )
  return [
    ...[...told]
      .filter(([, entries]) => new Set(entries.map((entry) => dataOf(entry).subscription_id)).size > 1)
      .map(([account]) => `${account} was told of more than one`),
    ...[...held].filter(([, own]) => own.length > 1).map(([account]) => `${account} had more than one`),
    ...[...held]
      .filter(
        ([account, own]) =>
          !grants.some((grant) => grant.account_id === account && grant.subscription_id === own[0]!.id),
      )
      .map(([account]) => `${account} has no grant for its trial`),
  ]
}

function oneLive({ subscriptions }: Facts): string[] {
  const live = groupBy(
    subscriptions.filter(({ status }) => status !== 'canceled'),
    ({ account_id }) => account_id,
  )
  return [...live].filter(([, own]) => own.length > 1).map(([account]) => account)
}

function notificationsOnce({ deliveries, webhooks, payments }: Facts): string[] {
  const found: string[] = []
  for (const [eventId, tries] of groupBy(deliveries, (entry) => entry.eventId)) {
    const taken = tries.filter(({ answer, forged }) => answer?.status === 200 && !forged)
    const stored = webhooks.find(({ event_id }) => event_id === eventId)
    if (tries.some(({ forged, answer }) => forged && answer !== null && answer.status !== 401))
      found.push(`${eventId} was forged and taken`)
    if (tries.every(({ forged }) => forged) && stored) found.push(`${eventId} was forged and stored`)
    if (taken.length === 0) continue
    if (!stored) found.push(`${eventId} was acknowledged and is not there`)
    else if (stored.status !== 'done' && stored.status !== 'ignored')
      found.push(`${eventId} is ${stored.status}`)
    const firsts = taken.filter(({ answer }) => JSON.parse(answer!.text).data.duplicate === false)
    if (firsts.length > 1) found.push(`${eventId} was new ${firsts.length} times`)
    // One that was not answered well may have been taken nevertheless.
    if (firsts.length === 0 && tries.every(({ answer }) => answer !== null && answer.status < 500))
      found.push(`${eventId} was never new`)
    const payment = payments.find(({ id }) => id === tries[0]!.reference)
    const expected = { 'payment.paid': 'succeeded', 'payment.declined': 'failed' }[tries[0]!.type]
    if (payment && expected !== undefined && payment.status !== expected)
      found.push(`${eventId} had no effect: ${payment.id} is ${payment.status}`)
  }
  return found
}

function eventsOnce({ events, payments, refunds, subscriptions, invoices }: Facts): string[] {
  const told = groupBy(events, ({ type, data, subscription_id }) => {
    const about = data['refund_id'] ?? data['payment_id'] ?? data['invoice_id'] ?? subscription_id
    return `${type} ${String(about)}`
  })
  const once = [
    ...payments
      .filter(({ status, unmatched }) => status === 'succeeded' && !unmatched)
      .map(({ id }) => `invoice.paid ${id}`),
    ...payments.filter(({ unmatched }) => unmatched).map(({ id }) => `payment.found_later ${id}`),
    ...payments.filter(({ status }) => status === 'failed').map(({ id }) => `payment.failed ${id}`),
    ...refunds.filter(({ status }) => status === 'succeeded').map(({ id }) => `refund.succeeded ${id}`),
    ...refunds.filter(({ origin }) => origin === 'request').map(({ id }) => `refund.requested ${id}`),
    ...subscriptions
      .filter(({ status }) => status === 'canceled')
      .map(({ id }) => `subscription.canceled ${id}`),
  ]
  const closed = invoices.filter(({ status }) => status === 'void' || status === 'uncollectible')
  const silent = closed.filter(
    ({ id }) =>
      !events.some(
        ({ type, data }) =>
          (type === 'invoice.voided' || type === 'invoice.uncollectible') && data['invoice_id'] === id,
      ),
  )
  const repeatable = new Set(['subscription.canceling', 'subscription.resumed', 'subscription.past_due'])
  for (const name of [
    'subscription.recovered',
    'payment_method.changed',
    'payment_method.dropped',
    'account.erased',
    'invoice.held',
    'payment.settled_by_hand',
  ])
    repeatable.add(name)
  return [
    ...once.filter((name) => !told.has(name)).map((name) => `${name} was not told`),
    ...silent.map(({ id, status }) => `${id} became ${status} without a word`),
    ...[...told]
      .filter(([name, all]) => all.length > 1 && !repeatable.has(name.split(' ')[0]!))
      .map(([name, all]) => `${name} was told ${all.length} times`),
  ]
}

function cancellationHolds(facts: Facts): string[] {
  const found: string[] = []
  for (const entry of facts.allRequests) {
    if (entry.path !== '/api/billing/cancel' || entry.answer?.status !== 200) continue
    // One that began after the copy is gone with all that was said of it.
    const isGone = !facts.subscriptions.some(({ id }) => id === dataOf(entry).subscription_id)
    if (isGone && facts.forgotten.includes(entry)) continue
    const repeats = facts.allRequests.filter((one) => one.path === entry.path && one.key === entry.key)
    const first = entry.key === undefined ? entry : repeats[0]!
    // A repeat tells once more what is judged where it was told first.
    if (first !== entry && repeats.find(({ answer }) => answer?.status === 200) !== entry) continue
    const data = dataOf(entry)
    const id = data.subscription_id as string
    if (laterOf(facts, first, '/resume', id)) continue
    const subscription = facts.subscriptions.find((one) => one.id === id)
    const endsAt = data.status === 'canceled' ? (entry.ended?.at ?? entry.at) : Date.parse(data.cancel_at)
    const lead = Date.parse(data.next_billing_at) - Date.parse(data.cancel_at)
    if (data.status === 'canceling' && lead !== 60_000)
      found.push(`${id} ends ${lead} ms before it would be billed`)
    const own = new Map(
      facts.payments.filter((one) => one.subscription_id === id).map((one) => [one.id, one]),
    )
    const begun = [...own.values()].filter(({ created_at }) => created_at.getTime() > endsAt)
    if (begun.length > 0) found.push(`${id}: ${begun.length} attempts began after its end`)
    // A request that takes time may overtake a charge that was decided before it and is on its way.
    const asked = entry.ended
      ? []
      : facts.asked.filter(
          ({ key, step }) =>
            (step > entry.step || (step === entry.step && isAlone(facts, entry))) &&
            own.has(key) &&
            // A period that was over by then is owed, and may be collected late.
            !facts.invoices.some(
              ({ id: invoiceId, period_end }) =>
                invoiceId === own.get(key)!.invoice_id && period_end.getTime() <= endsAt + 60_000,
            ),
        )
    if (data.status === 'canceled' && asked.length > 0) found.push(`${id}: money was asked for after its end`)
    const after = facts.periods.filter(
      ({ subscription_id, start_at }) => subscription_id === id && start_at.getTime() > endsAt,
    )
    if (after.length > 0) found.push(`${id}: ${after.length} periods after its end`)
    const charged = facts.book.filter(
      ({ reference, status }) =>
        status === 'paid' && after.some(({ invoice_id }) => own.get(reference)?.invoice_id === invoice_id),
    )
    // Whoever is first of a renewal and a cancellation at the same instant decides; both cannot have their way.
    const both = facts.periods.filter(
      ({ subscription_id, k, start_at }) =>
        subscription_id === id && k > 0 && start_at.getTime() === entry.at,
    )
    const paid = both.filter(({ invoice_id }) =>
      facts.invoices.some((one) => one.id === invoice_id && one.amount_paid > 0n),
    )
    if (data.status === 'canceled' && paid.length > 0) found.push(`${id} was renewed and ended at once`)
    if (charged.length > 0) found.push(`${id} was charged ${charged.length} times after its end`)
    if (!subscription) found.push(`${id} is gone`)
    else if (facts.now >= endsAt && subscription.status !== 'canceled')
      found.push(`${id} is ${subscription.status}`)
    else if (facts.now < endsAt && !['canceling', 'canceled'].includes(subscription.status))
      found.push(`${id} is ${subscription.status}, not canceling`)
  }
  return found
}

/** Nothing else happened in that step. */
function isAlone({ history }: Facts, entry: RequestEntry): boolean {
  const doing = new Set(['request', 'delivery', 'work'])
  return history.filter(({ kind, step }) => step === entry.step && doing.has(kind)).length === 1
}

/** Money for an invoice that is not paid goes back in full, unless the provider itself refuses that for good. */
function unmatchedMoneyGoesBack({ payments, refunds, invoices, book }: Facts): string[] {
  return payments
    .filter((payment) => payment.unmatched || isWithdrawn(invoices, payment))
    .filter((payment) => leftOf(payment) > 0n)
    .filter(({ id }) => {
      const charge = book.find(({ reference }) => reference === id)
      const own = refunds.filter(({ payment_id }) => payment_id === id)
      const refused = own.some(({ code }) => code === 'refund_declined' || code === 'payment_disputed')
      const bounced = charge?.refunds.some(({ status }) => status === 'failed')
      return !refused && !bounced
    })
    .map(({ id, captured, refunded }) => `${id}: ${refunded} of ${captured}`)
}

/** Whatever of it did not go back is an alarm until it has, and nothing else is. */
function unmatchedIsTold({ payments, alarms }: Facts): string[] {
  const told = new Set(alarms.filter(({ kind }) => kind === 'unmatched_money').map(({ subject }) => subject))
  const stuck = new Set(
    payments
      .filter((payment) => payment.unmatched && leftOf(payment) !== 0n && payment.refund_pending === 0n)
      .map(({ id }) => id),
  )
  return [
    ...[...stuck].filter((id) => !told.has(id)).map((id) => `${id} is stuck, and nobody is told`),
    ...[...told].filter((id) => !stuck.has(id)).map((id) => `${id} is told of, and is not stuck`),
  ]
}

function disputesAreFollowed({ book, payments, transfers }: Facts): string[] {
  const found: string[] = []
  for (const charge of book) {
    const payment = payments.find(({ id }) => id === charge.reference)
    if (!payment || charge.status !== 'paid') continue
    const theirs = charge.dispute?.status ?? null
    if (payment.dispute_status !== theirs)
      found.push(`${payment.id}: its dispute is ${theirs}, we say ${payment.dispute_status}`)
    const posted = -sum(
      transfers.filter(({ cause, book: name }) => isDisputeOf(payment.id, cause) && name === 'provider'),
      ({ amount }) => amount,
    )
    if (posted !== lostTo(charge))
      found.push(`${payment.id}: ${lostTo(charge)} was lost to the bank, ${posted} was booked`)
  }
  return found
}

function isDisputeOf(paymentId: string, cause: string): boolean {
  const [kind, id] = cause.split(':')
  return (kind === 'dispute_lost' || kind === 'dispute_reversal') && id === paymentId
}

function isWithdrawn(invoices: readonly Invoice[], { invoice_id }: Payment): boolean {
  const status = invoices.find(({ id }) => id === invoice_id)?.status
  return status === 'void' || status === 'uncollectible' || status === 'open'
}

function numbersHaveNoGap({ invoices }: Facts): string[] {
  return [...groupBy(invoices, ({ account_id }) => account_id)]
    .filter(([, own]) =>
      own
        .map(({ number }) => number)
        .sort((a, b) => a - b)
        .some((number, at) => number !== at + 1),
    )
    .map(([account, own]) => `${account}: ${own.map(({ number }) => number).join(' ')}`)
}

/** By itself an invoice is tried again a day after it first failed at the soonest; only another card comes sooner. */
function retriesKeepTheirDays({ payments, invoices, subscriptions, adopted }: Facts): string[] {
  const found: string[] = []
  for (const [invoiceId, attempts] of groupBy(payments, ({ invoice_id }) => invoice_id)) {
    const invoice = invoices.find(({ id }) => id === invoiceId)!
    if (invoice.attempt_count !== attempts.length)
      found.push(`${invoiceId} counts ${invoice.attempt_count} attempts of ${attempts.length}`)
    attempts.slice(1).forEach((attempt, at) => {
      // Which card a forgotten attempt tried, nobody knows any more.
      if (adopted.has(attempt.id)) return
      const before = attempts[at]!
      const settled = before.settled_at?.getTime() ?? Number.POSITIVE_INFINITY
      if (!before.unmatched && attempt.created_at.getTime() < settled)
        found.push(`${attempt.id} began before ${before.id} was settled`)
      if (attempt.payment_method_id !== before.payment_method_id) return
      const failed = invoice.first_failed_at?.getTime() ?? 0
      const zone = subscriptions.find(({ id }) => id === invoice.subscription_id)!.time_zone
      if (attempt.created_at.getTime() < addLocal(failed, zone, 'day', 1))
        found.push(`${attempt.id} came too soon`)
      if (before.code === 'lost_or_stolen') found.push(`${attempt.id} tried a stolen card again`)
    })
    const byItself = groupBy(attempts, ({ payment_method_id }) => payment_method_id)
    for (const [method, own] of byItself)
      if (own.filter(({ id }) => !adopted.has(id)).length > 5)
        found.push(`${method} was tried ${own.length} times`)
  }
  return found
}

const quota = 100
const windowMs = 60_000

/** Each call counts at some moment between its beginning and its end; only what follows for certain is held against us. */
function limiterIsExact({ allRequests, outages = [] }: Facts): string[] {
  const calls = allRequests.filter(
    ({ path, answer }) => path.startsWith('/api/batch') && answer?.status !== 401 && answer?.status !== 403,
  )
  return [...groupBy(calls, workspaceOf).values()].flatMap((own) => {
    const spans = own.map((call) => ({ call, from: call.realAt, to: call.ended?.realAt ?? call.realAt }))
    const admitted = spans
      .filter(({ call: { answer } }) => answer && answer.status !== 429 && answer.status < 500)
      // What was counted in the last second before a crash of the database may be forgotten.
      .filter((one) => !outages.some(({ from, to }) => one.to >= from - second && one.from <= to))
    const crowded = admitted.filter(
      ({ from }) => admitted.filter((one) => one.from >= from && one.to <= from + windowMs).length > quota,
    )
    const possible = spans.filter(({ call: { answer } }) => answer?.status !== 429)
    const keptOut = spans
      .filter(({ call: { answer } }) => answer?.status === 429)
      .map(({ call, from }) => ({
        call,
        before: possible.filter((one) => one.to >= from - windowMs && one.call.step <= lastStepOf(call))
          .length,
      }))
      .filter(({ before }) => before < quota)
    return [
      ...crowded.map(({ call }) => `more than ${quota} were let in within a minute of #${call.step}`),
      ...keptOut.map(({ call, before }) => `#${call.step} was kept out after ${before}`),
    ]
  })
}

const second = 1_000

function workspaceOf({ path, body }: RequestEntry): string {
  const asked = new URL(path, 'http://localhost').searchParams.get('workspace_id')
  return asked ?? (body as { workspace_id?: string } | undefined)?.workspace_id ?? ''
}

async function secretsStayInside({
  outputs,
  allRequests,
  deliveries,
  secrets,
  query,
}: Facts): Promise<string[]> {
  const stored = await query<{ text: string | null }>(
    storedTables
      .map((table) => `select string_agg(t::text, ' ') as text from ${table} t`)
      .join(' union all '),
  )
  const places: readonly [string, string][] = [
    ...outputs.map((text): [string, string] => ['the log', text]),
    // An account's own page tells who it is.
    ...[
      ...allRequests.filter(({ method, path }) => method !== 'PUT' || !path.includes('/accounts/')),
      ...deliveries,
    ].map((entry): [string, string] => [`answer #${entry.step}`, entry.answer?.text ?? '']),
    ...stored.map(({ text }, at): [string, string] => [storedTables[at]!, text ?? '']),
  ]
  const found: string[] = []
  for (const secret of secrets) {
    const hex = Buffer.from(secret).toString('hex')
    for (const [place, text] of places)
      if (text.includes(secret) || text.includes(hex)) found.push(`${secret.slice(0, 4)}… in ${place}`)
  }
  return found
}

const storedTables = [
  'billing.account',
  'billing.account_contact',
  'billing.subscription',
  'billing.payment_method',
  'billing.invoice',
  'billing.payment',
  'billing.refund',
  'billing.event',
  'platform.audit',
  'billing.webhook',
  'platform.idempotency_key',
  'platform.token',
  'graphile_worker._private_jobs',
]

function nothingDue({ subscriptions, invoices, webhooks, jobs, now }: Facts): string[] {
  const due = (at: Date | null) => at !== null && at.getTime() <= now
  return [
    ...subscriptions
      .filter(
        ({ status, next_billing_at }) => ['active', 'trialing'].includes(status) && due(next_billing_at),
      )
      .map(({ id }) => `${id} was to be renewed or ended`),
    ...subscriptions
      .filter(({ status, cancel_at }) => status === 'canceling' && due(cancel_at))
      .map(({ id }) => `${id} was to end`),
    ...invoices
      .filter(({ due_at }) => due(due_at))
      .map(({ id }) => `${id} was to be tried again or given up`),
    ...webhooks.filter(({ status }) => status === 'waiting').map(({ event_id }) => `${event_id} waits`),
    ...(jobs > 0 ? [`${jobs} jobs are left`] : []),
  ]
}

/** One broken row, a long silence or a stop in the middle of a wave harm nobody else. */
function wavesKeepNobodyWaiting({ history }: Facts): string[] {
  return history.flatMap((entry) => {
    if (entry.kind !== 'work' || entry.what !== waved) return []
    const { afterSignal, kept, inDoubt, untold } = JSON.parse(entry.outcome) as WaveSeen
    return [
      ...(afterSignal > 0 ? [`${afterSignal} calls after the signal`] : []),
      ...kept.map((id) => `${id} was due, and nobody came to it`),
      ...inDoubt.map((id) => `${id} is in doubt a minute after the provider answered again`),
      ...untold.map((id) => `${id} is broken, and nobody is told`),
    ]
  })
}

function statesAgree({ subscriptions, invoices, periods, methods }: Facts): string[] {
  const found: string[] = []
  for (const invoice of invoices) {
    const { id, status, amount_due, amount_paid, amount_refunded } = invoice
    const expected =
      amount_paid === 0n
        ? undefined
        : amount_refunded === 0n
          ? 'paid'
          : amount_refunded < amount_paid
            ? 'partially_refunded'
            : 'refunded'
    if (expected !== undefined && (status !== expected || amount_paid !== amount_due))
      found.push(`${id} is ${status} with ${amount_paid} − ${amount_refunded} of ${amount_due}`)
    if (expected === undefined && !['open', 'void', 'uncollectible'].includes(status))
      found.push(`${id} is ${status} without money`)
  }
  for (const { id, status, payment_method_id, cancel_code, trial_ends_at } of subscriptions) {
    const owed = invoices.filter(
      (one) => one.subscription_id === id && one.status === 'open' && one.hold === null,
    )
    const failed = owed.filter(({ first_failed_at, due_at }) => first_failed_at !== null && due_at !== null)
    if (status === 'past_due' && (failed.length === 0 || owed.length !== failed.length))
      found.push(`${id} is past due with ${owed.length} owed and ${failed.length} in dunning`)
    if (status !== 'past_due' && owed.length > 0)
      found.push(`${id} is ${status} and owes ${owed.map((one) => one.id).join(' ')}`)
    if (status === 'trialing' && periods.some((one) => one.subscription_id === id))
      found.push(`${id} is on trial and billed`)
    if (cancel_code === 'trial_ended' && payment_method_id !== null)
      found.push(`${id} ended after its trial in spite of a card`)
    const first = invoices.find(
      (one) => one.id === periods.find((p) => p.subscription_id === id && p.k === 0)?.invoice_id,
    )
    const begun = trial_ends_at !== null || first === undefined || first.amount_paid > 0n
    if (status !== 'canceled' && !begun) found.push(`${id} is ${status} and was never paid for`)
    if (status === 'canceled' && !begun && first.status !== 'void')
      found.push(`${id} was never begun, and its invoice is ${first.status}`)
    if (status === 'canceled' && cancel_code === null) found.push(`${id} ended for no reason`)
    const card = methods.find((one) => one.id === payment_method_id)
    if (['active', 'past_due'].includes(status) && card?.state !== 'kept')
      found.push(`${id} is ${status} with a ${card?.state} card`)
  }
  return found
}

/** The database went away under a request that had begun: the one honest answer is that nobody knows. */
function isOutcomeUnknown(text: string): boolean {
  return JSON.parse(text).error?.type === 'OutcomeUnknown'
}

function answersAreKnown({ allRequests, deliveries, outages }: Facts): string[] {
  const away = outages ? ['provider_unavailable', 'service_unavailable'] : ['provider_unavailable']
  const strange = allRequests.filter((entry) => {
    const { answer } = entry
    if (!answer) return false
    if (answer.status === 500) return !entry.exploded && !(outages && isOutcomeUnknown(answer.text))
    if (answer.status === 502) return errorCodeOf(entry) !== 'provider_error'
    if (answer.status === 503) return !away.includes(errorCodeOf(entry) ?? '')
    // A request to turn the clock may come late, when the clock has passed its target.
    if (errorCodeOf(entry) === 'clock_backwards') return !entry.ended
    return answer.status === 400 || answer.status === 401 || answer.status === 403 || answer.status > 503
  })
  return [
    ...strange.map(({ step, path, answer }) => `#${step} ${path}: ${answer!.status} ${answer!.text}`),
    ...deliveries
      .filter(({ answer, forged }) => answer && answer.status !== (forged ? 401 : 200))
      .filter(({ answer }) => !(outages && answer!.status === 503))
      .map(({ step, answer }) => `#${step} webhook: ${answer!.status}`),
  ]
}

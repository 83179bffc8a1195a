import { dataOf, errorCodeOf, type Facts, lastStepOf, mayHaveWorked, type Subscription } from './facts.ts'
import type { DeliveryEntry, RequestEntry } from './history.ts'
import { groupBy } from './lists.ts'
import { last4Of as last4OfModel } from './model-provider.ts'

export function acknowledgedIsThere(facts: Facts): string[] {
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
  if (contested || erased || converted) return undefined
  const given = (entry.body as { payment_method: { billing_key?: string; auth_key?: string } }).payment_method
  const used = methods.find(({ id }) => id === subscription.payment_method_id)
  // A restore takes the key of the card away, and its digits with it; the subscription may have ended since.
  if (used?.failure === 'lost_in_restore') return undefined
  return used?.last4 === last4Of(given.billing_key ?? given.auth_key!) ? undefined : 'another card is in use'
}

export function cancellationHolds(facts: Facts): string[] {
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
    // One that was adopted is dated by when its money was asked for, which is judged below.
    const begun = [...own.values()].filter(
      (one) => one.created_at.getTime() > endsAt && !facts.adopted.has(one.id),
    )
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

const quota = 100

const windowMs = 60_000

/** Each call counts at some moment between its beginning and its end; only what follows for certain is held against us. */
export function limiterIsExact({ allRequests, outages = [] }: Facts): string[] {
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

/** The database went away under a request that had begun: the one honest answer is that nobody knows. */
function isOutcomeUnknown(text: string): boolean {
  return JSON.parse(text).error?.type === 'OutcomeUnknown'
}

/** Its sender tries again in both cases, and the event's id makes sure that it counts once. */
function saysDatabaseAway({ status, text }: { status: number; text: string }): boolean {
  return status === 503 || (status === 500 && isOutcomeUnknown(text))
}

/** A hint bears no signature that could be wrong; only the secret of its path can be. */
function rightStatusOf({ forged, hint }: DeliveryEntry): number {
  if (hint) return hint.forgery === 'wrong secret' ? 404 : 200
  return forged ? 401 : 200
}

export function answersAreKnown({ allRequests, deliveries, outages }: Facts): string[] {
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
      .filter((entry) => entry.answer && entry.answer.status !== rightStatusOf(entry))
      .filter(({ answer }) => !(outages && saysDatabaseAway(answer!)))
      .map(({ step, answer }) => `#${step} webhook: ${answer!.status} ${answer!.text}`),
  ]
}

import { dataOf, type Facts } from './facts.ts'
import { groupBy } from './lists.ts'
import { type WaveSeen, waved } from './wave.ts'

export function oneTrial({ allRequests, subscriptions, grants }: Facts): string[] {
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

export function oneLive({ subscriptions }: Facts): string[] {
  const live = groupBy(
    subscriptions.filter(({ status }) => status !== 'canceled'),
    ({ account_id }) => account_id,
  )
  return [...live].filter(([, own]) => own.length > 1).map(([account]) => account)
}

export function notificationsOnce({ deliveries, webhooks, payments }: Facts): string[] {
  const found: string[] = []
  const signed = deliveries.filter(({ hint }) => !hint)
  for (const [eventId, tries] of groupBy(signed, (entry) => entry.eventId)) {
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

export function eventsOnce({ events, payments, refunds, subscriptions, invoices }: Facts): string[] {
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

export async function secretsStayInside({
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

export function nothingDue({ subscriptions, invoices, webhooks, jobs, now }: Facts): string[] {
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
    ...jobs.map(
      ({ task, attempts, max_attempts }) => `job ${task} is left after ${attempts} of ${max_attempts} tries`,
    ),
  ]
}

/** One broken row, a long silence or a stop in the middle of a wave harm nobody else. */
export function wavesKeepNobodyWaiting({ history }: Facts): string[] {
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

export function statesAgree({ subscriptions, invoices, periods, methods }: Facts): string[] {
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

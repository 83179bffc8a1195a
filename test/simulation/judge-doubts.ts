import { createHash } from 'node:crypto'
import { type Facts, mayHaveWorked } from './facts.ts'
import { groupBy } from './lists.ts'

export function doubtsEnd({ payments, refunds, methods, subscriptions, book }: Facts): string[] {
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

/** Sent again only inside the key window; given up an hour after it at the soonest. */
export function doubtsTakeTheirTime({ asked, payments, restores, adopted, keyWindowMs }: Facts): string[] {
  const found: string[] = []
  // Whoever went back to a copy looks the key up, and asks for the first time.
  const eraOf = (step: number) => restores.filter((one) => one.step < step).length
  for (const [name, times] of groupBy(asked, (one) => `${one.key} ${eraOf(one.step)}`)) {
    const [key] = name.split(' ')
    const late = times.filter(({ at }) => at >= times[0]!.at + keyWindowMs)
    if (late.length > 0) found.push(`${key} was sent again ${late.length} times after its window`)
  }
  // One that the copy had in doubt ended before an attempt that the lost database made after it, and is adopted with that.
  const endedThere = (at: number) => restores.some((one) => one.from <= at && at < one.at)
  for (const { id, created_at, settled_at, code } of payments) {
    if (code !== 'never_arrived' || adopted.has(id) || endedThere(settled_at!.getTime())) continue
    if (settled_at!.getTime() < created_at.getTime() + keyWindowMs + 3_600_000)
      found.push(`${id} was given up too soon`)
  }
  return found
}

const hour = 3_600_000

const ownEnds = new Set(['never_arrived', 'provider_unavailable', 'withdrawn'])

/**
 * An attempt fails for what the provider said to its first send, or said again as its first answer, or has on record; or
 * for the same "no" to re-sends, three times over an hour. Our own credentials are nobody's "no".
 */
export function refusalsProveSomething(facts: Facts): string[] {
  const { payments, methods, accounts, asked, told, book } = facts
  if (!told) return []
  const issued = new Set(methods.filter((one) => one.issued).map(({ id }) => id))
  const erased = new Set(accounts.filter(({ erased_at }) => erased_at).map(({ id }) => id))
  return payments
    .filter(({ status, code }) => status === 'failed' && !ownEnds.has(code!))
    .filter(({ id, code, payment_method_id, account_id, subscription_id }) => {
      // A key for one use that cannot be exchanged, or a card that is gone, needs no provider's word on the charge.
      if (!asked.some(({ key }) => key === id)) {
        const isGone = erased.has(account_id) || hasLostItsCard(facts, subscription_id)
        return code !== 'billing_key_invalid' || (issued.has(payment_method_id) && !isGone)
      }
      if (book.some(({ reference, status }) => reference === id && status === 'declined')) return false
      // Whoever was awaited and did not come: the provider has ended it, and nobody can confirm it any more.
      if (code === 'authentication_required')
        return !book.some(({ reference, status }) => reference === id && status === 'canceled')
      const same = told.filter((one) => one.key === id && one.code === code)
      if (same.some(({ first, replayed }) => first || replayed)) return false
      return same.length < 3 || same.at(-1)!.at - same[0]!.at < hour
    })
    .map(({ id, code }) => `${id} failed as ${code}`)
}

/** A restore forgot the card that took the place of another, whose key is used no more. */
function hasLostItsCard({ forgotten }: Facts, subscriptionId: string): boolean {
  return forgotten.some(
    (one) =>
      one.path === '/api/billing/payment-method' &&
      (one.body as { subscription_id?: string }).subscription_id === subscriptionId &&
      mayHaveWorked(one),
  )
}

/** What we have given up waits for no customer; a request that arrived after that is another matter. */
export function nothingGivenUpWaits({ payments, book }: Facts): string[] {
  const failed = new Set(payments.filter(({ status }) => status === 'failed').map(({ id }) => id))
  return book
    .filter(({ reference, status, late }) => status === 'awaiting' && !late && failed.has(reference))
    .map(({ reference }) => `${reference} can still be confirmed`)
}

/** More than an hour after its invoice fell due, and some air for what takes time. */
export function lateSendsAreLookedUp({ payments, invoices, calls }: Facts): string[] {
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

export function otherAmountsWait({ payments, book, adopted, restores }: Facts): string[] {
  return (
    payments
      // What was adopted, or in doubt in a copy, is dated by when its money was asked for.
      .filter(({ id }) => !adopted.has(id) && !restores.some(({ inDoubt }) => inDoubt.has(id)))
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
  )
}

export function alarmsEnd({ alarms }: Facts): string[] {
  const passing = new Set(['amount_differs', 'key_used_otherwise', 'credentials_refused', 'sweep_failed'])
  return alarms.filter(({ kind }) => passing.has(kind)).map(({ kind, subject }) => `${kind} ${subject}`)
}

/** Computed anew: a database that forgot what it sent must come to the same key for the same obligation. */
export function keysFollowFromPlaces({
  installation,
  payments,
  periods,
  refunds,
  restores,
}: Facts): string[] {
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

import type { Facts, Invoice, Payment } from './facts.ts'
import { groupBy, sum } from './lists.ts'
import { givenBack, heldByBank, isHidden } from './model-provider.ts'

export function ledgerBalances({ transfers }: Facts): string[] {
  return [...groupBy(transfers, ({ cause }) => cause)]
    .filter(([, entries]) => sum(entries, ({ amount }) => amount ?? 0n) !== 0n || entries.length !== 2)
    .map(
      ([cause, entries]) => `${cause}: ${entries.map(({ book, amount }) => `${book} ${amount}`).join(', ')}`,
    )
}

export function moneyAgrees({
  book,
  payments,
  transfers,
  invoices,
  refunds,
  withdrawsDisputed,
}: Facts): string[] {
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
      (charge) => charge.amount.minor - givenBack(charge) - heldByBank(charge, withdrawsDisputed),
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

export function refundsStayWithin({ book, payments }: Facts): string[] {
  return [
    ...payments
      .filter(({ captured, refunded, refund_pending }) => refunded + refund_pending > captured)
      .map(({ id }) => `${id} at ours`),
    ...book
      .filter((charge) => givenBack(charge) > charge.amount.minor)
      .map(({ reference }) => `${reference} at the provider`),
  ]
}

/** Money for an invoice that is not paid goes back in full, unless the provider itself refuses that for good. */
export function unmatchedMoneyGoesBack({ payments, refunds, invoices, book }: Facts): string[] {
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
export function unmatchedIsTold({ payments, alarms }: Facts): string[] {
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

export function disputesAreFollowed({
  book,
  payments,
  transfers,
  hidesDisputes,
  withdrawsDisputed,
}: Facts): string[] {
  const found: string[] = []
  for (const charge of book) {
    const payment = payments.find(({ id }) => id === charge.reference)
    if (!payment || charge.status !== 'paid') continue
    const theirs = charge.dispute?.status ?? null
    // One that is shown no more may have been over before we heard of it, and is over where we did.
    const isFollowed = isHidden(charge, hidesDisputes)
      ? payment.dispute_status === null || (theirs !== null && payment.dispute_status === 'won')
      : payment.dispute_status === theirs
    if (!isFollowed) found.push(`${payment.id}: its dispute is ${theirs}, we say ${payment.dispute_status}`)
    const posted = -sum(
      transfers.filter(({ cause, book: name }) => isDisputeOf(payment.id, cause) && name === 'provider'),
      ({ amount }) => amount,
    )
    const held = heldByBank(charge, withdrawsDisputed)
    if (posted !== held) found.push(`${payment.id}: the bank has ${held}, ${posted} was booked`)
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

export function numbersHaveNoGap({ invoices }: Facts): string[] {
  return [...groupBy(invoices, ({ account_id }) => account_id)]
    .filter(([, own]) =>
      own
        .map(({ number }) => number)
        .sort((a, b) => a - b)
        .some((number, at) => number !== at + 1),
    )
    .map(([account, own]) => `${account}: ${own.map(({ number }) => number).join(' ')}`)
}

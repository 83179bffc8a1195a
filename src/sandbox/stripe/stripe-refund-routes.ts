import { newId } from '../../platform/id.ts'
import type { BookPayment } from '../book-payment.ts'
import type { ProviderContext } from '../provider-context.ts'
import { type Form, listOf, textOf } from './form.ts'
import { fromWire, toWire } from './stripe-amounts.ts'
import type { StripeCalls } from './stripe-calls.ts'
import { findStripeCard } from './stripe-cards.ts'
import { renderDispute } from './stripe-dispute.ts'
import { invalid, missing, type StripeAnswer } from './stripe-error.ts'
import { eventsOf } from './stripe-events.ts'
import { metadataOf } from './stripe-intents.ts'
import { bookName, type Intent, renderList, renderRefund, type StoredRefund } from './stripe-objects.ts'
import { afterCursor, createdOf, endOfTime, limitOf } from './stripe-pages.ts'
import type { StripeStore } from './stripe-store.ts'

const pendingMs = 60_000

/** What comes to a payment after it was taken: refunds, disputes, and the events that tell of them. */
export function refundRoutes(context: ProviderContext, store: StripeStore, { post, get }: StripeCalls): void {
  const { objects } = context
  const refundedIntent = async (form: Form): Promise<{ intent: Intent; payment: BookPayment }> => {
    const id = textOf(form, 'payment_intent')
    const chargeId = textOf(form, 'charge')
    if (id === undefined && chargeId === undefined)
      throw invalid(
        'One of the following params should be provided for this request: payment_intent or charge.',
        {
          code: 'parameter_missing',
          param: 'payment_intent',
        },
      )
    const intent = id === undefined ? await store.intentOfCharge(chargeId!) : await store.intent(id)
    if (!intent)
      throw missing(
        id === undefined ? 'charge' : 'payment_intent',
        id ?? chargeId!,
        id === undefined ? 'charge' : 'payment_intent',
      )
    const payment = await store.paymentOf(intent)
    if (payment?.status !== 'paid') {
      throw invalid('This PaymentIntent does not have a successful charge to refund.', {
        code: 'payment_intent_unexpected_state',
      })
    }
    return { intent, payment }
  }
  post(
    '/refunds',
    ['payment_intent', 'charge', 'amount', 'reason', 'metadata', 'expand'],
    async (form, _id, { faults }) => {
      const { intent, payment } = await refundedIntent(form)
      const now = await context.now()
      const remaining = BigInt(payment.amount - payment.amount_refunded)
      const asked = textOf(form, 'amount')
      const amount = asked === undefined ? remaining : fromWire(Number(asked), payment.currency)
      if (amount === undefined || (asked !== undefined && amount < 1n))
        throw invalid('Invalid positive integer', { code: 'parameter_invalid_integer', param: 'amount' })
      const card = findStripeCard(intent.card ?? '')
      const metadata = metadataOf(form)
      const id = newId('re_', now)
      const reference = bookName(metadata.refund_id) ?? id
      const stored: StoredRefund = {
        id,
        intent: intent.id,
        metadata,
        reason: textOf(form, 'reason') ?? null,
        pendingUntil: card?.refundAs === 'pending' ? new Date(now.getTime() + pendingMs).toISOString() : null,
      }
      await objects.put('refund', id, stored, now)
      const notice = context.faults.deliveryOf(faults, reference)
      const { entered, refund } = await store.refund(
        payment,
        amount === 0n ? 1n : amount,
        { id, reference },
        notice,
        now,
      )
      if (!refund) throw refusedRefund(entered.outcome, remaining, payment)
      const body = renderRefund(intent, payment, refund, stored, now)
      if (card?.refundAs === 'fails_later') await context.notifyAfter(context.book.failRefund(reference, now))
      return { body, after: card?.refund === 'timeout_after' ? 'timeout_after' : undefined }
    },
    true,
  )
  get('/refunds/:id', async (_query, id) => {
    const stored = await objects.get<StoredRefund>('refund', id)
    const intent = stored && (await store.intent(stored.intent))
    const payment = intent && (await store.paymentOf(intent))
    const refund = payment?.refunds.find((one) => one.id === id)
    if (!intent || !payment || !refund) throw missing('refund', id)
    return renderRefund(intent, payment, refund, stored, await context.now())
  })
  get('/refunds', async (query) => {
    const id = textOf(query, 'payment_intent')
    const chargeId = textOf(query, 'charge')
    const limit = limitOf(query)
    if (id === undefined && chargeId === undefined)
      return changedIn(query, '/v1/refunds', (intent, payment) => store.refundsOf(intent, payment))
    const intent = id === undefined ? await store.intentOfCharge(chargeId!) : await store.intent(id)
    const payment = intent && (await store.paymentOf(intent))
    const refunds = payment ? await store.refundsOf(intent, payment) : []
    const rest = afterCursor(refunds, textOf(query, 'starting_after'))
    return renderList(rest.slice(0, limit), rest.length > limit, '/v1/refunds')
  })

  /** Things that came to payments between two instants, newest first. The book knows when each last changed. */
  const changedIn = async <T extends { id: string; created: number }>(
    query: Form,
    url: string,
    of: (intent: Intent, payment: BookPayment) => Promise<readonly T[]>,
  ) => {
    const { gte, lt } = createdOf(query)
    const [from, to] = [new Date(gte * 1000), new Date(lt * 1000)]
    const found: T[] = []
    let after: readonly string[] | undefined
    for (;;) {
      // Whatever happened in the time asked for, its payment changed then or later.
      const rows = await context.book.listOldestFirst('changed', from, endOfTime, after, 500)
      for (const { payment } of rows as { payment: BookPayment }[]) {
        const intent = await store.intentOfCharge(payment.id)
        if (!intent) continue
        const things = await of(intent, payment)
        found.push(
          ...things.filter(
            ({ created }) => created >= from.getTime() / 1000 && created < to.getTime() / 1000,
          ),
        )
      }
      const last = rows.at(-1)
      if (rows.length < 500 || !last) break
      after = [last.at, last.id]
    }
    found.sort((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1))
    const rest = afterCursor(found, textOf(query, 'starting_after'))
    const limit = limitOf(query)
    return renderList(rest.slice(0, limit), rest.length > limit, url)
  }
  get('/disputes', async (query) => {
    const id = textOf(query, 'payment_intent')
    const chargeId = textOf(query, 'charge')
    if (id === undefined && chargeId === undefined)
      return changedIn(query, '/v1/disputes', async (intent, payment) =>
        [renderDispute(intent, payment)].filter((one) => one !== undefined),
      )
    const intent = id === undefined ? await store.intentOfCharge(chargeId!) : await store.intent(id)
    const dispute = intent && (await store.disputeOf(intent))
    return renderList(dispute ? [dispute] : [], false, '/v1/disputes')
  })
  get('/disputes/:id', async (_query, id) => {
    const intent = await store.intentOfCharge(id.replace(/^dp_/, 'ch_'))
    const dispute = intent && (await store.disputeOf(intent))
    if (!dispute) throw missing('dispute', id)
    return dispute
  })
  get('/events', async (query) => {
    const types = textOf(query, 'type') !== undefined ? [textOf(query, 'type')!] : listOf(query, 'types')
    return changedIn(query, '/v1/events', async (intent, payment) => {
      const events = await eventsOf(store, intent, payment)
      return types.length === 0 ? events : events.filter(({ type }) => types.includes(type))
    })
  })
}

function refusedRefund(outcome: string, remaining: bigint, { currency }: BookPayment): StripeAnswer {
  switch (outcome) {
    case 'nothing_left':
      return invalid('Charge has already been refunded.', { code: 'charge_already_refunded' })
    case 'disputed':
      return invalid('This charge has been charged back.', { code: 'charge_disputed' })
    default:
      return invalid(
        `Refund amount is greater than unrefunded amount on charge (${toWire(remaining, currency)}).`,
        {
          param: 'amount',
        },
      )
  }
}

import { randomBytes } from 'node:crypto'
import type Stripe from 'stripe'
import { newId } from '../../platform/id.ts'
import type { Entered, Notice } from '../book.ts'
import type { BookPayment, BookRefund } from '../book-payment.ts'
import type { ProviderEvent } from '../notifier.ts'
import type { ProviderContext } from '../provider-context.ts'
import { fromWire } from './stripe-amounts.ts'
import { cardOfSetup, findStripeCard } from './stripe-cards.ts'
import { renderMethod } from './stripe-customer-objects.ts'
import { renderDispute } from './stripe-dispute.ts'
import {
  bookName,
  hasFailed,
  type Intent,
  renderCharge,
  renderIntent,
  renderList,
  renderRefund,
  type StoredMethod,
  type StoredRefund,
  type StoredSetup,
} from './stripe-objects.ts'

export type StripeStore = ReturnType<typeof openStripeStore>

const stores = new WeakMap<ProviderContext, StripeStore>()

/** What the routes, the staff and the notifications share: intents over the book, and everything shown of them. */
export function stripeStoreOf(context: ProviderContext): StripeStore {
  const store = stores.get(context) ?? openStripeStore(context)
  stores.set(context, store)
  return store
}

function openStripeStore(context: ProviderContext) {
  const { book, objects } = context
  const turns = new Map<string, Promise<unknown>>()
  const fresh = new Map<string, Fresh>()

  /** For the notification that follows at once: it tells what it is about as it was, and need not be read for that. */
  const keepFresh = (one: Fresh): void => {
    fresh.set(one.intent.reference, one)
    const [oldest] = fresh.keys()
    if (fresh.size > mostFresh) fresh.delete(oldest!)
  }

  const paymentOf = async (intent: Intent): Promise<BookPayment | undefined> => {
    const last = intent.charges.at(-1)
    const found = last === undefined ? undefined : await book.find(last)
    return found && (JSON.parse(found.payment) as BookPayment)
  }

  const refundsOf = async (intent: Intent, payment: BookPayment): Promise<Stripe.Refund[]> => {
    if (payment.refunds.length === 0) return []
    const newestFirst = [...payment.refunds].reverse()
    const now = await context.now()
    return Promise.all(
      newestFirst.map(async (refund) =>
        renderRefund(intent, payment, refund, await objects.get<StoredRefund>('refund', refund.id), now),
      ),
    )
  }

  const chargeOf = async (intent: Intent, payment: BookPayment, withRefunds: boolean) => {
    if (!withRefunds) return renderCharge(intent, payment, undefined)
    const refunds = await refundsOf(intent, payment)
    const url = `/v1/charges/${payment.id}/refunds`
    return renderCharge(intent, payment, renderList(refunds.slice(0, 10), refunds.length > 10, url))
  }

  const shown = async (intent: Intent, payment: BookPayment | undefined, expand: readonly string[]) => {
    const isExpanded = expand.some((path) => path === 'latest_charge' || path.startsWith('latest_charge.'))
    const latest = !payment
      ? null
      : isExpanded
        ? await chargeOf(intent, payment, expand.includes('latest_charge.refunds'))
        : payment.id
    const tried = hasFailed(intent, payment) ? intent.paymentMethod : null
    const failed = tried === null ? undefined : await methodNamed(tried)
    return renderIntent(intent, payment, latest, failed && renderMethod(failed))
  }

  const methodNamed = async (id: string): Promise<StoredMethod | undefined> => {
    // Cards that everybody knows by name belong to nobody, and are stored nowhere.
    if (!findStripeCard(id)) return objects.get<StoredMethod>('payment_method', id)
    return { id, card: id, customer: null, isDetached: false, createdAt: new Date(0).toISOString() }
  }

  return {
    paymentOf,
    refundsOf,
    chargeOf,

    /** What is done to one intent happens one after another. */
    async inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
      const before = turns.get(id) ?? Promise.resolve()
      const mine = before.catch(() => {}).then(work)
      turns.set(id, mine)
      try {
        return await mine
      } finally {
        if (turns.get(id) === mine) turns.delete(id)
      }
    },

    intent: (id: string) => objects.get<Intent>('payment_intent', id),

    async intentOfCharge(chargeId: string): Promise<Intent | undefined> {
      const found = await book.find(chargeId)
      const payment = found && (JSON.parse(found.payment) as BookPayment)
      if (payment?.id !== chargeId) return undefined
      const intents = await objects.allOfReference<Intent>('payment_intent', payment.reference)
      return intents.find(({ charges }) => charges.includes(chargeId))
    },

    /** Those that a merchant made for one order, newest first. */
    async intentsOfOrder(orderId: string): Promise<Intent[]> {
      // An order that the book can call so is its reference; another has to be looked for.
      const intents =
        bookName(orderId) === undefined
          ? await objects.between<Intent>(
              'payment_intent',
              'newest',
              { from: 'pi_', before: 'pi`', part: { metadata: { order_id: orderId } } },
              100,
            )
          : await objects.allOfReference<Intent>('payment_intent', orderId)
      return intents.filter(({ metadata }) => metadata['order_id'] === orderId)
    },

    /** The intent behind a name of the book, or its own id. */
    async intentNamed(name: string): Promise<Intent | undefined> {
      const own = name.startsWith('pi_') ? await objects.get<Intent>('payment_intent', name) : undefined
      if (own) return own
      return objects.ofReference<Intent>('payment_intent', name)
    },

    /** What the charge that this event is of made of its intent, where this process made it and has not told of it yet. */
    takeFresh({ type, reference }: ProviderEvent): Fresh | undefined {
      const one = fresh.get(reference)
      if (type !== `payment.${one?.payment.status}`) return undefined
      fresh.delete(reference)
      return one
    },

    keep: async (intent: Intent, now: Date) => objects.put('payment_intent', intent.id, intent, now),

    /** `payment`: what the book says of it, where that is known already. */
    show: async (intent: Intent, expand: readonly string[] = [], payment?: BookPayment) =>
      shown(intent, payment ?? (await paymentOf(intent)), expand),

    async showAll(intents: readonly Intent[], expand: readonly string[]): Promise<Stripe.PaymentIntent[]> {
      const ids = intents.flatMap(({ charges }) => charges.at(-1) ?? [])
      const payments = new Map((await book.findAll<BookPayment>(ids)).map((payment) => [payment.id, payment]))
      return Promise.all(
        intents.map((intent) => shown(intent, payments.get(intent.charges.at(-1) ?? ''), expand)),
      )
    },

    async disputeOf(intent: Intent): Promise<Stripe.Dispute | undefined> {
      const payment = await paymentOf(intent)
      return payment && renderDispute(intent, payment)
    },

    /** Asks the card; the book says whether it paid. */
    async charge(
      intent: Intent,
      notice: Notice,
      now: Date,
    ): Promise<{ intent: Intent; payment: BookPayment }> {
      const card = findStripeCard(intent.card ?? '')!
      for (;;) {
        const id = newId('ch_', now)
        const asked: Intent = { ...intent, charges: [...intent.charges, id], waitsFor: null, failedAs: null }
        // In one statement: a charge in the book always has its intent.
        const beside = { wire: objects.wire, kind: 'payment_intent', id: asked.id, body: asked }
        const entry = {
          id,
          reference: asked.reference,
          accountId: asked.accountId,
          billingKey: asked.card ?? '',
          amount: fromWire(asked.amount, asked.currency) ?? 0n,
          currency: asked.currency,
          description: asked.description ?? '',
          declinedAs: card.declinedAs ?? null,
          firstChargeOnly: card.firstChargeOnly ?? false,
        }
        // Nothing here is unique to Stripe but its own ids: the same order may be charged any number of times.
        const entered = await context.notifyAfter(
          book.charge(ownKey(id, now, context), entry, true, notice, beside),
        )
        if (entered.outcome === 'duplicate') continue
        const payment = JSON.parse(entered.answer) as BookPayment
        keepFresh({ intent: asked, payment })
        if (card.afterwards !== 'disputed' || entered.status !== 200) return { intent: asked, payment }
        await context.notifyAfter(book.dispute(id, 'open', undefined, now))
        return { intent: asked, payment: (await paymentOf(asked)) ?? payment }
      }
    },

    async refund(
      payment: BookPayment,
      amount: bigint,
      { id, reference }: { id: string; reference: string },
      notice: Notice,
      now: Date,
    ): Promise<{ entered: Entered; refund: BookRefund | undefined }> {
      const entry = { id, payment: payment.id, reference, amount, expectedRemaining: null }
      for (;;) {
        const entered = await context.notifyAfter(book.refund(ownKey(id, now, context), entry, true, notice))
        if (entered.outcome === 'duplicate') continue
        const after = await book.find(payment.id)
        const refunds = after ? (JSON.parse(after.payment) as BookPayment).refunds : []
        return { entered, refund: refunds.find((refund) => refund.id === id) }
      }
    },

    method: methodNamed,

    /** A card of a customer's own: one that is known by its name becomes a new one. */
    async attach(method: StoredMethod, customer: string, now: Date): Promise<StoredMethod> {
      const isNamed = findStripeCard(method.id) !== undefined
      const attached = {
        ...method,
        ...(isNamed && { id: newId('pm_', now), createdAt: now.toISOString() }),
        customer,
      }
      await objects.put('payment_method', attached.id, attached, now)
      return attached
    },

    async detach(method: StoredMethod, now: Date): Promise<StoredMethod> {
      const detached = { ...method, customer: null, isDetached: true }
      await objects.put('payment_method', method.id, detached, now)
      return detached
    },

    async setup(id: string): Promise<StoredSetup | undefined> {
      const stored = await objects.get<StoredSetup>('setup_intent', id)
      if (stored) return stored
      const card = cardOfSetup(id)
      if (card === undefined) return undefined
      return {
        id,
        customer: null,
        paymentMethod: card,
        status: 'succeeded',
        metadata: {},
        clientSecret: `${id}_secret_known`,
        createdAt: new Date(0).toISOString(),
      }
    },
  }
}

/** What a charge has just made of an intent. */
type Fresh = { readonly intent: Intent; readonly payment: BookPayment }

const mostFresh = 1_000

export function newSecretOf(id: string): string {
  return `${id}_secret_${randomBytes(18).toString('base64url').replace(/[-_]/g, 'x')}`
}

/** The book wants a key for each entry; this one is the entry's own name, which nobody uses twice and it need not keep. */
function ownKey(id: string, now: Date, { keyWindowMs }: ProviderContext) {
  return { key: id, fingerprint: Buffer.from(id), claimant: id, now, keyWindowMs }
}

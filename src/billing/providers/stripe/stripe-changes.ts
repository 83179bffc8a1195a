import type Stripe from 'stripe'
import { intentIn } from './stripe-hint.ts'
import { type List, listOldestFirst } from './stripe-lists.ts'
import { idOf } from './stripe-payments.ts'

/** What can come to a payment later: refunds, disputes, and what became of both. The lists are read one after another. */
const changeKinds = ['refunds', 'disputes', 'events'] as const
type ChangeKind = (typeof changeKinds)[number]

// Only what the two lists do not show: they tell when something began.
const laterEvents = [
  'refund.updated',
  'refund.failed',
  'charge.dispute.updated',
  'charge.dispute.funds_withdrawn',
  'charge.dispute.closed',
  'charge.dispute.funds_reinstated',
  'payment_intent.succeeded',
  'payment_intent.canceled',
]

export function changeCursor(cursor: string | null): [ChangeKind, string | null] {
  const [name, place = ''] = cursor?.split(' ') ?? []
  const kind = changeKinds.find((one) => one === name) ?? changeKinds[0]
  return [kind, place === '' ? null : place]
}

export async function listChanged(
  stripe: Stripe,
  kind: ChangeKind,
  from: Date,
  to: Date,
  place: string | null,
): Promise<{ ids: (string | null)[]; next: string | null }> {
  const page = await listKind(stripe, kind, from, to, place)
  if (page.next !== null) return { ids: page.ids, next: `${kind} ${page.next}` }
  const following = changeKinds[changeKinds.indexOf(kind) + 1]
  return { ids: page.ids, next: following === undefined ? null : `${following} ` }
}

async function listKind(stripe: Stripe, kind: ChangeKind, from: Date, to: Date, place: string | null) {
  switch (kind) {
    case 'refunds': {
      const list: List<Stripe.Refund> = (query) => stripe.refunds.list(query)
      const { items, next } = await listOldestFirst(list, from, to, place)
      return { ids: items.map(({ payment_intent }) => idOf(payment_intent)), next }
    }
    case 'disputes': {
      const list: List<Stripe.Dispute> = (query) => stripe.disputes.list(query)
      const { items, next } = await listOldestFirst(list, from, to, place)
      return { ids: items.map(({ payment_intent }) => idOf(payment_intent)), next }
    }
    case 'events': {
      const list: List<Stripe.Event> = (query) => stripe.events.list({ ...query, types: laterEvents })
      const { items, next } = await listOldestFirst(list, from, to, place)
      return { ids: items.map(({ data }) => intentIn(data.object)), next }
    }
  }
}

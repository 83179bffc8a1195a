import type { Facts } from './facts.ts'

/**
 * A hint has neither id nor signature: whatever it says, its payment is read at the provider after it came, and nothing
 * else follows from it. One that names nobody leaves nothing, and one without the secret finds no door.
 */
export function hintsAreHeeded({ deliveries, calls, payments, webhooks, adopted }: Facts): string[] {
  const ours = new Set(payments.filter(({ id }) => !adopted.has(id)).map(({ id }) => id))
  const stored = new Map(webhooks.map(({ event_id, status }) => [event_id, status]))
  const found: string[] = []
  const named = new Set<string>()
  for (const { step, reference, hint, answer } of deliveries) {
    if (!hint) continue
    if (hint.forgery === 'wrong secret' || hint.forgery === 'nobody') continue
    named.add(`hint:${reference}`)
    if (answer?.status !== 200 || !ours.has(reference)) continue
    const status = stored.get(`hint:${reference}`)
    if (status !== 'done') found.push(`#${step} about ${reference} is ${status ?? 'not there'}`)
    const isRead = calls
      ?.slice(hint.heardAfter!)
      .some((one) => one.call === 'lookup' && one.key === reference)
    if (calls && !isRead) found.push(`#${step} about ${reference} was taken, and nobody looked after it came`)
  }
  for (const [eventId] of stored)
    if (eventId.startsWith('hint:') && !named.has(eventId)) found.push(`${eventId} was told by nobody`)
  return found
}

import { createHash } from 'node:crypto'
import type { Facts } from './facts.ts'

/**
 * A period is held only when it is over and a newer one has begun, opened or about to be, and only if nobody was asked for its
 * money: nobody was there to open it in time, or the provider could not be asked and has said since that it knows nothing of it.
 */
export function heldWasMissed(facts: Facts): string[] {
  const { events, periods, subscriptions, installation, asked, calls, restores } = facts
  if (!calls) return []
  const found: string[] = []
  const restored = restores.at(-1)?.step ?? -1
  for (const { subscription_id, data, occurred_at } of events.filter(({ type }) => type === 'invoice.held')) {
    const own = periods.filter((one) => one.subscription_id === subscription_id)
    const held = own.find(({ k }) => k === data['period'])
    const name = `period ${data['period']} of ${subscription_id}`
    if (!held) {
      found.push(`${name} is held, and not there`)
      continue
    }
    const at = occurred_at.getTime()
    if (at < held.end_at.getTime()) found.push(`${name} was held before it was over`)
    const endedAt = subscriptions.find(({ id }) => id === subscription_id)?.canceled_at?.getTime()
    const ranOn = endedAt === undefined || endedAt >= at
    if (!ranOn && !own.some(({ k }) => k > held.k)) found.push(`${name} is held, and no newer one has begun`)
    const key = referenceOf(installation, subscription_id!, held.k)
    if (asked.some((one) => one.key === key && one.step > restored))
      found.push(`${name} is held, and its money was asked for`)
    if (writtenAt(held.invoice_id) >= held.end_at.getTime()) continue
    if (!calls.some((one) => one.call === 'lookup' && one.key === key && one.at >= held.end_at.getTime()))
      found.push(`${name} was held before anybody asked the provider about it`)
    if (restores.length === 0 && !couldNotBeCharged(facts, key, held))
      found.push(`${name} is held, and could have been charged`)
  }
  return found
}

/** Its own charge was turned away while it ran; or all were, then or before, and none had passed since. */
function couldNotBeCharged(
  { turnedAway = [], asked }: Pick<Facts, 'turnedAway' | 'asked'>,
  key: string,
  { start_at, end_at }: Facts['periods'][number],
): boolean {
  const [start, end] = [start_at.getTime(), end_at.getTime()]
  return turnedAway.some((one) => {
    if (one.at >= end || (one.key !== null && one.key !== key)) return false
    return one.at >= start || !asked.some(({ at }) => at > one.at && at < start)
  })
}

/** Nobody likes three charges in one minute: a renewal that waited is not sent once a newer period was opened. */
export function overtakenIsNotSent({ payments, periods, asked, adopted }: Facts): string[] {
  return payments
    .filter(({ attempt, id }) => attempt === 1 && !adopted.has(id))
    .filter(({ id, invoice_id, subscription_id, sent_at }) => {
      const own = periods.find((one) => one.invoice_id === invoice_id)!
      const newer = periods.find((one) => one.subscription_id === subscription_id && one.k === own.k + 1)
      if (!newer || !sent_at || writtenAt(newer.invoice_id) >= sent_at.getTime()) return false
      return asked.some((one) => one.key === id && one.at >= sent_at.getTime())
    })
    .map(({ id }) => `${id} was sent for the first time when a newer period had been opened`)
}

function referenceOf(installation: string, subscriptionId: string, k: number): string {
  const place = ['charge', installation, subscriptionId, k, 1].join(' ')
  return `rl_${createHash('sha256').update(place).digest('hex').slice(0, 40)}`
}

/** Service time at which a row was written, as its id tells: ten digits to the base of 32, the last of them within a millisecond. */
function writtenAt(id: string): number {
  const digits = '0123456789abcdefghjkmnpqrstvwxyz'
  const time = id.slice(id.indexOf('_') + 1).slice(0, 9)
  return [...time].reduce((sum, one) => sum * 32 + digits.indexOf(one), 0)
}

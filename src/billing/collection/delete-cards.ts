import { clearAlarm, raiseAlarm } from '../../platform/alarm.ts'
import type { BillingApp } from '../app.ts'
import { keepBusy } from '../keep-busy.ts'
import {
  type CardToDelete,
  endDeletion,
  leaseCardsToDelete,
  postponeDeletion,
} from '../payments/card-to-delete-rows.ts'
import { lookupAgainAfterMs } from '../payments/doubt.ts'
import { openMethod } from '../payments/payment-method-rows.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { workIsolated } from '../sweep-failures.ts'

/** Has providers delete the cards that nobody uses any more. Says how many were looked at. */
export async function deleteCards(app: BillingApp): Promise<number> {
  return keepBusy({
    most: 8,
    stopping: app.stopping,
    claim: (limit) => leaseCardsToDelete(app.db, sendingLeaseMs(app.terms), limit),
    work: (card) => workIsolated(app, 'cards', card.methodId, () => deleteCard(app, card)),
  })
}

// A charge in doubt may have to be sent again with the same card.
const awaitedMs = 60_000

async function deleteCard(app: BillingApp, card: CardToDelete): Promise<void> {
  if (card.awaited) return postponeDeletion(app.db, card.methodId, { afterMs: awaitedMs, tries: card.tries })
  // The same card, offered twice, is one card at the provider.
  if (card.inUse) return endDeletion(app.db, card.methodId)

  const given = openMethod(app.vault, { ...card, exchanged: true })
  const billingKey = 'billingKey' in given ? given.billingKey : ''
  const { kind } = await app.providers.named(card.provider).forget(billingKey)
  if (kind === 'done') {
    await endDeletion(app.db, card.methodId)
    await clearAlarm(app.db, alarmKind, card.methodId)
    return
  }
  const tries = card.tries + 1
  await postponeDeletion(app.db, card.methodId, { afterMs: lookupAgainAfterMs(tries + 5), tries })
  if (tries >= triesBeforeAlarm) await raise(app, card)
}

const alarmKind = 'card_not_deleted'
// Several hours, so that an outage of the provider calls nobody.
const triesBeforeAlarm = 12

async function raise(app: BillingApp, { methodId, provider }: CardToDelete): Promise<void> {
  const note = `${provider} does not delete a card that is no longer used. Delete it in its console; the next try then finds it gone.`
  await raiseAlarm(app.db, { kind: alarmKind, subject: methodId, note }, app.clock())
}

import type { BillingApp } from '../app.ts'
import { type ProviderVerdict, settleFromProvider } from '../collection/settle-from-provider.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { endWebhooks, settleKnown, takeWaiting, type WaitingWebhook, type WebhookEnd } from './inbox-rows.ts'
import { mostTries, retryAfterSeconds } from './webhook.ts'

const mostInFlight = 16
// A provider that is silent must not keep the rest of the sweep waiting for all of the inbox.
const mostRounds = 8

/**
 * Acts on stored events. Most of them say what we know already and are marked together; for the rest the payment is read
 * back from the provider, so neither their order nor their number matters. Says how many are through.
 */
export async function processWebhooks(app: BillingApp): Promise<number> {
  let through = await settleKnown(app.db, app.clock())
  const failures: unknown[] = []
  for (let round = 0; round < mostRounds; round++) {
    const webhooks = await takeWaiting(app.db, mostInFlight, lookingLeaseMs(app.terms))
    if (webhooks.length === 0) break
    const looks = await lookUp(app, webhooks)
    await endWebhooks(
      app.db,
      app.clock(),
      looks.map(({ webhook, look }) => endOf(webhook, look)),
    )
    through += looks.filter(({ look }) => look === 'settled' || look === 'not_ours').length
    failures.push(...looks.map(({ look }) => look).filter((look) => look instanceof Error))
  }
  // All of them had their turn; the first cause is told to whoever runs the sweep.
  if (failures.length > 0) throw failures[0]
  return through
}

/** A look sends or looks up what refund of ours is on its way before it asks about the payment. */
function lookingLeaseMs(terms: BillingApp['terms']): number {
  return 2 * sendingLeaseMs(terms)
}

type Look = ProviderVerdict | Error

/** Looks every payment up once, however many events speak of it. */
async function lookUp(
  app: BillingApp,
  webhooks: readonly WaitingWebhook[],
): Promise<{ webhook: WaitingWebhook; look: Look }[]> {
  const references = [...new Set(webhooks.map(({ reference }) => reference).filter((one) => one !== null))]
  const looks = new Map<string, Look>(
    await Promise.all(
      references.map(async (reference): Promise<[string, Look]> => {
        try {
          return [reference, await settleFromProvider(app, reference)]
        } catch (error) {
          return [reference, error instanceof Error ? error : new Error(String(error))]
        }
      }),
    ),
  )
  return webhooks.map((webhook) => ({
    webhook,
    look: webhook.reference === null ? unnamed(webhook) : looks.get(webhook.reference)!,
  }))
}

// A bit more than ten minutes: by then our own answer or lookup has told the id of whatever is ours.
const triesOfUnnamed = 8

/** It names the provider's id alone, and we have none like it: our answer may be on its way, or it is somebody else's. */
function unnamed({ tries }: WaitingWebhook): Look {
  return tries < triesOfUnnamed ? 'not_known' : 'not_ours'
}

function endOf({ provider, eventId, tries }: WaitingWebhook, look: Look): WebhookEnd {
  const event = { provider, eventId, tries }
  if (look === 'settled') return { ...event, status: 'done', error: null, lookAfterSeconds: 0 }
  if (look === 'not_ours') return { ...event, status: 'ignored', error: null, lookAfterSeconds: 0 }
  const error = look instanceof Error ? look.constructor.name : look
  // Refunds of one payment may be in doubt for a day each, one after the other; whatever is told meanwhile waits for them.
  const isOver = look !== 'in_motion' && tries >= mostTries
  return {
    ...event,
    status: isOver ? 'failed' : 'waiting',
    error,
    lookAfterSeconds: retryAfterSeconds(tries),
  }
}

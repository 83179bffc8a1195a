import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { parseJson } from '../../platform/http/json-body.ts'
import { refuseRequest } from '../../platform/refusal.ts'
import type { Vault } from '../../platform/vault/vault.ts'
import type { BillingApp } from '../app.ts'
import { stopCharging } from '../charging-stop.ts'
import type { Provider, VerifiedWebhook } from '../providers/port.ts'
import { type Inbox, insertHint } from './inbox-rows.ts'
import { claimOf } from './webhook.ts'

/** Where events are kept: the inbox, and the vault that seals their bodies. */
export type WebhookStore = { readonly inbox: Inbox; readonly vault: Vault }

/**
 * Verifies, stores and acknowledges a notification. What it says is acted on later: from here on a crash loses nothing,
 * and its id makes sure that it counts once.
 */
export async function receiveWebhook(
  app: BillingApp,
  { inbox, vault }: WebhookStore,
  { headers, body, from }: { headers: IncomingHttpHeaders; body: Buffer; from?: string },
): Promise<{ duplicate: boolean }> {
  const senders = app.providers.all.filter(({ name }) => from === undefined || name === from)
  if (senders.length === 0) throw refuseRequest('route_not_found')
  const authentic = verify(app, senders, headers, body)
  if (!authentic) throw refuseRequest('invalid_signature')

  const { provider, eventId, message } = authentic
  const hint = provider.readWebhook(readJson(body, message))
  if (hint.live && app.terms.sandbox) await stopCharging(app.db, 'live_webhook', app.clock())
  const isNew = await inbox.add({
    provider: provider.name,
    eventId,
    bodyHash: createHash('sha256').update(body).digest(),
    sealed: vault.seal(body.toString('utf8'), `webhook:${provider.name} ${eventId}`),
    type: nameIn(hint.type) ?? 'unknown',
    // News of test money is kept and nothing more, where money is real.
    claim: hint.live === false && !app.terms.sandbox ? null : (claimOf(hint.type) ?? null),
    reference: nameIn(hint.reference) ?? null,
    providerPayment: hint.reference === null ? (nameIn(hint.providerId) ?? null) : null,
    receivedAt: app.clock(),
  })
  return { duplicate: !isNew }
}

/** Whose it is, the secret tells that verifies it. */
function verify(
  app: BillingApp,
  senders: readonly Provider[],
  headers: IncomingHttpHeaders,
  body: Buffer,
): (VerifiedWebhook & { provider: Provider }) | undefined {
  // Real time: a signature does not grow older because the sandbox clock was moved.
  const now = new Date()
  for (const provider of senders) {
    const secrets = app.terms.webhookSecrets[provider.name] ?? []
    const verified = secrets.length > 0 && provider.verifyWebhook({ headers, body, secrets, now })
    if (verified) return { provider, ...verified }
  }
  return undefined
}

/** Takes an unsigned message about a payment. Nothing in it is believed; it only makes us look. */
export async function receiveHint(app: BillingApp, body: Buffer): Promise<void> {
  const parsed = readJson(body)
  const provider = unsigning(app)
  const hint = provider.readWebhook(parsed)
  const names = [hint.reference, ...namesIn(parsed), ...namesIn((parsed as { data?: unknown } | null)?.data)]
  await insertHint(app.db, {
    provider: provider.name,
    names: names.map(nameIn).filter((name) => name !== undefined),
    type: nameIn(hint.type) ?? 'unknown',
    bodyHash: createHash('sha256').update(body).digest(),
    now: app.clock(),
  })
}

/** The one whose messages carry no signature. Without it, hints are taken for the provider of new payment methods. */
function unsigning({ providers }: BillingApp): Provider {
  return providers.all.find(({ guards }) => guards.signsNothing) ?? providers.forNew
}

/** `parsed`: the same, if somebody had to read it before. */
function readJson(body: Buffer, parsed?: unknown): unknown {
  if (!isUtf8(body)) throw refuseRequest('invalid_json')
  return parsed ?? parseJson(body.toString('utf8'))
}

const nameFields = ['orderId', 'order_id', 'paymentKey', 'payment_key', 'paymentId', 'payment_id']

function namesIn(part: unknown): unknown[] {
  if (typeof part !== 'object' || part === null) return []
  return nameFields.map((field) => (part as Record<string, unknown>)[field])
}

/** A word that can be an id or a type; anything else is nobody's. */
function nameIn(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\x21-\x7e]{1,200}$/.test(value) ? value : undefined
}

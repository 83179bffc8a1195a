import { randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import Type from 'typebox'
import { Compile } from 'typebox/compile'
import { billingKeyOf, findCard, findCardByLast4 } from '../cards.ts'
import type { ProviderContext } from '../provider-context.ts'
import { gatewayError, PortoneError } from './portone-errors.ts'
import { defaultStoreId, renderBillingKey, renderIssued, type StoredKey } from './portone-objects.ts'

const isIssue = Compile(
  Type.Object({
    method: Type.Object({
      card: Type.Object({ credential: Type.Object({ number: Type.String({ pattern: '^[0-9]{12,19}$' }) }) }),
    }),
    customer: Type.Optional(Type.Object({ id: Type.Optional(Type.String()) })),
  }),
)
export async function issue(context: ProviderContext, { body }: FastifyRequest) {
  if (!isIssue.Check(body)) throw new PortoneError('INVALID_REQUEST')
  const card = findCardByLast4(body.method.card.credential.number.slice(-4))
  if (card === undefined) throw gatewayError('INVALID_CARD_NUMBER')
  const { billingKey, issuedAt } = await store(context, card, { customerId: body.customer?.id ?? null })
  return renderIssued(billingKey, issuedAt)
}

/** Undefined: there is no such test card. */
export async function issueInBrowser(
  context: ProviderContext,
  card: string,
  names: Pick<StoredKey, 'customerId' | 'issueId'>,
): Promise<string | undefined> {
  return findCard(card) && (await store(context, card, names)).billingKey
}

async function store(
  context: ProviderContext,
  card: string,
  names: Pick<StoredKey, 'customerId' | 'issueId'>,
): Promise<{ billingKey: string; issuedAt: string }> {
  const now = await context.now()
  const billingKey = `billing-key-${randomUUID()}`
  const stored: StoredKey = { card, ...names, issuedAt: now.toISOString(), deletedAt: null }
  await context.objects.put('billing_key', billingKey, stored, now)
  return { billingKey, issuedAt: stored.issuedAt }
}

export async function describe(context: ProviderContext, request: FastifyRequest, key: string) {
  // What the browser would have given out for it.
  const name = billingKeyOf(key) ?? key
  const isTestCard = findCard(name) !== undefined
  const stored = isTestCard
    ? { card: name, customerId: null, issuedAt: '2026-01-01T00:00:00.000Z', deletedAt: null }
    : await context.objects.get<StoredKey>('billing_key', name)
  if (!stored) throw new PortoneError('BILLING_KEY_NOT_FOUND')
  return renderBillingKey(name, stored, findCard(stored.card)!, storeIdOf(request))
}

export async function remove(context: ProviderContext, key: string) {
  const now = await context.now()
  const deletedAt = now.toISOString()
  // Test cards by their own names are anybody's and stay.
  if (findCard(key)) return { deletedAt }
  const stored = await context.objects.get<StoredKey>('billing_key', key)
  if (!stored) throw new PortoneError('BILLING_KEY_NOT_FOUND')
  if (stored.deletedAt !== null) throw new PortoneError('BILLING_KEY_ALREADY_DELETED')
  await context.objects.put('billing_key', key, { ...stored, deletedAt }, now)
  return { deletedAt }
}

export function storeIdOf({ query }: FastifyRequest): string {
  return (query as { storeId?: string }).storeId ?? defaultStoreId
}

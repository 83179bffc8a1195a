import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import Type from 'typebox'
import { Compile } from 'typebox/compile'
import { billingKeyOf, findCard } from '../cards.ts'
import { type ProviderContext, sendJson } from '../provider-context.ts'
import { TossError } from './toss-errors.ts'
import { keyOf } from './toss-idempotency-key.ts'
import { renderBilling } from './toss-objects.ts'

export const CustomerKey = Type.String({ minLength: 1, maxLength: 300 })
const Issue = Type.Object({
  authKey: Type.String({ minLength: 1, maxLength: 300 }),
  customerKey: CustomerKey,
})
const isIssue = Compile(Issue)

type Stored = { customerKey: string; card: string; removed: boolean }

/** What was answered under a key is answered again, be it a billing key or a no. */
export async function issue(context: ProviderContext, request: FastifyRequest, reply: FastifyReply) {
  const { key } = keyOf(request)
  const claimed = await context.objects.claimKey(key, '', await context.now(), context.keyWindowMs)
  if (claimed === 'running') throw new TossError('IDEMPOTENT_REQUEST_PROCESSING')
  if (claimed !== 'taken') return sendJson(reply, claimed.status, claimed.body)
  const { status, body } = await issueOnce(context, request.body).then(
    (issued) => ({ status: 200, body: JSON.stringify(issued) }),
    (error) => {
      if (!(error instanceof TossError)) throw error
      return { status: error.status, body: JSON.stringify({ code: error.code, message: error.message }) }
    },
  )
  await context.objects.answerKey(key, { status, headers: {}, body })
  return sendJson(reply, status, body)
}

// Longer than any book is kept.
const forEverMs = 100 * 365 * 86_400_000

/**
 * `ak_test_X` is anybody's, as often as they like. With a dot and more behind it, it is what one customer brings back from the
 * card form, and one billing key spends it. No source tells what Toss calls one that is spent, so it is what an unknown one is called.
 */
async function issueOnce(context: ProviderContext, body: unknown) {
  if (!isIssue.Check(body)) throw new TossError('INVALID_REQUEST')
  const [name = '', ...once] = body.authKey.split('.')
  const card = billingKeyOf(name)
  if (card === undefined) throw new TossError('INVALID_AUTHORIZE_AUTH')
  const now = await context.now()
  if (once.length > 0) {
    const spent = await context.objects.claimKey(`auth_key ${body.authKey}`, '', now, forEverMs)
    if (spent !== 'taken') throw new TossError('INVALID_AUTHORIZE_AUTH')
  }
  const billingKey = `${randomBytes(32).toString('base64url')}=`
  const stored: Stored = { customerKey: body.customerKey, card, removed: false }
  await context.objects.put('billing_key', billingKey, stored, now)
  return renderBilling(billingKey, body.customerKey, findCard(card)!, now)
}

export async function remove(context: ProviderContext, key: string): Promise<void> {
  if (findCard(key)) return
  const stored = await context.objects.get<Stored>('billing_key', key)
  if (!stored) throw new TossError('INVALID_BILL_KEY_REQUEST')
  if (stored.removed) throw new TossError('ALREADY_REMOVED_BILLING_KEY')
  await context.objects.put('billing_key', key, { ...stored, removed: true }, await context.now())
}

/** Test cards by their own names are anybody's; a key that was issued belongs to its customer. */
export async function chargeable(
  context: ProviderContext,
  key: string,
  customerKey: string,
): Promise<string> {
  if (findCard(key)) return key
  const stored = await context.objects.get<Stored>('billing_key', key)
  if (!stored) throw new TossError('INVALID_BILL_KEY_REQUEST')
  if (stored.removed) throw new TossError('ALREADY_REMOVED_BILLING_KEY')
  if (stored.customerKey !== customerKey) throw new TossError('NOT_MATCHES_CUSTOMER_KEY')
  return stored.card
}

import type { ProviderContext } from '../provider-context.ts'
import { listOf, textOf } from './form.ts'
import type { StripeCalls } from './stripe-calls.ts'
import { invalid, missing } from './stripe-error.ts'
import { cancelIntent, confirmIntent, createIntent } from './stripe-intents.ts'
import { type Intent, renderList } from './stripe-objects.ts'
import { expandOf, limitOf, page } from './stripe-pages.ts'
import type { StripeStore } from './stripe-store.ts'

/** How far the search is behind, in service time. */
export const searchLagMs = 30_000

/** Payment intents and their charges. */
export function intentRoutes(context: ProviderContext, store: StripeStore, { post, get }: StripeCalls): void {
  const intentOr404 = async (id: string): Promise<Intent> => {
    const intent = await store.intent(id)
    if (!intent) throw missing('payment_intent', id, 'intent')
    return intent
  }
  const intentNames = [
    'amount',
    'currency',
    'customer',
    'payment_method',
    'off_session',
    'confirm',
    'description',
    'metadata',
    'return_url',
    'automatic_payment_methods',
    'allowed_payment_method_types',
    'error_on_requires_action',
    'receipt_email',
    'statement_descriptor',
    'statement_descriptor_suffix',
    'setup_future_usage',
    'capture_method',
    'expand',
  ]
  post(
    '/payment_intents',
    intentNames,
    (form, _id, { faults, isLive, now }) => createIntent(context, store, faults, form, isLive, now),
    true,
  )
  post(
    '/payment_intents/:id/confirm',
    [
      'payment_method',
      'return_url',
      'off_session',
      'client_secret',
      'error_on_requires_action',
      'mandate_data',
      'expand',
    ],
    (form, id, { faults, now }) =>
      store.inTurn(id, async () => confirmIntent(context, store, faults, await intentOr404(id), form, now)),
    true,
  )
  post('/payment_intents/:id/cancel', ['cancellation_reason', 'expand'], (form, id) =>
    store.inTurn(id, async () => cancelIntent(store, await intentOr404(id), form, await context.now())),
  )
  get('/payment_intents/search', async (query) => {
    const asked = /^metadata\['order_id'\]:'([^']*)'$/.exec(textOf(query, 'query') ?? '')
    if (!asked) throw invalid('We were unable to parse your search query.', { param: 'query' })
    const now = await context.now()
    const known = await store.intentsOfOrder(asked[1]!)
    const indexed = known.filter(({ createdAt }) => Date.parse(createdAt) + searchLagMs <= now.getTime())
    const expand = expandOf(query)
    return {
      object: 'search_result',
      data: await store.showAll(indexed.slice(0, limitOf(query)), expand),
      has_more: false,
      next_page: null,
      url: '/v1/payment_intents/search',
    }
  })
  get('/payment_intents/:id', async (query, id) => store.show(await intentOr404(id), listOf(query, 'expand')))
  get('/payment_intents', async (query) => {
    const customer = textOf(query, 'customer')
    const { items, hasMore } = await page<Intent>(context, 'payment_intent', 'pi_', query, {
      ...(customer !== undefined && { customer }),
    })
    const expand = expandOf(query)
    const shown = await store.showAll(items, expand)
    return renderList(shown, hasMore, '/v1/payment_intents')
  })

  get('/charges/:id', async (query, id) => {
    const intent = await store.intentOfCharge(id)
    const payment = intent && (await store.paymentOf(intent))
    if (!intent || !payment) throw missing('charge', id)
    return store.chargeOf(intent, payment, listOf(query, 'expand').includes('refunds'))
  })
}

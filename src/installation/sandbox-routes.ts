import Type from 'typebox'
import { openFetchJson } from '../platform/fetch-json.ts'
import { envelope, nullable, page, success } from '../platform/http/answers.ts'
import type { Http } from '../platform/http/http.ts'
import { pageQuery } from '../platform/page.ts'
import { refusalsOf } from '../platform/refusal.ts'
import { parseInstant, renderInstant } from '../platform/time.ts'
import { Dispute } from '../sandbox/admin-routes.ts'
import { Faults } from '../sandbox/faults.ts'

const Payment = Type.Object(
  {
    reference: Type.String({
      description: "The merchant's reference of the payment attempt, as in an invoice's payments",
    }),
    account_id: Type.String(),
    amount: Type.Integer(),
    currency: Type.String(),
    status: Type.String({ description: 'paid or declined' }),
    amount_refunded: Type.Integer(),
    dispute: nullable(Type.Object({ status: Type.String(), amount: Type.Integer() })),
    created_at: Type.String(),
  },
  { title: 'ProviderPayment' },
)

const FaultsView = Type.Object({ faults: Faults }, { title: 'FaultsInForce' })

type ProviderPayment = { created_at: string } & Record<string, unknown>

const refuse = refusalsOf({
  provider_unavailable: ['unavailable', 'The sandbox provider does not answer just now.'],
  payment_not_found: ['not_found', 'The sandbox provider has no payment with this reference.'],
  dispute_not_possible: [
    'conflict',
    'This payment cannot be disputed now, or has no open dispute to be decided.',
  ],
  invalid_cursor: ['malformed', 'This cursor was not made by this list; start without one.'],
})

/** A window into the sandbox provider's own book, and its levers for making things go wrong. Sandbox mode only. */
export function sandboxRoutes(
  http: Http,
  provider: { providerUrl: string; key: string; timeZone?: string },
): void {
  const { providerUrl, timeZone = 'UTC' } = provider
  const fetchJson = openFetchJson({ timeoutMs: 5_000, maxConnections: 8 })
  const headers = { authorization: `Bearer ${provider.key}` }

  const shown = (payment: ProviderPayment) =>
    ({ ...payment, created_at: renderInstant(parseInstant(payment.created_at)!, timeZone) }) as never

  const ask = async <T>(method: 'GET' | 'POST', path: string, body?: unknown): Promise<T> => {
    const answer = await fetchJson({
      method,
      url: providerUrl + path,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    if (answer.kind === 'answered' && answer.status === 200) return answer.body as T
    if (answer.kind === 'answered' && answer.status === 400) throw refuse('invalid_cursor')
    if (answer.kind === 'answered' && answer.status === 404) throw refuse('payment_not_found')
    if (answer.kind === 'answered' && answer.status === 409) throw refuse('dispute_not_possible')
    throw refuse('provider_unavailable', { headers: { 'retry-after': '1' } })
  }

  http.get(
    '/api/sandbox/provider/payments',
    {
      config: { access: 'admin' },
      schema: {
        operationId: 'listProviderPayments',
        summary: "The sandbox provider's own book, newest first",
        tags: ['sandbox'],
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        errors: refuse.may('invalid_cursor', 'provider_unavailable'),
        response: { 200: page('payments', Payment) },
      },
    },
    async (request) => {
      const { limit = 20, cursor } = request.query
      const query = new URLSearchParams({ limit: String(limit), ...(cursor !== undefined && { cursor }) })
      const book = await ask<{ payments: ProviderPayment[]; next_cursor: string | null }>(
        'GET',
        `/__sandbox/payments?${query}`,
      )
      return envelope({ payments: book.payments.map(shown), next_cursor: book.next_cursor })
    },
  )

  http.get(
    '/api/sandbox/provider/faults',
    {
      config: { access: 'admin' },
      schema: {
        operationId: 'getProviderFaults',
        summary: 'How the sandbox provider misbehaves now',
        tags: ['sandbox'],
        errors: refuse.may('provider_unavailable'),
        response: { 200: success(FaultsView) },
      },
    },
    async () => envelope({ faults: await ask<Faults>('GET', '/__sandbox/faults') }),
  )

  http.post(
    '/api/sandbox/provider/faults',
    {
      config: { access: 'admin' },
      schema: {
        operationId: 'setProviderFaults',
        summary: 'Make the sandbox provider misbehave; an empty object heals it',
        tags: ['sandbox'],
        body: Faults,
        errors: refuse.may('provider_unavailable'),
        response: { 200: success(FaultsView) },
      },
    },
    async (request) => envelope({ faults: await ask<Faults>('POST', '/__sandbox/faults', request.body) }),
  )

  http.post(
    '/api/sandbox/provider/disputes',
    {
      config: { access: 'admin' },
      schema: {
        operationId: 'disputePayment',
        summary: 'Dispute a payment at the sandbox provider, or have the bank decide an open dispute',
        tags: ['sandbox'],
        body: Dispute,
        errors: refuse.may('payment_not_found', 'dispute_not_possible', 'provider_unavailable'),
        response: { 200: success(Payment) },
      },
    },
    async (request) => {
      const payment = await ask<ProviderPayment>('POST', '/__sandbox/disputes', request.body)
      return envelope(shown(payment))
    },
  )
  http.addHook('onClose', async () => fetchJson.close())
}

import Type from 'typebox'
import type { Http } from '../platform/http/http.ts'
import { limitOf, pageOf, pageQuery } from '../platform/page.ts'
import { parseInstant } from '../platform/time.ts'
import { Faults } from './faults.ts'
import { readPlace } from './place.ts'
import type { ProviderContext } from './provider-context.ts'
import { refuse } from './refusals.ts'

const strict = { additionalProperties: false }

/** A dispute is opened, and later won or lost by the merchant. */
export const Dispute = Type.Object(
  {
    reference: Type.String({ minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' }),
    status: Type.Union([Type.Literal('open'), Type.Literal('won'), Type.Literal('lost')]),
    amount: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'What is disputed; all that remains unless said',
      }),
    ),
  },
  strict,
)

/** What a provider's own staff can do: look into the book, decide disputes, turn its clock, and make things go wrong. */
export function adminRoutes(http: Http, context: ProviderContext): void {
  // `/__sandbox` is what every simulator of a provider offers; `/admin` is this one's own name for the same.
  for (const prefix of ['/admin', '/__sandbox']) staffRoutes(http, context, prefix)
}

function staffRoutes(http: Http, context: ProviderContext, prefix: string): void {
  http.get(`${prefix}/faults`, () => context.faults.inForce())

  http.post(`${prefix}/faults`, { schema: { body: Faults } }, async (request) => {
    await context.faults.set(request.body)
    return request.body
  })

  http.get(
    `${prefix}/payments`,
    { schema: { querystring: Type.Object(pageQuery, strict) } },
    async (request) => {
      const limit = limitOf(request.query)
      const rows = await context.book.listNewestFirst(readPlace(request.query), limit + 1)
      const { items, nextCursor } = pageOf(rows, limit, ({ at, id }) => [at, id])
      return { payments: items.map(({ payment }) => payment), next_cursor: nextCursor }
    },
  )

  http.post(`${prefix}/disputes`, { schema: { body: Dispute } }, async (request) => {
    const { reference, status, amount } = request.body
    if (!(await context.book.find(reference))) throw refuse('charge_not_found')
    const payment = await context.notifyAfter(
      context.book.dispute(reference, status, amount, await context.now()),
    )
    if (!payment) throw refuse('dispute_not_possible')
    return payment
  })

  const named = { schema: { params: Type.Object({ name: Type.String() }) } }

  http.post(`${prefix}/charges/:name/dispute`, named, async (request) => {
    const { name } = request.params
    const payment = await context.notifyAfter(
      context.book.dispute(name, 'open', undefined, await context.now()),
    )
    if (!payment) throw refuse('charge_not_found')
    return payment
  })

  http.post(`${prefix}/refunds/:name/fail`, named, async (request) => {
    const payment = await context.notifyAfter(
      context.book.failRefund(request.params.name, await context.now()),
    )
    if (!payment) throw refuse('refund_not_found')
    return payment
  })

  http.get(`${prefix}/clock`, async () => ({ now: (await context.now()).toISOString() }))

  http.post(
    `${prefix}/clock`,
    { schema: { body: Type.Object({ advance_to: Type.String({ maxLength: 64 }) }, strict) } },
    async (request) => {
      const target = parseInstant(request.body.advance_to)
      if (!target) throw refuse('invalid_instant')
      if (target < (await context.now())) throw refuse('clock_backwards')
      await context.moveClock(target)
      return { now: (await context.now()).toISOString() }
    },
  )
}

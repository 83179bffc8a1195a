import Type from 'typebox'
import type { Http } from '../platform/http/http.ts'
import { limitOf, pageOf, pageQuery } from '../platform/page.ts'
import { type Desk, requireKey } from './desk.ts'
import { Faults } from './faults.ts'
import { readPlace } from './place.ts'
import { refuse } from './refusals.ts'

/** What a provider's own staff can do: look into the book, and make things go wrong. */
export function adminRoutes(http: Http, desk: Desk): void {
  const common = { onRequest: requireKey }

  http.get('/admin/faults', common, () => desk.faults.inForce())

  http.post('/admin/faults', { ...common, schema: { body: Faults } }, async (request) => {
    await desk.faults.set(request.body)
    return request.body
  })

  http.get(
    '/admin/payments',
    { ...common, schema: { querystring: Type.Object(pageQuery, { additionalProperties: false }) } },
    async (request) => {
      const limit = limitOf(request.query)
      const rows = await desk.book.listNewestFirst(readPlace(request.query), limit + 1)
      const { items, nextCursor } = pageOf(rows, limit, ({ at, id }) => [at, id])
      return { payments: items.map(({ payment }) => payment), next_cursor: nextCursor }
    },
  )

  const named = { ...common, schema: { params: Type.Object({ name: Type.String() }) } }

  http.post('/admin/charges/:name/dispute', named, async (request) => {
    const payment = await desk.notifyAfter(desk.book.dispute(request.params.name, await desk.now()))
    if (!payment) throw refuse('charge_not_found')
    return payment
  })

  http.post('/admin/refunds/:name/fail', named, async (request) => {
    const payment = await desk.notifyAfter(desk.book.failRefund(request.params.name, await desk.now()))
    if (!payment) throw refuse('refund_not_found')
    return payment
  })
}

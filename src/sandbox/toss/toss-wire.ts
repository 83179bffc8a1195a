import type { Http } from '../../platform/http/http.ts'
import { adminRoutes } from '../admin-routes.ts'
import { findPaymentBy } from '../find-payment.ts'
import { requireSomeCredentials } from '../secret-key.ts'
import type { Wire } from '../wire.ts'
import { render, tossRoutes } from './toss-routes.ts'

// All else Toss keeps to itself: no approval of a stored card is ever notified, and no dispute.
const told: ReadonlySet<string> = new Set(['payment.refunded', 'refund.failed'])

/** Toss Payments as its documentation and its test environment show it. */
export const tossWire: Wire = {
  name: 'toss',
  keyWindowMs: 15 * 86_400_000,
  unsigned: true,
  routes(http, context) {
    tossRoutes(http, context)
    http.register(async (staff: Http) => {
      staff.addHook('onRequest', requireSomeCredentials)
      adminRoutes(staff, context)
    })
  },
  async notification(event, _secret, context) {
    if (!told.has(event.type)) return undefined
    const found = await findPaymentBy(context.book, 'reference', event.reference)
    if (!found) return undefined
    const data = await render(context, found)
    return {
      // Payment events carry no signature.
      headers: {
        'tosspayments-webhook-transmission-time': new Date().toISOString(),
        'tosspayments-webhook-transmission-retried-count': '0',
        'tosspayments-webhook-transmission-id': `whtrans_${event.id}`,
      },
      body: JSON.stringify({
        eventType: 'PAYMENT_STATUS_CHANGED',
        // Without an offset, in Korean time, to the microsecond.
        createdAt: `${new Date(event.happenedAt.getTime() + 9 * 3_600_000).toISOString().slice(0, -1)}000`,
        data,
      }),
    }
  },
}

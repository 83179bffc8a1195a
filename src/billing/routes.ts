import type { Http } from '../platform/http/http.ts'
import { accountRoutes } from './accounts/account-routes.ts'
import type { BillingApp } from './app.ts'
import { eventRoutes } from './events/event-routes.ts'
import { invoiceRoutes } from './invoices/invoice-routes.ts'
import { lifecycleRoutes } from './lifecycle/lifecycle-routes.ts'
import { setupRoutes } from './lifecycle/setup-routes.ts'
import { planRoutes } from './plans/plan-routes.ts'
import { reconciliationRoutes } from './reconciliation/reconciliation-routes.ts'
import { refundRoutes } from './refunds/refund-routes.ts'
import { subscriptionRoutes } from './subscriptions/subscription-routes.ts'
import { summaryRoutes } from './summary/summary-routes.ts'
import { inboxRoutes } from './webhooks/inbox-routes.ts'
import { webhookRoutes } from './webhooks/webhook-routes.ts'

/** Everything billing answers over HTTP. */
export function billingRoutes(http: Http, app: BillingApp): void {
  accountRoutes(http, app)
  eventRoutes(http, app)
  planRoutes(http, app)
  invoiceRoutes(http, app)
  refundRoutes(http, app)
  setupRoutes(http, app)
  lifecycleRoutes(http, app)
  subscriptionRoutes(http, app)
  webhookRoutes(http, app)
  inboxRoutes(http, app)
  reconciliationRoutes(http, app)
  summaryRoutes(http, app)
}

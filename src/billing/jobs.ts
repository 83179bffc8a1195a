import Type from 'typebox'
import { type Job, job } from '../platform/queue/queue.ts'
import type { BillingApp } from './app.ts'
import { sendRefund } from './refunds/send-refund.ts'

/** Everything billing does in the background at someone's word; what falls due by itself is found in `due.ts`. */
export const billingJobs: Readonly<Record<string, Job<BillingApp>>> = {
  'billing.send-refund': job(Type.Object({ refundId: Type.String() }), (app, { refundId }) =>
    sendRefund(app, refundId),
  ),
}

import Type from 'typebox'
import { mayTouch } from '../../platform/access/access.ts'
import { answerOnce } from '../../platform/http/answer-once.ts'
import { envelope, nullable, success } from '../../platform/http/answers.ts'
import { noteOf } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { isId } from '../../platform/id.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { toJson } from '../money.ts'
import { onceContext } from '../once-context.ts'
import { movementStatuses } from '../payments/payment.ts'
import { refuse } from '../refusals.ts'
import { ownedBy } from '../tenancy.ts'
import { type Refund, refundReasons } from './refund.ts'
import { refundInvoice } from './refund-invoice.ts'
import { findRefund } from './refund-rows.ts'

const RefundView = Type.Object(
  {
    refund_id: Type.String(),
    invoice_id: Type.String(),
    payment_id: Type.String(),
    account_id: Type.String(),
    amount: Type.Integer(),
    currency: Type.String(),
    status: Type.Enum([...movementStatuses]),
    reason: nullable(Type.String()),
    note: nullable(Type.String()),
    failure_code: nullable(Type.String()),
    created_at: Type.String(),
  },
  { title: 'Refund' },
)

export function refundRoutes(http: Http, app: BillingApp): void {
  http.post(
    '/api/billing/refund',
    {
      config: { access: 'billing:refund', once: true },
      schema: {
        operationId: 'refundInvoice',
        summary: 'Give back all or a part of what an invoice took',
        tags: ['billing'],
        body: Type.Object(
          {
            invoice_id: Type.String({ maxLength: 64 }),
            amount: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
            reason: Type.Optional(Type.Enum([...refundReasons])),
            note: Type.Optional(noteOf(500)),
          },
          { additionalProperties: false },
        ),
        errors: refuse.may(
          'invoice_not_found',
          'invoice_not_paid',
          'payment_disputed',
          'refund_in_doubt',
          'nothing_to_refund',
          'refund_exceeds_remaining',
          'refund_declined',
          'provider_unavailable',
          'provider_error',
        ),
        response: { 200: success(RefundView), 202: success(RefundView) },
      },
    },
    async (request, reply) => {
      const { invoice_id, amount, reason, note } = request.body
      const { principal } = request
      const asked = {
        invoiceId: invoice_id,
        amount,
        reason: reason ?? null,
        note: note ?? null,
        actor: principal.tokenId,
        mayTouch: (accountId: string) => mayTouch(principal.account, accountId),
      }
      await answerOnce(onceContext(app), request, reply, refundInvoice(app, asked), {
        done: 200,
        pending: 202,
        view: viewOf,
      })
    },
  )

  http.get(
    '/api/billing/refunds/:refund_id',
    {
      config: { access: 'billing:read' },
      schema: {
        operationId: 'getRefund',
        summary: 'One refund',
        tags: ['billing'],
        params: Type.Object({ refund_id: Type.String() }),
        errors: refuse.may('refund_not_found'),
        response: { 200: success(RefundView) },
      },
    },
    async (request) => {
      const { refund_id } = request.params
      const found = isId('ref_', refund_id) ? await findRefund(app.db, refund_id) : undefined
      return envelope(viewOf(ownedBy(request.principal, found, () => refuse('refund_not_found'))))
    },
  )
}

function viewOf(refund: Refund) {
  return {
    refund_id: refund.refundId,
    invoice_id: refund.invoiceId,
    payment_id: refund.paymentId,
    account_id: refund.accountId,
    ...toJson(refund.amount),
    status: refund.status,
    reason: refund.reason,
    note: refund.note,
    failure_code: refund.code,
    created_at: renderInstant(refund.createdAt, refund.timeZone),
  }
}

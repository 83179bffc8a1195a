import Type from 'typebox'
import type { Principal } from '../../platform/access/access.ts'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import { AccountId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { isId } from '../../platform/id.ts'
import { pageQuery } from '../../platform/page.ts'
import { renderInstant } from '../../platform/time.ts'
import { findAccount, findContact } from '../accounts/account-rows.ts'
import type { BillingApp } from '../app.ts'
import { noteRead } from '../audit/audit-rows.ts'
import { InstantField, readInstant } from '../instant-field.ts'
import { toJson } from '../money.ts'
import { NextActionView, nextActionView } from '../payments/next-action-view.ts'
import { movementStatuses } from '../payments/payment.ts'
import { refuse } from '../refusals.ts'
import { isOperator, ownedBy, tenantOf } from '../tenancy.ts'
import { disputeStatuses, type Invoice, invoiceStatuses } from './invoice.ts'
import { openInvoicePrinter } from './invoice-printer.ts'
import { findInvoice, listInvoices } from './invoice-rows.ts'
import { findLogo } from './logo-rows.ts'

const moneyFields = { amount: Type.Integer(), currency: Type.String() }

// The provider's own words are an operator's business.
const traceFields = {
  provider: Type.Optional(Type.String({ description: 'With its id and code there: for unbound tokens' })),
  provider_id: Type.Optional(nullable(Type.String())),
  provider_code: Type.Optional(nullable(Type.String())),
}

const InvoiceView = Type.Object(
  {
    invoice_id: Type.String(),
    number: Type.String(),
    account_id: Type.String(),
    subscription_id: Type.String(),
    status: Type.Enum([...invoiceStatuses]),
    amount_due: Type.Integer(),
    amount_paid: Type.Integer(),
    amount_refunded: Type.Integer(),
    currency: Type.String(),
    period_start: Type.String(),
    period_end: Type.String(),
    issued_at: Type.String(),
    paid_at: nullable(Type.String()),
    seller: Type.Object({
      name: Type.String(),
      address: nullable(Type.String()),
      registration: nullable(Type.String()),
      tax_id: nullable(Type.String()),
    }),
    attempt_count: Type.Integer(),
    next_attempt_at: nullable(Type.String()),
    next_action: NextActionView,
    hold: nullable(Type.String({ description: 'missed: not collected by itself, an operator decides' })),
    lines: Type.Array(
      Type.Object({ description: Type.String(), quantity: Type.Integer(), amount: Type.Integer() }),
    ),
    payments: Type.Array(
      Type.Object({
        payment_id: Type.String(),
        reference: Type.String({ description: 'What the provider knows the payment by' }),
        status: Type.Enum([...movementStatuses]),
        ...moneyFields,
        amount_refunded: Type.Integer(),
        failure_code: nullable(Type.String()),
        ...traceFields,
        disputed: Type.Boolean({ description: 'A dispute is open or was lost' }),
        dispute: nullable(
          Type.Object({
            status: Type.Enum([...disputeStatuses]),
            amount: Type.Integer(),
            opened_at: Type.String(),
            closed_at: nullable(Type.String()),
          }),
        ),
        created_at: Type.String(),
        settled_at: nullable(Type.String()),
      }),
    ),
    refunds: Type.Array(
      Type.Object({
        refund_id: Type.String(),
        payment_id: Type.String(),
        status: Type.Enum([...movementStatuses]),
        ...moneyFields,
        reason: nullable(Type.String()),
        note: nullable(Type.String()),
        created_at: Type.String(),
      }),
    ),
  },
  { title: 'Invoice' },
)

export function invoiceRoutes(http: Http, app: BillingApp): void {
  const printer = openInvoicePrinter()
  http.addHook('onClose', () => printer.close())

  http.get(
    '/api/billing/invoices',
    {
      config: { access: 'billing:read', mayLag: true },
      schema: {
        operationId: 'listInvoices',
        summary: 'Invoices, newest first',
        tags: ['billing'],
        querystring: Type.Object(
          {
            account_id: Type.Optional(AccountId),
            subscription_id: Type.Optional(Type.String({ maxLength: 64 })),
            status: Type.Optional(Type.Enum([...invoiceStatuses])),
            from: Type.Optional(InstantField),
            to: Type.Optional(InstantField),
            ...pageQuery,
          },
          { additionalProperties: false },
        ),
        response: { 200: page('invoices', InvoiceView) },
      },
    },
    async (request) => {
      const { account_id, subscription_id, status, from, to, ...paging } = request.query
      const accountId = tenantOf(request.principal, account_id)
      const found = await listInvoices(
        reading(app, request).db,
        {
          ...(accountId !== undefined && { accountId }),
          ...(subscription_id !== undefined && { subscriptionId: subscription_id }),
          ...(status !== undefined && { status }),
          ...(from !== undefined && { from: readInstant('from', from) }),
          ...(to !== undefined && { to: readInstant('to', to) }),
        },
        paging,
      )
      return envelope({
        invoices: found.items.map((invoice) => viewOf(app, request.principal, invoice)),
        next_cursor: found.nextCursor,
      })
    },
  )

  http.get(
    '/api/billing/invoices/:invoice_id',
    {
      config: { access: 'billing:read' },
      schema: {
        operationId: 'getInvoice',
        summary: 'One invoice',
        tags: ['billing'],
        params: Type.Object({ invoice_id: Type.String() }),
        errors: refuse.may('invoice_not_found'),
        response: { 200: success(InvoiceView) },
      },
    },
    async (request) => {
      const { invoice_id } = request.params
      const found = isId('inv_', invoice_id) ? await findInvoice(app.db, invoice_id) : undefined
      return envelope(
        viewOf(
          app,
          request.principal,
          ownedBy(request.principal, found, () => refuse('invoice_not_found')),
        ),
      )
    },
  )

  http.get(
    '/api/billing/invoices/:invoice_id.pdf',
    {
      config: { access: 'billing:read' },
      schema: {
        operationId: 'printInvoice',
        summary: 'One invoice as a printable document',
        tags: ['billing'],
        params: Type.Object({ invoice_id: Type.String() }),
        errors: refuse.may('invoice_not_found'),
        response: {
          200: {
            description: 'A4, with Hangul and Latin',
            content: {
              'application/pdf': {
                schema: Type.Unsafe<Buffer>({ type: 'string', format: 'binary' }),
                example: '%PDF-1.7',
              },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { invoice_id } = request.params
      const found = isId('inv_', invoice_id) ? await findInvoice(app.db, invoice_id) : undefined
      const invoice = ownedBy(request.principal, found, () => refuse('invoice_not_found'))
      await noteRead(app.db, {
        at: app.clock(),
        actor: request.principal.tokenId,
        action: 'invoice.print',
        accountId: invoice.accountId,
        target: invoice.invoiceId,
      })
      const account = await findAccount(app.db, invoice.accountId)
      const pdf = await printer.print(request.principal.tokenId, {
        invoice,
        contact: await findContact(app.db, app.vault, invoice.accountId),
        logo: invoice.seller.logo ? await findLogo(app.db, invoice.seller.logo) : null,
        language: account?.language ?? app.terms.language,
      })
      return reply
        .type('application/pdf')
        .header('content-disposition', `inline; filename="${invoice.number.replace(/[^\w.-]/g, '_')}.pdf"`)
        .header('cache-control', 'private, no-store')
        .send(pdf)
    },
  )
}

function viewOf(app: BillingApp, principal: Principal, invoice: Invoice) {
  const at = (instant: Date) => renderInstant(instant, invoice.timeZone)
  return {
    invoice_id: invoice.invoiceId,
    number: invoice.number,
    account_id: invoice.accountId,
    subscription_id: invoice.subscriptionId,
    status: invoice.status,
    amount_due: toJson(invoice.due).amount,
    amount_paid: toJson(invoice.paid).amount,
    amount_refunded: toJson(invoice.refunded).amount,
    currency: invoice.due.currency,
    period_start: at(invoice.periodStart),
    period_end: at(invoice.periodEnd),
    issued_at: at(invoice.issuedAt),
    paid_at: invoice.paidAt && at(invoice.paidAt),
    seller: {
      name: invoice.seller.name,
      address: invoice.seller.address,
      registration: invoice.seller.registration,
      tax_id: invoice.seller.tax_id,
    },
    attempt_count: invoice.attemptCount,
    next_attempt_at: invoice.nextAttemptAt && at(invoice.nextAttemptAt),
    next_action: nextActionView(app, invoice.nextAction, invoice.timeZone),
    hold: invoice.hold,
    lines: [{ description: invoice.description, quantity: 1, amount: toJson(invoice.due).amount }],
    payments: invoice.payments.map((payment) => ({
      payment_id: payment.paymentId,
      reference: payment.reference,
      status: payment.status,
      ...toJson(payment.amount),
      amount_refunded: toJson(payment.refunded).amount,
      failure_code: payment.code,
      ...(isOperator(principal) && payment.trace),
      disputed: payment.disputed,
      dispute: payment.dispute && {
        status: payment.dispute.status,
        amount: toJson(payment.dispute.amount).amount,
        opened_at: at(payment.dispute.openedAt),
        closed_at: payment.dispute.closedAt && at(payment.dispute.closedAt),
      },
      created_at: at(payment.createdAt),
      settled_at: payment.settledAt && at(payment.settledAt),
    })),
    refunds: invoice.refunds.map((refund) => ({
      refund_id: refund.refundId,
      payment_id: refund.paymentId,
      status: refund.status,
      ...toJson(refund.amount),
      reason: refund.reason,
      note: refund.note,
      created_at: at(refund.createdAt),
    })),
  }
}

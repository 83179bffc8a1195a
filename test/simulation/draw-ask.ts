import type { Random } from './random.ts'
import type { Ask } from './simulated-world.ts'

/** What a request may be about: only what its client was told. */
export type Subject = {
  readonly account: string
  readonly subscription: string | undefined
  readonly invoice: string | undefined
  readonly post: (path: string, body: object) => Ask
  readonly drawCard: () => object
  /** How much is asked back; without it chance says. */
  readonly amount?: number | undefined
  /** From how many keywords the client chooses. */
  readonly keywords: number
}

/** What clients ask alike in every campaign. */
export type CommonAsk = 'resume' | 'changeCard' | 'refund' | 'readInvoices' | 'readSubscription' | 'keywords'

/** Undefined where the client knows of nothing that it could ask about. */
export function drawCommonAsk(random: Random, about: Subject, what: CommonAsk): Ask | undefined {
  const { account, subscription, invoice, post, drawCard, amount, keywords } = about
  switch (what) {
    case 'resume':
      return subscription === undefined ? undefined : post('/resume', { subscription_id: subscription })
    case 'changeCard':
      return subscription === undefined
        ? undefined
        : post('/payment-method', { subscription_id: subscription, payment_method: drawCard() })
    case 'refund':
      return invoice === undefined
        ? undefined
        : post('/refund', {
            invoice_id: invoice,
            ...(amount !== undefined
              ? { amount }
              : random.chance(0.8) && { amount: random.pick([1, 100, 400, 900, 1900]) }),
          })
    case 'readInvoices':
      return { method: 'GET', path: `/api/billing/invoices?account_id=${account}&limit=100` }
    case 'readSubscription':
      return subscription === undefined
        ? undefined
        : { method: 'GET', path: `/api/billing/subscriptions/${subscription}` }
    case 'keywords':
      return {
        method: 'POST',
        path: '/api/batch/keywords',
        body: {
          workspace_id: 'shop',
          keywords: Array.from({ length: random.between(1, 3) }, () => `shoe ${random.between(1, keywords)}`),
        },
      }
  }
}

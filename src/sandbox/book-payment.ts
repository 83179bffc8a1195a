/** A payment as the book renders it, for wires that tell it in other words. */
export type BookPayment = {
  readonly id: string
  readonly reference: string
  readonly account_id: string
  readonly amount: number
  readonly currency: string
  readonly status: 'paid' | 'declined'
  readonly decline_code: string | null
  readonly amount_refunded: number
  readonly refunds: readonly BookRefund[]
  readonly dispute: BookDispute | null
  readonly created_at: string
}

export type BookRefund = {
  readonly id: string
  readonly reference: string
  readonly amount: number
  readonly status: 'succeeded' | 'failed'
  readonly created_at: string
}

export type BookDispute = {
  readonly status: 'open' | 'won' | 'lost'
  readonly amount: number
  readonly opened_at: string
  readonly closed_at: string | null
}

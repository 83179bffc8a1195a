/** The business that sells, as it stands on an invoice from the day that was issued. */
export type Seller = {
  readonly name: string
  readonly address: string | null
  readonly registration: string | null
  readonly tax_id: string | null
  /** SHA-256 of the picture, which is kept beside the invoices. */
  readonly logo: string | null
}

export const languages = ['en', 'ko'] as const
export type Language = (typeof languages)[number]

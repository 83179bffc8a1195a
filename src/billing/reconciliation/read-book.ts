import type { PaymentListing, ProviderPayment } from '../providers/port.ts'

/** The provider could not be read, so nothing can be said about its book. */
export class BookUnreadable extends Error {
  override name = 'BookUnreadable'
}

const readTries = 3

/** All pages of one of the provider's lists. */
export async function* readBook(
  name: string,
  from: Date,
  to: Date,
  list: (from: Date, to: Date, cursor: string | null) => Promise<PaymentListing>,
): AsyncGenerator<readonly ProviderPayment[]> {
  let cursor: string | null = null
  do {
    let listing = await list(from, to, cursor)
    for (let tries = 1; listing.kind !== 'page' && tries < readTries; tries++) {
      listing = await list(from, to, cursor)
    }
    if (listing.kind === 'credentials_refused')
      throw new BookUnreadable(`The provider "${name}" refuses our keys, so its book cannot be read.`)
    if (listing.kind !== 'page')
      throw new BookUnreadable(`The book of the provider "${name}" cannot be read just now.`)
    yield listing.payments
    cursor = listing.next
  } while (cursor !== null)
}

import type { Book, FoundPayment } from './book.ts'
import type { BookPayment } from './book-payment.ts'

/** A payment of the book, parsed, with what only its row tells. */
export type PaymentOnBook = Omit<FoundPayment, 'payment'> & { readonly payment: BookPayment }

/** By exactly one of its names: the book finds by either, and providers give each an address of its own. */
export async function findPaymentBy(
  book: Book,
  by: 'reference' | 'id',
  name: string,
): Promise<PaymentOnBook | undefined> {
  const found = await book.find(name)
  if (!found) return undefined
  const payment: BookPayment = JSON.parse(found.payment)
  return payment[by] === name ? { ...found, payment } : undefined
}

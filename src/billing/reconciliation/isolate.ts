import { storedReason } from '../../platform/log/describe-error.ts'
import type { BillingApp } from '../app.ts'
import { concernsAll } from '../sweeps/sweep-failures.ts'
import { BookUnreadable } from './read-book.ts'

/** A subscription, or a fact that stands alone, that could not be worked on; the others were. */
export type Failed = { readonly subject: string; readonly account: string | null; readonly reason: string }

/** What goes wrong with one is told of that one. A database that is away concerns all of them. */
export async function isolate(
  app: BillingApp,
  subject: string,
  work: () => Promise<void>,
  tellFailed: (reason: string) => void,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (concernsAll(error)) throw error
    app.onReconcileFault?.(error, subject)
    tellFailed(error instanceof BookUnreadable ? error.message : storedReason(error))
  }
}

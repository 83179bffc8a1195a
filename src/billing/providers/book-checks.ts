import type { JsonAnswer } from '../../platform/fetch-json.ts'
import { clockCheck } from './clock-check.ts'
import type { PaymentListing, ProviderCheck } from './port.ts'

/** How a provider's own words name what the checks are about. */
export type BookWords = {
  readonly taken: string
  /** What to correct when the provider refuses who asks. */
  readonly refused: string
  /** What to look at when it says neither yes nor no. */
  readonly unclear: string
  /** What stands in its book: "Payments". */
  readonly entries: string
}

/** What one look at a provider's book tells: whether the key is taken, the clocks agree, and the book can be listed. */
export function bookChecks(
  answer: JsonAnswer,
  { kind }: Pick<PaymentListing, 'kind'>,
  { taken, refused, unclear, entries }: BookWords,
): ProviderCheck[] {
  const ok = kind === 'page'
  const wrong = kind === 'credentials_refused' ? refused : unclear
  return [
    { subject: 'credentials', ok, message: ok ? taken : wrong },
    clockCheck(answer.kind === 'answered' ? answer.headers.date : undefined),
    { subject: 'listing', ok, message: `${entries} ${ok ? 'can' : 'cannot'} be listed.` },
  ]
}

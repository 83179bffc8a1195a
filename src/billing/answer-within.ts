import type { BillingTerms } from './app.ts'

type Times = Pick<BillingTerms, 'answerWithinMs' | 'providerTimeoutMs'>

// What a request may need beside the provider's time.
const marginMs = 10_000
// And how much of that is left for its end.
const endMs = 2_000

/** How long a request has its Idempotency-Key to itself. */
export function keyLeaseMs({ providerTimeoutMs }: Times): number {
  return providerTimeoutMs + marginMs
}

/**
 * How long a caller is kept waiting: never longer than the key is theirs. Whoever repeats the request after that is promised
 * that it goes on, and the first must not give it up then.
 */
export function patienceMs(terms: Times): number {
  return Math.min(terms.answerWithinMs, keyLeaseMs(terms) - endMs)
}

/** Whoever waits for an answer. */
export type Caller = {
  /** Aborted once they have been told to ask again. */
  readonly gone: AbortSignal
  /**
   * Tells whether they still wait, and has them wait for the end of the work: what is given up from here on is what they are
   * told. Nothing else may be given up for want of a provider, because they were promised that it goes on.
   */
  stays(): boolean
}

/** In the place of a caller's `stays`, for what is done in the background. */
export const nobodyWaits = () => false

/**
 * Gives work some time to finish before the caller is answered. It goes on meanwhile: what it finds is recorded, and
 * should it fail, the sweep finds the recorded intent.
 */
export async function answerWithin(terms: Times, work: (caller: Caller) => Promise<unknown>): Promise<void> {
  const late = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const timeUp = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      late.abort()
      resolve()
    }, patienceMs(terms))
  })
  const stays = () => {
    clearTimeout(timer)
    return !late.signal.aborted
  }
  const working = work({ gone: late.signal, stays })
  working.catch(() => {})
  try {
    await Promise.race([working, timeUp])
  } finally {
    clearTimeout(timer)
  }
}

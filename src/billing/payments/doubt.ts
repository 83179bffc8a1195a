/** A call to the provider whose answer never came: what has been tried so far, all in service time. */
export type Doubt = {
  readonly sentAt: Date
  /** Lookups that found nothing since the key window closed, and when the first of them was. */
  readonly notFoundCount: number
  readonly notFoundSince: Date | null
}

export type NoneVerdict =
  /** The provider still knows the key, so sending it again cannot act twice. */
  | { kind: 'resend' }
  | { kind: 'wait'; notFoundCount: number; notFoundSince: Date; lookupBy: Date }
  /** It can no longer arrive: only now may a new key exist. */
  | { kind: 'never_arrived' }

const hourMs = 3_600_000
const enoughLookups = 3
// About a minute of fruitless sends.
const longSilence = 6

/** Whether a first send comes so late that the provider is asked before it what it knows. */
export function comesLate(dueAt: Date, now: Date): boolean {
  return now.getTime() - dueAt.getTime() > hourMs
}

/** Whether an answer after so many looks ends a silence: others like it need not wait for their turn then. */
export function endsLongSilence(lookupCount: number): boolean {
  return lookupCount >= longSilence
}

/** What follows when the provider says that it knows nothing of our reference. */
export function verdictOfNotFound(doubt: Doubt, now: Date, keyWindowMs: number): NoneVerdict {
  if (now.getTime() < doubt.sentAt.getTime() + keyWindowMs) return { kind: 'resend' }

  const notFoundCount = doubt.notFoundCount + 1
  const notFoundSince = doubt.notFoundSince ?? now
  const anHourAfter = notFoundSince.getTime() + hourMs
  if (notFoundCount >= enoughLookups && now.getTime() >= anHourAfter) return { kind: 'never_arrived' }

  return {
    kind: 'wait',
    notFoundCount,
    notFoundSince,
    lookupBy: nextOfThree(notFoundCount, anHourAfter, now),
  }
}

/** Re-sends in a row that got the same "no", each after a lookup that found nothing. */
export type ResendDeclines = { readonly count: number; readonly since: Date }

export type ResendVerdict =
  /** It has been said often and long enough: nothing was running. */
  { kind: 'believe' } | { kind: 'wait'; declines: ResendDeclines; lookupBy: Date }

/**
 * What follows when a re-send is turned down, and the provider does not say that this was its first answer: an earlier
 * send may still be running. `before`: the same "no" so far, null if this is the first.
 */
export function verdictOfResend(before: ResendDeclines | null, now: Date): ResendVerdict {
  const count = (before?.count ?? 0) + 1
  const since = before?.since ?? now
  const anHourAfter = since.getTime() + hourMs
  if (count >= enoughLookups && now.getTime() >= anHourAfter) return { kind: 'believe' }
  return { kind: 'wait', declines: { count, since }, lookupBy: nextOfThree(count, anHourAfter, now) }
}

/** Three looks over an hour: at once, after half of it, and at its end. */
function nextOfThree(count: number, anHourAfter: number, now: Date): Date {
  const next =
    count < enoughLookups - 1 ? now.getTime() + hourMs / 2 : Math.max(anHourAfter, now.getTime() + 1)
  return new Date(next)
}

/**
 * The instant of service time by which a doubt must be looked at again, however fast time is moved: a few times while
 * the key window is open, and when it closes. Null after that, when only real time brings an answer nearer.
 */
export function nextLookupBy(sentAt: Date, now: Date, keyWindowMs: number): Date | null {
  const windowEnd = sentAt.getTime() + keyWindowMs
  for (const afterMs of [hourMs / 6, hourMs, 6 * hourMs]) {
    const at = sentAt.getTime() + afterMs
    if (at > now.getTime() && at < windowEnd) return new Date(at)
  }
  return windowEnd > now.getTime() ? new Date(windowEnd) : null
}

/**
 * Real time to wait before the next look. The first comes at once; the waits grow to an hour, so that a doubt costs the
 * provider a few hundred calls over the longest key window there is. What only waits for a silent provider need not wait
 * so long: it is due as soon as the provider answers again.
 */
export function lookupAgainAfterMs(lookupCount: number): number {
  return lookupCount === 0 ? 0 : Math.min(hourMs, 1000 * 2 ** Math.min(lookupCount - 1, 12))
}

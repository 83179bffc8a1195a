import { type DunningStep, nextDunning } from '../invoices/dunning.ts'
import type { Money } from '../money.ts'
import { type FailureCode, isDecline } from '../payments/payment.ts'
import { type Card, isHard } from '../providers/port.ts'
import type { Interval } from './period.ts'

export const subscriptionStatuses = [
  'incomplete',
  'trialing',
  'active',
  'past_due',
  'canceling',
  'canceled',
] as const

export type SubscriptionStatus = (typeof subscriptionStatuses)[number]

export type Subscription = {
  readonly subscriptionId: string
  readonly accountId: string
  readonly planId: string
  readonly description: string
  readonly price: Money
  readonly interval: Interval
  readonly timeZone: string
  readonly status: SubscriptionStatus
  readonly anchor: Date
  /** The newest period with a row; -1 before the first. */
  readonly lastK: number
  readonly nextBillingAt: Date | null
  readonly periodStart: Date
  readonly periodEnd: Date
  readonly trialEndsAt: Date | null
  readonly cancelAt: Date | null
  readonly canceledAt: Date | null
  readonly cancelCode: string | null
  readonly cancelNote: string | null
  readonly methodId: string | null
  readonly card: Card | null
  readonly createdAt: Date
}

export type SubscriptionAction = 'cancel' | 'resume' | 'change_payment_method'

/** What may be asked of a subscription in this status. */
export function allowedActions(status: SubscriptionStatus): SubscriptionAction[] {
  switch (status) {
    case 'incomplete':
      return ['cancel']
    case 'trialing':
    case 'active':
    case 'past_due':
      return ['cancel', 'change_payment_method']
    case 'canceling':
      return ['resume', 'change_payment_method']
    case 'canceled':
      return []
  }
}

export function hasAccess(status: SubscriptionStatus): boolean {
  return status !== 'incomplete' && status !== 'canceled'
}

export type CancelVerdict =
  | { kind: 'unchanged' }
  | { kind: 'later'; cancelAt: Date }
  | { kind: 'at_once' }
  | { kind: 'refused'; code: 'already_canceled' }

/**
 * What a wish to cancel leads to. What is paid for runs to just before its end; what is not paid for ends at once, and
 * so does what would end within the lead, because a worker might already be on its way to renew it.
 */
export function cancelVerdict(
  subscription: Pick<Subscription, 'status' | 'nextBillingAt'>,
  now: Date,
  leadSeconds: number,
): CancelVerdict {
  const { status, nextBillingAt } = subscription
  if (status === 'canceled') return { kind: 'refused', code: 'already_canceled' }
  if (status === 'canceling') return { kind: 'unchanged' }
  if (status === 'incomplete' || status === 'past_due' || nextBillingAt === null) return { kind: 'at_once' }
  const cancelAt = new Date(nextBillingAt.getTime() - leadSeconds * 1000)
  return cancelAt > now ? { kind: 'later', cancelAt } : { kind: 'at_once' }
}

/** Where a resumed subscription goes back to: it is trialing until its first period begins. */
export function statusAfterResume(subscription: Pick<Subscription, 'lastK'>): 'trialing' | 'active' {
  return subscription.lastK < 0 ? 'trialing' : 'active'
}

/** Where a paid invoice leaves its subscription. One that owes more stays past due. */
export function statusAfterPaid(status: SubscriptionStatus, owesMore: boolean): SubscriptionStatus {
  if (status === 'incomplete') return 'active'
  if (status === 'past_due') return owesMore ? 'past_due' : 'active'
  return status
}

export type FailureVerdict =
  | { kind: 'past_due'; firstFailedAt: Date; step: DunningStep }
  | { kind: 'ends'; cancelCode: string; invoice: 'void' | 'uncollectible' }

export type FailedAttempt = {
  readonly status: SubscriptionStatus
  /** Whether it was the charge that begins it. Whoever canceled meanwhile, or was restored as such, never began. */
  readonly begins: boolean
  readonly timeZone: string
  readonly code: FailureCode
  /** Whether the subscription's own payment method failed, or one that was offered in its place. */
  readonly ownMethod: boolean
  readonly firstFailedAt: Date | null
  /** What dunning was about to do before this attempt. */
  readonly dunning: DunningStep['how'] | null
  /** When it was about to do so. It may be past: nobody does it while an attempt is open. */
  readonly dueBefore: Date | null
}

/** Where a failed attempt leaves its subscription and invoice. */
export function afterFailure(
  failure: FailedAttempt,
  now: Date,
  dunningDays: readonly number[],
): FailureVerdict {
  const { status, code } = failure
  if (failure.begins) return { kind: 'ends', cancelCode: firstChargeCode(code), invoice: 'void' }

  const gaveUp = { kind: 'ends', cancelCode: 'payment_failed', invoice: 'uncollectible' } as const
  // It was ending anyway: there is nothing to save by trying again.
  if (status === 'canceling' || status === 'canceled') return gaveUp

  const firstFailedAt = failure.firstFailedAt ?? now
  // All is as it was before the other payment method was offered.
  if (!failure.ownMethod && failure.dunning !== null && failure.dueBefore !== null)
    return { kind: 'past_due', firstFailedAt, step: { how: failure.dunning, at: failure.dueBefore } }
  const hard = failure.ownMethod ? isHardFailure(code) : failure.dunning === 'give_up'
  const step = nextDunning({ firstFailedAt, timeZone: failure.timeZone, hard }, now, dunningDays)
  return step ? { kind: 'past_due', firstFailedAt, step } : gaveUp
}

function firstChargeCode(code: FailureCode): string {
  if (isDecline(code)) return 'payment_declined'
  return code === 'never_arrived' ? 'provider_error' : code
}

/** A key that the provider no longer knows was revoked: no retry brings it back. */
function isHardFailure(code: FailureCode): boolean {
  return code === 'billing_key_invalid' || (isDecline(code) && isHard(code))
}

import { type Money, sameMoney } from '../money.ts'
import type { PaymentStatus } from '../payments/payment.ts'
import { isOfOneCurrency, lostIn, type ProviderDispute, type ProviderPayment } from '../providers/port.ts'

export type OurPayment = {
  readonly paymentId: string
  readonly reference: string
  /** The provider's own id, where an answer has told it. */
  readonly providerId?: string | null
  readonly accountId: string
  readonly status: PaymentStatus
  readonly amount: Money
  readonly refunded: bigint
  readonly refundPending: bigint
  readonly dispute: {
    readonly status: ProviderDispute['status']
    readonly amount: bigint
    readonly lost: bigint
  } | null
}

/** A difference, and in whose book it stands. */
export type PlacedDifference = Difference & { readonly provider: string }

/** Where two books tell different stories about a payment. */
export type Difference = {
  readonly kind: DifferenceKind
  readonly reference: string
  /** The provider's own id of it, where it is known. */
  readonly providerId: string | null
  /** Null: none of ours. */
  readonly paymentId: string | null
  readonly accountId: string | null
  readonly ours: { readonly status: string; readonly amount: Money; readonly refunded: Money } | null
  readonly theirs: { readonly status: string; readonly amount: Money; readonly refunded: Money } | null
  /** What went wrong here, of one that could not be compared or recorded. */
  readonly reason?: string
}

export type DifferenceKind =
  /** The provider has a payment that is none of ours. */
  | 'unknown_here'
  /** We hold it for taken, and the provider knows nothing of it. */
  | 'missing_there'
  /** Another amount, or in any of what it says another currency. */
  | 'amount'
  | 'status'
  | 'refunded'
  /** One side knows of a dispute, or of its end, and the other does not. */
  | 'disputed'
  /** Money that pays for nothing is still there: its refund was declined, disputed, or came back. */
  | 'unmatched'
  /** The provider took money under a reference of ours beside the payment we know, and it is still there. */
  | 'duplicate'
  /** One side does not know its outcome yet. */
  | 'undecided'
  /** What the provider tells could not be compared or recorded here: a fault of ours, or facts that cannot be. */
  | 'failed'

/** What differs, the gravest first. `unknown`: the provider did not answer; undefined: it has no such payment. */
export function differenceOf(
  ours: OurPayment | undefined,
  theirs: ProviderPayment | 'unknown' | undefined,
): Difference | undefined {
  const kind = kindOf(ours, theirs)
  return kind && tellDifference(kind, ours, theirs === 'unknown' ? undefined : theirs)
}

export function tellDifference(
  kind: DifferenceKind,
  ours: OurPayment | undefined,
  theirs: ProviderPayment | undefined,
): Difference {
  return {
    kind,
    reference: ours?.reference ?? theirs?.reference ?? '',
    providerId: theirs?.providerId ?? ours?.providerId ?? null,
    paymentId: ours?.paymentId ?? null,
    accountId: ours?.accountId ?? null,
    ours: ours
      ? {
          status: ours.status,
          amount: ours.amount,
          refunded: { minor: ours.refunded, currency: ours.amount.currency },
        }
      : null,
    theirs: theirs ? { status: theirs.status, amount: theirs.amount, refunded: theirs.refunded } : null,
  }
}

/** Whether a payment under a reference of ours is not the one that we know by it. */
export function isAnother(ours: OurPayment | undefined, theirs: ProviderPayment): boolean {
  const known = ours?.providerId ?? null
  return known !== null && known !== theirs.providerId
}

/** Whether money was taken that neither went back nor was lost to the bank. */
export function holdsMoney(payment: ProviderPayment): boolean {
  const { status, amount, refunded, dispute } = payment
  const lost = dispute ? lostIn(dispute) : 0n
  return status === 'paid' && (!isOfOneCurrency(payment) || amount.minor > refunded.minor + lost)
}

function kindOf(
  ours: OurPayment | undefined,
  theirs: ProviderPayment | 'unknown' | undefined,
): DifferenceKind | undefined {
  const isOpen = ours?.status === 'sending' || ours?.status === 'unknown'
  if (theirs === 'unknown') return ours ? 'undecided' : undefined
  if (!theirs) return ours?.status === 'succeeded' ? 'missing_there' : isOpen ? 'undecided' : undefined
  if (!ours) return 'unknown_here'
  if (!sameMoney(theirs.amount, ours.amount) || !isOfOneCurrency(theirs)) return 'amount'
  if (theirs.status === 'pending') return 'undecided'
  // Both wait for the customer; what we have given up must not.
  if (theirs.status === 'awaiting') return isOpen ? undefined : 'status'
  if ((theirs.status === 'paid') !== (ours.status === 'succeeded') || isOpen) return 'status'
  const back = theirs.refunded.minor - ours.refunded
  if (theirs.status === 'paid' && (back < 0n || back > ours.refundPending)) return 'refunded'
  // Whatever else went back may be of ours: some providers count what they have accepted, some what they have done.
  if (theirs.status === 'paid' && ours.refundPending > 0n) return 'undecided'
  // PortOne tells of no disputes once something went back; one that was won holds nothing any more.
  if (theirs.dispute === null && ours.dispute?.status === 'won') return undefined
  const sameDispute =
    theirs.dispute?.status === ours.dispute?.status &&
    theirs.dispute?.amount.minor === ours.dispute?.amount &&
    (theirs.dispute ? lostIn(theirs.dispute) : 0n) === (ours.dispute?.lost ?? 0n)
  return sameDispute ? undefined : 'disputed'
}

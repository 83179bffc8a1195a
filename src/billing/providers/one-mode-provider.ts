import type { PaymentListing, Provider, ProviderPayment } from './port.ts'

/**
 * Keeps test money and real money apart, where the provider tells which it was. A payment of the other mode is none of
 * ours: what was asked for is a mismatch, and lists leave it out. `onLive` is told of real money in a sandbox; whoever may
 * be in sandbox mode by mistake takes that for no answer (`liveIs`), because it may be ours.
 */
export function oneModeProvider(
  provider: Provider,
  mode: 'sandbox' | 'live',
  onLive: () => Promise<void>,
  liveIs: 'mismatch' | 'unknown' = 'mismatch',
): Provider {
  const isOther = ({ live }: ProviderPayment) => live !== undefined && live !== (mode === 'live')
  const watched = async <T extends { kind: string }>(
    outcome: T | { kind: 'mismatch'; live?: true },
  ): Promise<T | { kind: 'mismatch'; live?: true } | { kind: 'unknown' }> => {
    const { payment, live } = outcome as { payment?: ProviderPayment; live?: true }
    if (mode === 'sandbox' && (live || payment?.live)) {
      await onLive()
      if (liveIs === 'unknown') return { kind: 'unknown' }
    }
    return payment && isOther(payment) ? { kind: 'mismatch' } : outcome
  }
  const listed = async (listing: PaymentListing): Promise<PaymentListing> => {
    if (listing.kind !== 'page') return listing
    if (mode === 'sandbox' && listing.payments.some(({ live }) => live)) {
      await onLive()
      if (liveIs === 'unknown') return { kind: 'unknown' }
    }
    return { ...listing, payments: listing.payments.filter((payment) => !isOther(payment)) }
  }
  const { listChanges } = provider
  return {
    ...provider,
    charge: async (request) => watched(await provider.charge(request)),
    findPayment: async (reference, providerId) => watched(await provider.findPayment(reference, providerId)),
    listPayments: async (from, to, cursor) => listed(await provider.listPayments(from, to, cursor)),
    listChanges: listChanges && (async (from, to, cursor) => listed(await listChanges(from, to, cursor))),
  }
}

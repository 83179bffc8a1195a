import { expect, test } from 'vitest'
import type { ProviderPayment } from '../providers/port.ts'
import { differenceOf, holdsMoney, type OurPayment } from './compare.ts'

const won = (minor: bigint) => ({ minor, currency: 'KRW' as const })
const ours = (more: Partial<OurPayment> = {}): OurPayment => ({
  paymentId: 'pay_1',
  reference: 'rl_1',
  accountId: 'acct_1',
  status: 'succeeded',
  amount: won(9900n),
  refunded: 0n,
  refundPending: 0n,
  dispute: null,
  ...more,
})
const theirs = (more: Partial<ProviderPayment> = {}): ProviderPayment => ({
  reference: 'rl_1',
  providerId: 'ch_1',
  status: 'paid',
  declineCode: null,
  rawCode: null,
  nextAction: null,
  amount: won(9900n),
  refunded: won(0n),
  refunds: [],
  dispute: null,
  card: null,
  at: new Date(0),
  ...more,
})

const dispute = (status: 'open' | 'lost') => ({
  status,
  amount: won(100n),
  openedAt: new Date(0),
  closedAt: status === 'open' ? null : new Date(1),
})

const wonHere = { status: 'won', amount: 100n, lost: 0n } as const
const openHere = { status: 'open', amount: 100n, lost: 0n } as const

test.each<[string, OurPayment | undefined, ProviderPayment | 'unknown' | undefined, string | undefined]>([
  ['both took it', ours(), theirs(), undefined],
  ['both declined it', ours({ status: 'failed' }), theirs({ status: 'declined' }), undefined],
  ['both gave some back', ours({ refunded: 5n }), theirs({ refunded: won(5n) }), undefined],
  ['we gave up on it and it never arrived', ours({ status: 'failed' }), undefined, undefined],
  ['only they know it', undefined, theirs(), 'unknown_here'],
  ['only we know it', ours(), undefined, 'missing_there'],
  ['we wait and they know nothing', ours({ status: 'unknown' }), undefined, 'undecided'],
  ['they do not answer', ours(), 'unknown', 'undecided'],
  ['they are not done yet', ours({ status: 'unknown' }), theirs({ status: 'pending' }), 'undecided'],
  ['both wait for the customer', ours({ status: 'unknown' }), theirs({ status: 'awaiting' }), undefined],
  [
    'they wait for the customer and we gave up',
    ours({ status: 'failed' }),
    theirs({ status: 'awaiting' }),
    'status',
  ],
  ['both ended it', ours({ status: 'failed' }), theirs({ status: 'canceled' }), undefined],
  ['they ended it and we wait', ours({ status: 'unknown' }), theirs({ status: 'canceled' }), 'status'],
  ['they took it and we wait', ours({ status: 'sending' }), theirs(), 'status'],
  ['they declined it and we wait', ours({ status: 'unknown' }), theirs({ status: 'declined' }), 'status'],
  ['they took it and we gave up', ours({ status: 'failed' }), theirs(), 'status'],
  ['they declined it and we hold it for paid', ours(), theirs({ status: 'declined' }), 'status'],
  ['they took another amount', ours(), theirs({ amount: won(990n) }), 'amount'],
  ['they took another currency', ours(), theirs({ amount: { minor: 9900n, currency: 'USD' } }), 'amount'],
  ['they gave back more', ours(), theirs({ refunded: won(1n) }), 'refunded'],
  ['we gave back more', ours({ refunded: 1n }), theirs(), 'refunded'],
  ['a refund of ours is under way', ours({ refundPending: 1n }), theirs(), 'undecided'],
  [
    'they count one of ours that pends',
    ours({ refundPending: 5n }),
    theirs({ refunded: won(5n) }),
    'undecided',
  ],
  ['more went back than pends', ours({ refundPending: 5n }), theirs({ refunded: won(6n) }), 'refunded'],
  [
    'less went back, and one of ours pends',
    ours({ refunded: 9n, refundPending: 5n }),
    theirs({ refunded: won(8n) }),
    'refunded',
  ],
  ['the customer disputes it', ours(), theirs({ dispute: dispute('open') }), 'disputed'],
  ['the bank decided', ours({ dispute: openHere }), theirs({ dispute: dispute('lost') }), 'disputed'],
  ['a dispute that both know', ours({ dispute: openHere }), theirs({ dispute: dispute('open') }), undefined],
  [
    'an open dispute, and a loss of which we do not know',
    ours({ dispute: openHere }),
    theirs({ dispute: { ...dispute('open'), alreadyLost: won(5n) } }),
    'disputed',
  ],
  ['a dispute won here of which they tell no more', ours({ dispute: wonHere }), theirs(), undefined],
  ['an open dispute of which they tell no more', ours({ dispute: openHere }), theirs(), 'disputed'],
])('%s', (_story, here, there, kind) => {
  expect(differenceOf(here, there)?.kind).toBe(kind)
})

test.each<[string, ProviderPayment, boolean]>([
  ['nothing went back', theirs(), true],
  ['nothing was taken', theirs({ status: 'declined' }), false],
  ['a part went back', theirs({ refunded: won(9899n) }), true],
  ['all went back', theirs({ refunded: won(9900n) }), false],
  ['the rest is disputed', theirs({ refunded: won(9800n), dispute: dispute('open') }), true],
  ['the rest was lost', theirs({ refunded: won(9800n), dispute: dispute('lost') }), false],
  [
    'the rest is gone while another dispute is open',
    theirs({ refunded: won(9800n), dispute: { ...dispute('open'), alreadyLost: won(100n) } }),
    false,
  ],
])('whether money is still there: %s', (_story, payment, holds) => {
  expect(holdsMoney(payment)).toBe(holds)
})

import type { Money } from '../../src/billing/money.ts'
import type {
  CancelOutcome,
  Card,
  ChargeOutcome,
  ChargeRequest,
  DeclineCode,
  PaymentLookup,
  Provider,
  ProviderPayment,
  RefundOutcome,
  RefundRequest,
} from '../../src/billing/providers/port.ts'
import { verifyStandardWebhook } from '../../src/billing/providers/standard-webhooks.ts'
import { type Boundaries, currentFlow } from './boundaries.ts'
import type { Random } from './random.ts'

/** What can go wrong between us and the provider, per call. */
export const chargeFaults = [
  'not_sent',
  'lost_request',
  'late_request',
  'error_before',
  'lost_answer',
  'garbage',
  'wrong_echo',
  'other_amount',
  'key_used_otherwise',
  'no_to_resend',
  'slow',
  'stall_before',
  'stall_after',
  'refused',
  'pending',
  'explode',
] as const
export const refundFaults = [
  'not_sent',
  'lost_request',
  'late_request',
  'error_before',
  'lost_answer',
  'garbage',
  'slow',
  'stall_before',
  'stall_after',
  'declined',
  'pending',
  'explode',
] as const
export const lookupFaults = ['lookup_error', 'lookup_lag'] as const
export const cancelFaults = ['cancel_unknown', 'cancel_lost_answer', 'cancel_overtaken'] as const
export const cardFaults = ['card_unknown', 'card_not_sent', 'card_lost_answer'] as const

type ChargeFault = (typeof chargeFaults)[number]
type RefundFault = (typeof refundFaults)[number]

// A stall is drawn in vain while two requests race, so it is put in more often.
const drawnRefundFaults: readonly RefundFault[] = [
  ...refundFaults,
  'stall_before',
  'stall_after',
  'stall_after',
]

/** A line of the provider's own book. */
export type BookCharge = {
  readonly reference: string
  readonly accountId: string
  readonly card: Card | null
  amount: Money
  readonly at: number
  /** Until then the provider named, and held, another amount than it was asked for. */
  wrongUntil?: number
  status: 'paid' | 'declined' | 'pending' | 'awaiting' | 'canceled'
  code: DeclineCode | null
  /** Its request took so long that we may have given it up meanwhile. */
  readonly late: boolean
  /** Its bank wants the customer. */
  readonly asks?: boolean
  readonly refunds: BookRefund[]
  dispute: BookDispute | null
}

export type BookDispute = {
  readonly minor: bigint
  readonly openedAt: number
  status: 'open' | 'won' | 'lost'
  closedAt: number | null
}

export type BookRefund = {
  /** Null: made at the provider, not by us. */
  readonly reference: string | null
  readonly minor: bigint
  readonly at: number
  status: 'succeeded' | 'pending' | 'failed'
}

/** A notification that the provider means to deliver. */
export type Notice = {
  readonly eventId: string
  readonly type: string
  readonly reference: string
  readonly body: string
  /** Nobody else tells us, so the provider goes on until it is taken. */
  readonly vital: boolean
  /** Told by a hint, which carries neither signature nor id. */
  readonly unsigned: boolean
  taken: boolean
}

/** A charge that was asked of the provider, whatever became of it. */
export type AskedCharge = { readonly key: string; readonly at: number; readonly step: number }

/** A call that reached the provider, in order. */
export type ProviderCall = { readonly call: 'charge' | 'lookup'; readonly key: string; readonly at: number }

/** A charge that could not be asked for; without a key, none could. */
export type TurnedAway = { readonly key: string | null; readonly at: number }

/** A "no" to a charge. `first`: nothing had been asked under its key before. */
export type ToldNo = {
  readonly key: string
  readonly code: string
  readonly at: number
  readonly first: boolean
  readonly replayed: boolean
}

export type FaultRates = { readonly charge: number; readonly refund: number; readonly lookup: number }

/** What a key did, and what it was asked for. */
type KnownKey = {
  readonly at: number
  readonly asked?: bigint
  readonly first?: BookCharge['status']
  readonly charge?: BookCharge
  readonly refund?: BookRefund
}

export type ModelProvider = ReturnType<typeof openModelProvider>

const lagMs = 120_000
const hourMs = 3_600_000

/** In what the model differs by the provider whose part it plays (`--provider`). */
type Profile = {
  readonly keyWindowMs: number
  /** Lookups by our reference are behind what happened. */
  readonly lagging: boolean
  readonly expectsRemainder: boolean
  /** Tells of charges; without it, answers and lookups alone do. */
  readonly notifies: boolean
  /** What it tells comes unsigned, by the path of hints. */
  readonly hints?: true
  readonly disputes: boolean
  /** The bank has what is disputed while it decides, and each move of that money is told of. */
  readonly withdrawsDisputed?: true
  /** Once money went back its record shows no disputes, but for what the bank took. */
  readonly hidesDisputes?: true
  readonly asks: boolean
  /** Whether a first answer given again says so. Undefined: a seed decides. */
  readonly marksReplays?: boolean
  /** A billing key is read back before its first charge. */
  readonly tellsOwner?: true
  /** What a known key with another amount is answered. */
  readonly reusedKey: 'key_used_otherwise' | 'mismatch'
  /** A known reference is charged again once its key is forgotten. */
  readonly chargesAgain: boolean
  /** A repeat hears what was said first, however things have come on since. */
  readonly repeatsItself: boolean
}

const sandbox: Profile = {
  keyWindowMs: 24 * hourMs,
  lagging: false,
  expectsRemainder: true,
  notifies: true,
  disputes: true,
  asks: true,
  reusedKey: 'key_used_otherwise',
  // The worst that a provider may do, so that only our own guards help.
  chargesAgain: true,
  repeatsItself: false,
}
const bodyBlind = { marksReplays: false, reusedKey: 'mismatch', chargesAgain: false } as const

const profiles: Readonly<Record<string, Profile>> = {
  sandbox,
  stripe: {
    ...sandbox,
    lagging: true,
    expectsRemainder: false,
    withdrawsDisputed: true,
    marksReplays: true,
    repeatsItself: true,
  },
  toss: {
    ...sandbox,
    ...bodyBlind,
    keyWindowMs: 15 * 24 * hourMs,
    notifies: false,
    hints: true,
    disputes: false,
    asks: false,
  },
  portone: {
    ...sandbox,
    ...bodyBlind,
    keyWindowMs: 3 * hourMs,
    hidesDisputes: true,
    asks: false,
    tellsOwner: true,
  },
}

/** Whose part the model plays; processes that share a campaign learn it from their environment. */
export function profileOf(name = process.env['SIMULATED_PROVIDER'] ?? 'sandbox'): Profile {
  const profile = profiles[name]
  if (!profile) throw new Error(`--provider takes one of ${Object.keys(profiles).join(', ')}.`)
  return profile
}

/**
 * The payment provider as a model behind our port: a book of its own that outlives our deaths, one effect per key and
 * key window, lookups, and every way in which a network loses, delays or doubles a word.
 */
export function openModelProvider(setting: {
  random: Random
  boundaries: Boundaries
  now: () => number
  rates: () => FaultRates
  racing: () => boolean
  step: () => number
  /** A fault that the next such call must meet; without one, chance decides. */
  planned: (call: string) => string | undefined
  onFault: (call: string, fault: string) => void
}) {
  const { random, boundaries, now, onFault } = setting
  const profile = profileOf()
  const { keyWindowMs } = profile
  const book: BookCharge[] = []
  const notices: Notice[] = []
  const asked: AskedCharge[] = []
  // What each key did; one that was refused did nothing, and never will.
  const keys = new Map<string, KnownKey>()
  const isRefused = (key: string) => {
    const known = keys.get(key)
    return known !== undefined && !known.charge && !known.refund
  }
  const calls: ProviderCall[] = []
  const told: ToldNo[] = []
  const turnedAway: TurnedAway[] = []
  // Some providers say that an answer is their first one given once more, others do not.
  const isMarked = random.chance(0.5)
  const marksReplays = profile.marksReplays ?? isMarked
  const credentials = { refused: false }
  const refusedCredentials = { kind: 'credentials_refused' } as const
  const refusesUs = () => {
    if (credentials.refused) turnedAway.push({ key: null, at: now() })
    return credentials.refused
  }
  const spentAuthKeys = new Set<string>()
  let underWay: (() => void)[] = []
  // A database that went back to a copy knows nothing of what was asked before.
  let askedBefore = 0

  function notify(type: string, charge: BookCharge, vital: boolean): void {
    if (!profile.notifies && !vital && !type.startsWith('refund.')) return
    const { reference } = charge
    const unsigned = profile.hints === true
    const body = JSON.stringify({ type, data: { reference } })
    const eventId = `notice-${notices.length}-${reference}`
    notices.push({ eventId, type, reference, body, vital, unsigned, taken: false })
  }

  /** No packet travels for longer than its key is kept, so one that would act a second time never arrives. */
  function isStale(key: string): boolean {
    const known = keys.get(key)
    return known !== undefined && now() >= known.at + keyWindowMs
  }

  /** The key is remembered, and with another amount. */
  function isUsedOtherwise(key: string, { minor }: Money): boolean {
    const known = keys.get(key)
    return known?.asked !== undefined && known.asked !== minor && !isStale(key)
  }

  const mustNotAct = (key: string, billingKey = '') => isStale(key) || isRefused(key) || isNobody(billingKey)

  function draw<F extends string>(call: string, rate: number, faults: readonly F[]): F | undefined {
    const planned = setting.planned(call) as F | undefined
    if (planned === undefined && !random.chance(rate)) return undefined
    const fault = planned ?? random.pick(faults)
    if (setting.racing() && fault.startsWith('stall')) return undefined
    onFault(call, fault)
    return fault
  }

  function explode(text: string): never {
    const flow = currentFlow()
    if (flow) flow.exploded = true
    throw new TypeError(`unexpected token in answer to {"billing_key":"${text}"}`)
  }

  /** Takes the money, unless the key is known: then what it did is done, for as long as the key is kept. */
  function takeMoney(request: ChargeRequest, options: { late?: boolean; pending?: boolean }): BookCharge {
    const known = keys.get(request.key)
    if (known?.charge && now() < known.at + keyWindowMs) return known.charge
    const code = declineOf(request.billingKey, request.accountId, book)
    const charge: BookCharge = {
      reference: request.key,
      accountId: request.accountId,
      card: cardOf(request.billingKey),
      amount: request.amount,
      at: now(),
      status: options.pending
        ? 'pending'
        : code !== null
          ? 'declined'
          : asksCustomer(request.billingKey)
            ? 'awaiting'
            : 'paid',
      code,
      late: options.late ?? false,
      asks: asksCustomer(request.billingKey),
      refunds: [],
      dispute: null,
    }
    book.push(charge)
    keys.set(request.key, { at: now(), asked: request.amount.minor, first: charge.status, charge })
    if (charge.status === 'paid' || charge.status === 'declined')
      notify(`payment.${charge.status}`, charge, charge.late)
    return charge
  }

  async function charge(request: ChargeRequest): Promise<ChargeOutcome> {
    await boundaries.at('before call')
    if (refusesUs()) return refusedCredentials
    const { key } = request
    const first = !asked.slice(askedBefore).some((one) => one.key === key)
    const rate = setting.rates().charge
    // Re-sends are few, so they meet their own kind of trouble more often.
    const refusesAgain = !first && random.chance(rate / 2)
    const fault = refusesAgain
      ? draw<ChargeFault>('charge', 1, ['no_to_resend'])
      : draw<ChargeFault>('charge', rate, chargeFaults)
    const known = keys.has(key) && !isStale(key)
    if (fault !== 'not_sent') {
      asked.push({ key, at: now(), step: setting.step() })
      calls.push({ call: 'charge', key, at: now() })
    } else turnedAway.push({ key, at: now() })
    const outcome = await answerCharge(request, fault === 'no_to_resend' && first ? undefined : fault)
    if (outcome.kind === 'declined' || outcome.kind === 'refused') {
      const replayed = known && marksReplays && fault !== 'no_to_resend'
      told.push({ key, code: outcome.code, at: now(), first, replayed })
      await boundaries.at('after call')
      return replayed ? { ...outcome, replayed } : outcome
    }
    await boundaries.at('after call')
    return outcome
  }

  async function answerCharge(
    request: ChargeRequest,
    fault: ChargeFault | undefined,
  ): Promise<ChargeOutcome> {
    if (fault === 'not_sent') return { kind: 'not_sent' }
    if (fault === 'explode') {
      if (random.chance(0.5) && !mustNotAct(request.key, request.billingKey)) takeMoney(request, {})
      explode(request.billingKey)
    }
    if (fault === 'lost_request' || fault === 'error_before') return { kind: 'unknown' }
    if (fault === 'key_used_otherwise') return { kind: 'key_used_otherwise' }
    if (fault === 'no_to_resend') return { kind: 'refused', code: 'currency_not_supported' }
    if (fault === 'late_request') {
      underWay.push(
        () => void (mustNotAct(request.key, request.billingKey) || takeMoney(request, { late: true })),
      )
      return { kind: 'unknown' }
    }
    if (fault === 'refused' && !keys.has(request.key)) keys.set(request.key, { at: now() })
    if (fault === 'stall_before') await boundaries.stall()
    if (fault === 'stall_before' && isStale(request.key)) return { kind: 'unknown' }
    if (isNobody(request.billingKey)) return { kind: 'refused', code: 'billing_key_invalid' }
    if (isRefused(request.key)) return { kind: 'refused', code: 'provider_error' }
    if (isUsedOtherwise(request.key, request.amount)) return { kind: profile.reusedKey }
    if (isStale(request.key) && !profile.chargesAgain) return { kind: 'unknown' }

    const isNew = !keys.has(request.key)
    const taken = takeMoney(request, { pending: fault === 'pending', late: fault === 'stall_before' })
    if (fault === 'other_amount' && isNew && taken.status === 'paid') {
      taken.amount = { ...taken.amount, minor: taken.amount.minor * 10n }
      taken.wrongUntil = Number.POSITIVE_INFINITY
    }
    if (fault === 'slow') boundaries.spend(20_000)
    if (fault === 'stall_after') await boundaries.stall()
    if (fault === 'lost_answer' || fault === 'garbage') return { kind: 'unknown' }
    if (fault === 'wrong_echo' || taken.wrongUntil === Number.POSITIVE_INFINITY) return { kind: 'mismatch' }
    if (taken.status === 'declined') return { kind: 'declined', code: taken.code ?? 'unknown' }
    if (taken.status === 'awaiting') return { kind: 'needs_customer', payment: paymentOf(taken) }
    if (!isNew && profile.repeatsItself && keys.get(request.key)?.first === 'awaiting')
      return { kind: 'needs_customer', payment: paymentOf({ ...taken, status: 'awaiting' }) }
    return { kind: 'done', payment: paymentOf(taken) }
  }

  async function findPayment(reference: string, providerId?: string | null): Promise<PaymentLookup> {
    await boundaries.at('before call')
    if (refusesUs()) return refusedCredentials
    calls.push({ call: 'lookup', key: reference, at: now() })
    const fault = draw('lookup', setting.rates().lookup, lookupFaults)
    await boundaries.at('after call')
    if (fault === 'lookup_error') {
      turnedAway.push({ key: reference, at: now() })
      return { kind: 'unknown' }
    }
    const found = book.findLast((one) => one.reference === reference)
    // What is asked for by the provider's own id is found at once.
    const lags = profile.lagging || fault === 'lookup_lag'
    if (!found || (lags && !providerId && now() < found.at + lagMs)) return { kind: 'none' }
    return { kind: 'found', payment: paymentOf(found) }
  }

  /** Ends what waits for its customer, unless they were faster. */
  async function cancelPayment(reference: string): Promise<CancelOutcome> {
    await boundaries.at('before call')
    if (refusesUs()) return refusedCredentials
    const fault = draw('cancel', setting.rates().lookup, cancelFaults)
    const found = book.findLast((one) => one.reference === reference)
    if (!found || fault === 'cancel_unknown') return { kind: 'unknown' }
    if (fault === 'cancel_overtaken') confirm(found)
    if (found.status === 'awaiting') found.status = 'canceled'
    await boundaries.at('after call')
    if (fault === 'cancel_lost_answer') return { kind: 'unknown' }
    if (found.status === 'paid') return { kind: 'paid' }
    return { kind: found.status === 'canceled' ? 'canceled' : 'unknown' }
  }

  /** The customer confirms in the browser. False: nobody is awaited any more. */
  function confirm(charge: BookCharge): boolean {
    if (charge.status !== 'awaiting') return false
    charge.status = 'paid'
    notify('payment.paid', charge, false)
    return true
  }

  /** Gives money back once per key. Undefined: it would be more than is left, or not from where we think it is. */
  function giveBack(
    request: RefundRequest,
    options: { late?: boolean; pending?: boolean },
  ): BookRefund | undefined {
    const { late = false, pending = false } = options
    const known = keys.get(request.key)
    if (known?.refund && now() < known.at + keyWindowMs) return known.refund
    const taken = book.findLast((one) => one.reference === request.payment.reference)
    if (taken?.status !== 'paid') return undefined
    const left = taken.amount.minor - heldBack(taken)
    if (profile.expectsRemainder && left !== request.remaining.minor) return undefined
    if (request.amount.minor > left) return undefined
    const refund: BookRefund = {
      reference: request.key,
      minor: request.amount.minor,
      at: now(),
      status: pending ? 'pending' : 'succeeded',
    }
    taken.refunds.push(refund)
    keys.set(request.key, { at: now(), asked: request.amount.minor, refund })
    if (!pending) notify('refund.succeeded', taken, late)
    return refund
  }

  async function refund(request: RefundRequest): Promise<RefundOutcome> {
    await boundaries.at('before call')
    if (refusesUs()) return refusedCredentials
    const fault = draw<RefundFault>('refund', setting.rates().refund, drawnRefundFaults)
    const outcome = await answerRefund(request, fault)
    await boundaries.at('after call')
    return outcome
  }

  async function answerRefund(
    request: RefundRequest,
    fault: RefundFault | undefined,
  ): Promise<RefundOutcome> {
    if (fault === 'not_sent') return { kind: 'not_sent' }
    if (fault === 'explode') {
      if (random.chance(0.5) && !mustNotAct(request.key)) giveBack(request, {})
      explode(request.key)
    }
    if (fault === 'lost_request' || fault === 'error_before') return { kind: 'unknown' }
    if (fault === 'late_request') {
      underWay.push(() => void (mustNotAct(request.key) || giveBack(request, { late: true })))
      return { kind: 'unknown' }
    }
    if (fault === 'stall_before') await boundaries.stall()
    if (fault === 'stall_before' && isStale(request.key)) return { kind: 'unknown' }
    const taken = book.findLast((one) => one.reference === request.payment.reference)
    const isRepeat = keys.get(request.key)?.refund !== undefined && !isStale(request.key)
    // A gateway that refuses says not why; the record does, where it shows it.
    if (taken && isDisputed(taken) && !isRepeat) return { kind: isHidden(taken) ? 'unknown' : 'disputed' }
    if (fault === 'declined' && !keys.has(request.key)) keys.set(request.key, { at: now() })
    if (isRefused(request.key)) return { kind: 'declined' }
    if (isUsedOtherwise(request.key, request.amount)) return { kind: profile.reusedKey }

    const given = giveBack(request, { pending: fault === 'pending', late: fault === 'stall_before' })
    if (fault === 'slow') boundaries.spend(20_000)
    if (fault === 'stall_after') await boundaries.stall()
    if (fault === 'lost_answer' || fault === 'garbage') return { kind: 'unknown' }
    if (!given) return { kind: taken?.status === 'paid' ? 'remaining_differs' : 'unknown' }
    if (given.status === 'pending') return { kind: 'pending' }
    return { kind: given.status === 'failed' ? 'declined' : 'done' }
  }

  const provider: Provider = {
    name: 'model',
    guards: {
      keyWindowMs,
      namesRefunds: true,
      currencies: new Set(['KRW', 'USD']),
      takesAmount: () => true,
      anyCustomer: true,
      ...(profile.tellsOwner && { tellsOwner: true }),
    },
    charge: counted(charge),
    findPayment: counted(findPayment),
    refund: counted(refund),
    exchange: counted(async (authKey: string) => {
      await boundaries.at('before call')
      if (refusesUs()) return refusedCredentials
      const fault = draw('exchange', setting.rates().lookup, cardFaults)
      if (fault === 'card_not_sent') return { kind: 'not_sent' }
      if (spentAuthKeys.has(authKey) || !authKey.startsWith('ak_')) return { kind: 'refused' }
      // A one-time key is spent by the first who brings it, whether or not they hear of it.
      if (fault !== 'card_unknown') spentAuthKeys.add(authKey)
      await boundaries.at('after call')
      if (fault) return { kind: 'unknown' }
      const billingKey = authKey.replace(/^ak_/, 'bk_')
      return { kind: 'done', billingKey, card: cardOf(billingKey) }
    }),
    customerOf: () => null,
    describe: counted(async (billingKey: string) => {
      await boundaries.at('before call')
      if (refusesUs()) return refusedCredentials
      const fault = draw('describe', setting.rates().lookup, cardFaults)
      await boundaries.at('after call')
      if (fault) return { kind: fault === 'card_not_sent' ? 'not_sent' : 'unknown' }
      return isNobody(billingKey) ? { kind: 'invalid' } : { kind: 'valid', card: cardOf(billingKey) }
    }),
    cancelPayment: counted(cancelPayment),
    forget: async () => ({ kind: 'done' }),
    setUp: async () => ({ kind: 'unknown' }),
    check: async () => [],
    listPayments: async () => ({ kind: 'page', payments: book.map(paymentOf), next: null }),
    listChanges: null,
    verifyWebhook: verifyStandardWebhook,
    readWebhook(body) {
      const said = body as {
        type?: string
        eventType?: string
        data: { reference?: string; orderId?: string }
      }
      const reference = said.data.reference ?? said.data.orderId ?? null
      return { type: said.type ?? said.eventType!, reference, live: false }
    },
  }

  return {
    provider,
    book,
    notices,
    asked,
    calls,
    told,
    turnedAway,
    /** Our own key is revoked, or valid again. */
    refuseCredentials(refused: boolean): void {
      credentials.refused = refused
    },
    confirm,
    /** The provider puts its wrong amounts right. */
    putRight(): void {
      for (const charge of book) {
        if (charge.wrongUntil !== Number.POSITIVE_INFINITY) continue
        charge.amount = { ...charge.amount, minor: charge.amount.minor / 10n }
        charge.wrongUntil = now()
        notify('payment.paid', charge, true)
      }
    },
    /** Whoever asks from now on has forgotten what was asked so far. */
    forgetAsking(): void {
      askedBefore = asked.length
    },
    /** Late requests reach the provider now. */
    arrive(): number {
      const arriving = underWay
      underWay = []
      for (const one of arriving) one()
      return arriving.length
    },
    /** What the provider was still working on is decided, refunds mostly well. */
    decidePending(goesWell = () => random.chance(0.7)): void {
      for (const charge of book) {
        if (charge.status === 'pending') {
          charge.status = charge.code !== null ? 'declined' : charge.asks ? 'awaiting' : 'paid'
          if (charge.status !== 'awaiting') notify(`payment.${charge.status}`, charge, false)
        }
        for (const refund of charge.refunds.filter(({ status }) => status === 'pending')) {
          refund.status = goesWell() ? 'succeeded' : 'failed'
          notify(`refund.${refund.status}`, charge, false)
        }
      }
    },
    /** Somebody gives money back by hand, in the provider's own console. */
    refundByHand(charge: BookCharge, minor: bigint): void {
      charge.refunds.push({ reference: null, minor, at: now(), status: 'succeeded' })
      notify('refund.succeeded', charge, true)
    },
    /** A refund that was done comes back: the card's bank did not take it. */
    bounce(charge: BookCharge, refund: BookRefund): void {
      refund.status = 'failed'
      notify('refund.failed', charge, true)
    },
    dispute(charge: BookCharge): void {
      const minor = charge.amount.minor - heldBack(charge)
      charge.dispute = { minor, openedAt: now(), status: 'open', closedAt: null }
      notify('payment.disputed', charge, true)
      if (profile.withdrawsDisputed) notify('payment.funds_withdrawn', charge, false)
    },
    /** The bank decides. */
    decideDispute(charge: BookCharge, status: 'won' | 'lost'): void {
      const wasHidden = isHidden(charge)
      Object.assign(charge.dispute!, { status, closedAt: now() })
      // Whoever knows of the dispute asks what became of it.
      notify('payment.dispute_closed', charge, wasHidden)
      if (profile.withdrawsDisputed && status === 'won') notify('payment.funds_reinstated', charge, false)
    },
    /** Keys that it refused for reasons of its own. */
    refused: (): ReadonlySet<string> => new Set([...keys.keys()].filter(isRefused)),
    leftOf: (charge: BookCharge): bigint => charge.amount.minor - heldBack(charge),
  }

  /** A call is under way until it is answered, so that a run can wait for it. */
  function counted<A extends unknown[], T>(call: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
    return (...args) => boundaries.during(() => call(...args))
  }
}

/** What is gone or promised back of a charge. */
function heldBack(charge: BookCharge): bigint {
  return charge.refunds.reduce((sum, { status, minor }) => (status === 'failed' ? sum : sum + minor), 0n)
}

/** The bank has it, or decides who gets it. */
export function isDisputed({ dispute }: BookCharge): boolean {
  return dispute !== null && dispute.status !== 'won'
}

/** What the bank has: what it took for good, and where it does not wait for its own verdict, what is disputed. */
export function heldByBank(
  { dispute }: BookCharge,
  withdrawsDisputed = profileOf().withdrawsDisputed === true,
): bigint {
  const isGone = dispute?.status === 'lost' || (withdrawsDisputed && dispute?.status === 'open')
  return isGone ? dispute.minor : 0n
}

/** Its dispute is not on its record: money went back, and the bank has taken none. */
export function isHidden(charge: BookCharge, hidesDisputes = profileOf().hidesDisputes === true): boolean {
  return hidesDisputes && givenBack(charge) > 0n && charge.dispute?.status !== 'lost'
}

/** What has gone back of a charge for certain. */
export function givenBack(charge: BookCharge): bigint {
  return charge.refunds.reduce((sum, { status, minor }) => (status === 'succeeded' ? sum + minor : sum), 0n)
}

/** A billing key says how its card behaves: `bk_<secret>_<behaviour>`. */
function declineOf(billingKey: string, accountId: string, book: readonly BookCharge[]): DeclineCode | null {
  if (billingKey.endsWith('_poor')) return 'insufficient_funds'
  if (billingKey.endsWith('_stolen')) return 'lost_or_stolen'
  const paidBefore = book.some((one) => one.accountId === accountId && one.status === 'paid')
  return billingKey.endsWith('_once') && paidBefore ? 'insufficient_funds' : null
}

function asksCustomer(billingKey: string): boolean {
  return billingKey.endsWith('_asks')
}

function isNobody(billingKey: string): boolean {
  return billingKey.endsWith('_nobody')
}

/** Four digits of its own for every key, so that a reader can tell which card is in use. */
export function last4Of(billingKey: string): string {
  let sum = 7
  for (const character of billingKey.replace(/^[ab]k_/, ''))
    sum = (sum * 31 + character.charCodeAt(0)) % 10_000
  return String(sum).padStart(4, '0')
}

function cardOf(billingKey: string): Card {
  return { brand: 'model', last4: last4Of(billingKey), expires: '12/2039' }
}

/** The provider's own name for a payment. */
export function providerIdOf(reference: string): string {
  return `prov_${reference}`
}

function paymentOf(charge: BookCharge): ProviderPayment {
  const { currency } = charge.amount
  return {
    reference: charge.reference,
    providerId: providerIdOf(charge.reference),
    status: charge.status,
    declineCode: charge.status === 'declined' ? charge.code : null,
    rawCode: null,
    nextAction:
      charge.status === 'awaiting'
        ? {
            type: 'authenticate',
            clientSecret: `secret-of-${charge.reference}`,
            url: null,
            expiresAt: new Date(charge.at + 86_400_000),
          }
        : null,
    amount: charge.amount,
    refunded: { minor: heldBack(charge), currency },
    refunds: charge.refunds.map(({ reference, minor, status }) => ({
      reference,
      amount: { minor, currency },
      status,
    })),
    ...disputeShown(charge),
    card: charge.card,
    at: new Date(charge.at),
  }
}

function disputeShown(charge: BookCharge): Pick<ProviderPayment, 'dispute' | 'disputesHiddenSince'> {
  const { dispute, amount, refunds } = charge
  const held = heldByBank(charge)
  const shown = dispute && {
    status: dispute.status,
    amount: { ...amount, minor: dispute.minor },
    openedAt: new Date(dispute.openedAt),
    closedAt: dispute.closedAt === null ? null : new Date(dispute.closedAt),
    ...(dispute.status === 'open' && held > 0n && { alreadyLost: { ...amount, minor: held } }),
  }
  const lostAt = dispute?.status === 'lost' ? dispute.closedAt! : Number.POSITIVE_INFINITY
  const back = refunds.filter(({ status }) => status === 'succeeded').map(({ at }) => at)
  const since = Math.min(lostAt, ...back)
  if (!profileOf().hidesDisputes || since === Number.POSITIVE_INFINITY) return { dispute: shown }
  const disputesHiddenSince = new Date(since)
  if (isHidden(charge)) return { dispute: null, disputesHiddenSince }
  // What the bank took does not say when it was disputed.
  return { dispute: shown && { ...shown, openedAt: new Date(lostAt) }, disputesHiddenSince }
}

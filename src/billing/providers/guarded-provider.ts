import type { Provider } from './port.ts'

export type CircuitState = 'closed' | 'open' | 'half_open'

/**
 * Who asks. Each use has places of its own, so that a wave of renewals, however long, leaves those of a caller who waits,
 * of a doubt that could end and of a refund that is owed.
 */
export const providerUses = ['requests', 'charges', 'lookups', 'refunds', 'webhooks'] as const
export type ProviderUse = (typeof providerUses)[number]

/** How many calls of a use may be on their way at once. */
const places: Readonly<Record<ProviderUse, number>> = {
  requests: 64,
  charges: 32,
  lookups: 16,
  refunds: 8,
  webhooks: 8,
}

export type GuardOptions = {
  /** No call may take longer than this; the adapter's own limit should be a little shorter. */
  readonly timeoutMs: number
  readonly places?: Readonly<Partial<Record<ProviderUse, number>>>
  readonly maxWaiting?: number
  /** How long a call may wait for a place before it counts as not sent. */
  readonly maxWaitMs?: number
  readonly onState?: (state: CircuitState) => void
  readonly onLoad?: (load: { inFlight: number; waiting: number }) => void
}

/** A provider behind its guard, as each use sees it, and the way to end with it. */
export type ProviderGuard = {
  readonly uses: Readonly<Record<ProviderUse, Provider>>
  /**
   * From now on nothing begins but the one call that a request in hand was made for: whoever waits for a place is turned
   * away, and so is every lookup. What is on its way comes to its end.
   */
  windDown(): void
  /** From now on nothing begins at all. */
  shut(): void
  /** Resolves when no call is on its way. */
  idle(): Promise<void>
}

/**
 * Keeps a provider's trouble with the provider: calls in flight are bounded, each has a time limit, and a provider that
 * does not answer is left alone for a while. What was not let through is `not_sent`, which is as certain as it gets.
 */
export function guardProvider(provider: Provider, options: GuardOptions): ProviderGuard {
  const circuit = openCircuit(options.onState ?? (() => {}), () =>
    within(options.timeoutMs, provider.findPayment('circuit-probe'), { kind: 'unknown' }),
  )
  const load = openLoad(options.onLoad ?? (() => {}))
  const gates = Object.fromEntries(
    providerUses.map((use) => [
      use,
      openGate({ ...options, places: options.places?.[use] ?? places[use], load }),
    ]),
  ) as Record<ProviderUse, Gate>
  let windingDown = false

  return {
    uses: Object.fromEntries(
      providerUses.map((use) => [use, guardedUse(provider, options, circuit, gates[use], () => windingDown)]),
    ) as Record<ProviderUse, Provider>,
    windDown() {
      windingDown = true
      for (const use of providerUses) if (use !== 'requests') gates[use].shut()
    },
    shut() {
      windingDown = true
      for (const use of providerUses) gates[use].shut()
    },
    idle: () => load.idle(),
  }
}

function guardedUse(
  provider: Provider,
  options: GuardOptions,
  circuit: ReturnType<typeof openCircuit>,
  gate: Gate,
  isWindingDown: () => boolean,
): Provider {
  const guarded = async <T extends { kind: string }, S extends T>(
    subject: string,
    call: () => Promise<T>,
    refused: S,
    unknown: T,
  ): Promise<T> => {
    if (gate.isShut()) return refused
    // A probe is a call too.
    if (!(isWindingDown() ? circuit.isClosed() : await circuit.mayPass())) return refused
    const leave = await gate.enter()
    if (!leave) return refused
    try {
      const outcome = await within(options.timeoutMs, call(), unknown)
      circuit.note(subject, outcome.kind)
      return outcome
    } finally {
      leave()
    }
  }
  const notSent = { kind: 'not_sent' } as const
  const unknown = { kind: 'unknown' } as const

  return {
    name: provider.name,
    guards: provider.guards,
    charge: (request) => guarded(request.billingKey, () => provider.charge(request), notSent, unknown),
    // The payment method behind a refund is not known here, so all refunds together count as one.
    refund: (request) => guarded('refunds', () => provider.refund(request), notSent, unknown),
    exchange: (authKey, customerKey) =>
      guarded(authKey, () => provider.exchange(authKey, customerKey), notSent, unknown),
    customerOf: (billingKey) => provider.customerOf(billingKey),
    describe: (billingKey) => guarded(billingKey, () => provider.describe(billingKey), notSent, unknown),
    findPayment: async (reference, providerId) =>
      isWindingDown()
        ? unknown
        : guarded(reference, () => provider.findPayment(reference, providerId), unknown, unknown),
    cancelPayment: (reference, providerId) =>
      guarded(reference, () => provider.cancelPayment(reference, providerId), notSent, unknown),
    forget: (billingKey) => guarded(billingKey, () => provider.forget(billingKey), notSent, unknown),
    setUp: (request) => guarded(request.accountId, () => provider.setUp(request), notSent, unknown),
    check: (now) => provider.check(now),
    listPayments: async (from, to, cursor) =>
      isWindingDown()
        ? unknown
        : guarded('list', () => provider.listPayments(from, to, cursor), unknown, unknown),
    listChanges:
      provider.listChanges &&
      (async (from, to, cursor) =>
        isWindingDown()
          ? unknown
          : guarded('list', () => provider.listChanges!(from, to, cursor), unknown, unknown)),
    verifyWebhook: (delivery) => provider.verifyWebhook(delivery),
    readWebhook: (body) => provider.readWebhook(body),
  }
}

async function within<T>(timeoutMs: number, call: Promise<T>, late: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<T>((resolve) => {
    timer = setTimeout(() => resolve(late), timeoutMs)
  })
  return Promise.race([call, limit]).finally(() => clearTimeout(timer))
}

/** Counts all uses together. */
function openLoad(onLoad: (load: { inFlight: number; waiting: number }) => void) {
  const load = { inFlight: 0, waiting: 0 }
  let idle: (() => void)[] = []
  return {
    add(change: Partial<typeof load>): void {
      load.inFlight += change.inFlight ?? 0
      load.waiting += change.waiting ?? 0
      onLoad({ ...load })
      if (load.inFlight > 0) return
      for (const resolve of idle) resolve()
      idle = []
    },
    idle: () =>
      load.inFlight === 0 ? Promise.resolve() : new Promise<void>((resolve) => idle.push(resolve)),
  }
}

type Gate = ReturnType<typeof openGate>

/** Lets a bounded number of calls in, in the order they came; too many waiting, or too long a wait, and it stays shut. */
function openGate({
  places,
  maxWaiting = 1_000,
  timeoutMs,
  maxWaitMs = timeoutMs,
  load,
}: Omit<GuardOptions, 'places'> & { places: number; load: ReturnType<typeof openLoad> }) {
  let inFlight = 0
  let shut = false
  const waiting = new Set<(admitted: boolean) => void>()

  const leave = () => {
    const [next] = waiting
    // Whoever leaves hands over the place, so the count stays.
    if (next) return next(true)
    inFlight--
    load.add({ inFlight: -1 })
  }
  const wait = () =>
    new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => end(false), maxWaitMs)
      const end = (admitted: boolean) => {
        clearTimeout(timer)
        waiting.delete(end)
        load.add({ waiting: -1 })
        resolve(admitted)
      }
      waiting.add(end)
      load.add({ waiting: 1 })
    })

  return {
    isShut: () => shut,
    /** Turns everybody away, those who wait too. */
    shut(): void {
      shut = true
      for (const end of [...waiting]) end(false)
    },
    async enter(): Promise<(() => void) | undefined> {
      if (shut) return undefined
      if (inFlight < places) {
        inFlight++
        load.add({ inFlight: 1 })
        return leave
      }
      if (waiting.size >= maxWaiting) return undefined
      return (await wait()) ? leave : undefined
    },
  }
}

// One payment method, however often it is tried, is one subject: a bad one is not a bad provider.
const failuresToOpen = 6
const subjectsToOpen = 5
// Nobody listens there: no payment method has anything to do with it.
const refusedConnectionsToOpen = 3
const shortestRestMs = 1_000
const longestRestMs = 15_000

/**
 * The circuit breaker, in real time. It opens when several different payment methods in a row got no clear answer, or when no
 * connection comes about. After a rest one harmless lookup goes ahead as a probe, never a charge: an unlucky one in
 * that place would keep the circuit open for all others.
 */
function openCircuit(onState: (state: CircuitState) => void, probe: () => Promise<{ kind: string }>) {
  let state: CircuitState = 'closed'
  let failures = 0
  let refusedConnections = 0
  let subjects = new Set<string>()
  let restMs = shortestRestMs
  let restsUntil = 0
  let probing: Promise<void> | undefined

  const isClosed = () => state === 'closed'
  const enter = (next: CircuitState) => {
    if (state === next) return
    state = next
    onState(next)
  }
  const heal = () => {
    failures = 0
    refusedConnections = 0
    subjects = new Set()
    restMs = shortestRestMs
    enter('closed')
  }
  const open = () => {
    restsUntil = performance.now() + restMs
    restMs = Math.min(restMs * 2, longestRestMs)
    enter('open')
  }
  const tryAgain = async () => {
    enter('half_open')
    const { kind } = await probe()
    if (kind === 'unknown') open()
    else heal()
  }

  return {
    isClosed,

    async mayPass(): Promise<boolean> {
      if (isClosed()) return true
      if (state === 'open' && performance.now() < restsUntil) return false
      probing ??= tryAgain().finally(() => {
        probing = undefined
      })
      await probing
      return isClosed()
    },

    note(subject: string, kind: string): void {
      if (kind !== 'unknown' && kind !== 'not_sent') {
        heal()
        return
      }
      failures++
      refusedConnections = kind === 'not_sent' ? refusedConnections + 1 : 0
      if (subjects.size < subjectsToOpen) subjects.add(subject)
      const broken = failures >= failuresToOpen && subjects.size >= subjectsToOpen
      if (isClosed() && (broken || refusedConnections >= refusedConnectionsToOpen)) open()
    },
  }
}

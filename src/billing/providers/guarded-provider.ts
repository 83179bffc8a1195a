import type { Provider } from './port.ts'

export type CircuitState = 'closed' | 'open' | 'half_open'

export type GuardOptions = {
  /** No call may take longer than this; the adapter's own limit should be a little shorter. */
  readonly timeoutMs: number
  readonly maxInFlight?: number
  readonly maxWaiting?: number
  /** How long a call may wait for a place before it counts as not sent. */
  readonly maxWaitMs?: number
  readonly onState?: (state: CircuitState) => void
  readonly onLoad?: (load: { inFlight: number; waiting: number }) => void
}

/**
 * Keeps a provider's trouble with the provider: calls in flight are bounded, each has a time limit, and a provider that
 * does not answer is left alone for a while. What was not let through is `not_sent`, which is as certain as it gets.
 */
export function guardProvider(provider: Provider, options: GuardOptions): Provider {
  const gate = openGate(options)
  const circuit = openCircuit(options.onState ?? (() => {}), () =>
    within(options.timeoutMs, provider.findPayment('circuit-probe'), { kind: 'unknown' }),
  )

  const guarded = async <T extends { kind: string }, S extends T>(
    subject: string,
    call: () => Promise<T>,
    refused: S,
    unknown: T,
  ): Promise<T> => {
    if (!(await circuit.mayPass())) return refused
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
    // The card behind a refund is not known here, so all refunds together count as one.
    refund: (request) => guarded('refunds', () => provider.refund(request), notSent, unknown),
    exchange: (authKey, customerKey) =>
      guarded(authKey, () => provider.exchange(authKey, customerKey), notSent, unknown),
    describe: (billingKey) => guarded(billingKey, () => provider.describe(billingKey), notSent, unknown),
    findPayment: (reference) => guarded(reference, () => provider.findPayment(reference), unknown, unknown),
    listPayments: (from, to, cursor) =>
      guarded('list', () => provider.listPayments(from, to, cursor), unknown, unknown),
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

/** Lets a bounded number of calls in, in the order they came; too many waiting, or too long a wait, and it stays shut. */
function openGate({
  maxInFlight = 64,
  maxWaiting = 1_000,
  timeoutMs,
  maxWaitMs = timeoutMs,
  onLoad = () => {},
}: GuardOptions) {
  let inFlight = 0
  const waiting = new Set<() => void>()
  const tell = () => onLoad({ inFlight, waiting: waiting.size })

  const leave = () => {
    const [next] = waiting
    if (next) next()
    else inFlight--
    tell()
  }
  const wait = () =>
    new Promise<boolean>((resolve) => {
      const admit = () => end(true)
      const timer = setTimeout(() => end(false), maxWaitMs)
      const end = (admitted: boolean) => {
        clearTimeout(timer)
        waiting.delete(admit)
        resolve(admitted)
      }
      waiting.add(admit)
      tell()
    })

  return {
    async enter(): Promise<(() => void) | undefined> {
      if (inFlight < maxInFlight) {
        inFlight++
        tell()
        return leave
      }
      if (waiting.size >= maxWaiting) return undefined
      // Whoever leaves hands over the place, so the count stays.
      return (await wait()) ? leave : undefined
    },
  }
}

// One card, however often it is tried, is one subject: a bad card is not a bad provider.
const failuresToOpen = 6
const subjectsToOpen = 5
// Nobody listens there: no card has anything to do with it.
const refusedConnectionsToOpen = 3
const shortestRestMs = 1_000
const longestRestMs = 15_000

/**
 * The circuit breaker, in real time. It opens when several different cards in a row got no clear answer, or when no
 * connection comes about. After a rest one harmless lookup goes ahead as a probe, never a charge: an unlucky card in
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

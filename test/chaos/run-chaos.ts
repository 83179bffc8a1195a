import type { Violation } from '../simulation/checker.ts'
import { type DeliveryEntry, openHistory, type RequestEntry } from '../simulation/history.ts'
import type { AskedCharge } from '../simulation/model-provider.ts'
import { seededRandom } from '../simulation/random.ts'
import { type Caller, openCaller, pause } from './caller.ts'
import { startClients, weeklyPlan } from './clients.ts'
import { converge } from './converge.ts'
import { until } from './database.ts'
import { keepEvidence } from './evidence.ts'
import { openFleet, type Taps } from './fleet.ts'
import { httpTap } from './http-tap.ts'
import type { Recovery } from './kills.ts'
import { type ChaosProvider, openProvider } from './provider.ts'
import { openServiceTime, type ServiceTime } from './service-time.ts'
import { openStaff } from './staff.ts'
import { kindsWith, type Pace, startTroubles, type Troubles } from './troubles.ts'
import { type Hint, judge } from './verdict.ts'

export type ChaosOptions = {
  /** Whose language the provider speaks; the sandbox's own unless said. */
  readonly provider?: string
  readonly seed: number
  readonly clients: number
  readonly pace: Pace
  /** Asked again and again; the troubles end when it says so. */
  readonly isEnough: (troubles: Troubles, elapsedMs: number) => boolean
  /** A folder for what a run with violations leaves behind. */
  readonly keepIn?: string
  readonly onProgress?: (line: string) => void
}

export type ChaosReport = {
  readonly seed: number
  readonly seconds: number
  readonly requests: number
  readonly unanswered: number
  /** How often each status was answered on the billing routes. */
  readonly answers: Readonly<Record<string, number>>
  readonly acknowledged: number
  readonly charges: number
  readonly notifications: number
  readonly troubles: Readonly<Record<string, number>>
  readonly neverCame: readonly string[]
  readonly applicationKills: number
  readonly postmasterKills: number
  readonly recoveries: readonly Recovery[]
  readonly violations: readonly Violation[]
}

/** One run: load and troubles together, then quiet until everything has come right, then the verdict. */
export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const { seed, onProgress = () => {} } = options
  const startedAt = performance.now()
  const history = openHistory()
  const time = openServiceTime()
  const provider = openProvider(options.provider ?? 'sandbox')
  const asked: AskedCharge[] = []
  const hints: Hint[] = []
  // The taps are there before the one who counts the steps is.
  const desk: { caller?: Caller } = {}
  const step = () => desk.caller?.nextStep() ?? 0
  const heard: Heard = { asked, hints, tell: (entry) => history.add(entry) }
  const fleet = await openFleet(provider, listening(provider, time, step, heard))
  try {
    const caller = openCaller(fleet, history, time)
    desk.caller = caller
    await sellWeekly(caller)
    const clients = startClients(caller, provider, time, { seed, count: options.clients })
    const troubles = startTroubles(fleet, seed, options.pace)
    const progress = (what: string) =>
      onProgress(
        `${what}: ${Math.round((performance.now() - startedAt) / 1000)} s, ${history.requests().length} requests, ` +
          `${troubles.kills('application')} kills, ${troubles.kills('postmaster')} of the postmaster`,
      )
    // A slow machine takes minutes to start the processes, in which nothing can go wrong yet.
    const firedAt = performance.now()
    while (!options.isEnough(troubles, performance.now() - firedAt)) {
      progress('under fire')
      await pause(250)
    }
    progress('getting up')
    await troubles.stop()
    await clients.stop()
    progress('coming to rest')
    const staff = openStaff(fleet, seededRandom(seed * 100 + 96))
    const { differences } = await converge({ fleet, caller, time, staff, seed })
    progress('judging')
    const { counts, recoveries } = troubles
    const { secrets } = clients
    const witness = { fleet, history, caller, time, asked, hints, differences, troubles, secrets }
    const violations = await judge(witness)
    if (violations.length > 0 && options.keepIn !== undefined)
      await keepEvidence(options.keepIn, fleet, history)
    const requests = history.requests()
    return {
      seed,
      seconds: (performance.now() - startedAt) / 1000,
      requests: requests.length,
      unanswered: requests.filter(({ answer }) => answer === null).length,
      answers: countAnswers(requests.filter(({ path }) => path.startsWith('/api/billing'))),
      acknowledged: requests.filter(
        ({ method, answer }) => method === 'POST' && answer !== null && answer.status < 202,
      ).length,
      charges: new Set(asked.map(({ key }) => key)).size,
      notifications: history.deliveries().length + hints.length,
      troubles: counts,
      neverCame: kindsWith(provider).filter((kind) => !counts[kind]),
      applicationKills: troubles.kills('application'),
      postmasterKills: troubles.kills('postmaster'),
      recoveries,
      violations,
    }
  } finally {
    await fleet.close()
  }
}

/** How long a process may sleep on a decision before it acts on it. */
const sleptOnMs = 20_000

/** What the taps take down. */
type Heard = {
  readonly asked: AskedCharge[]
  readonly hints: Hint[]
  tell(entry: DeliveryEntry): DeliveryEntry
}

/** Every charge that went out to the provider, and every notification with what was answered to it. */
function listening(provider: ChaosProvider, time: ServiceTime, step: () => number, heard: Heard): Taps {
  const sentBefore = new Set<string>()
  return {
    provider: () =>
      httpTap((request) => {
        const key = provider.chargeKey(request)
        if (key !== undefined) {
          // What is not known of the time counts for the service, never against it.
          const at = sentBefore.has(key) ? time.earliest(sleptOnMs) : time.latest()
          heard.asked.push({ key, at, step: step() })
          sentBefore.add(key)
        }
        return () => {}
      }),
    webhook: () =>
      httpTap((notification) => {
        const notice = provider.readNotice(notification)
        if (notice.kind === 'hint') {
          const hint: Hint = { reference: notice.reference, answer: null }
          heard.hints.push(hint)
          return ({ title, body }) => {
            hint.answer = { status: statusIn(title), text: body }
          }
        }
        const { eventId, reference, type } = notice
        const entry = heard.tell({
          kind: 'delivery',
          step: step(),
          eventId,
          reference,
          type,
          forged: false,
          answer: null,
        })
        return ({ title, body }) => {
          entry.answer = { status: statusIn(title), text: body }
        }
      }),
  }
}

function statusIn(title: string): number {
  return Number(title.split(' ')[1])
}

/** A plan whose periods are short, so that many of them are billed. */
async function sellWeekly(caller: Caller): Promise<void> {
  const ask = { method: 'PUT', path: '/api/billing/plans/weekly', body: weeklyPlan } as const
  await until(async () => ((await caller.send(ask, seededRandom(1))).answer?.status ?? 500) < 300)
}

function countAnswers(requests: readonly RequestEntry[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { answer } of requests) {
    const name = String(answer?.status ?? 'none')
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

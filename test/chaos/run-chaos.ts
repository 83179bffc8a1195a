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
import { openServiceTime, type ServiceTime } from './service-time.ts'
import { kinds, type Pace, startTroubles, type Troubles } from './troubles.ts'
import { judge } from './verdict.ts'

export type ChaosOptions = {
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
  const asked: AskedCharge[] = []
  // The taps are there before the one who counts the steps is.
  const desk: { caller?: Caller } = {}
  const step = () => desk.caller?.nextStep() ?? 0
  const fleet = await openFleet(listening(time, asked, step, (entry) => history.add(entry)))
  try {
    const caller = openCaller(fleet, history, time)
    desk.caller = caller
    await sellWeekly(caller)
    const clients = startClients(caller, time, seed, options.clients)
    const troubles = startTroubles(fleet, seed, options.pace)
    const progress = (what: string) =>
      onProgress(
        `${what}: ${Math.round((performance.now() - startedAt) / 1000)} s, ${history.requests().length} requests, ` +
          `${troubles.kills('application')} kills, ${troubles.kills('postmaster')} of the postmaster`,
      )
    while (!options.isEnough(troubles, performance.now() - startedAt)) {
      progress('under fire')
      await pause(250)
    }
    progress('getting up')
    await troubles.stop()
    await clients.stop()
    progress('coming to rest')
    await converge(fleet, caller, time, seed)
    progress('judging')
    const { counts, recoveries } = troubles
    const { secrets } = clients
    const violations = await judge({ fleet, history, caller, time, asked, troubles, secrets })
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
      notifications: history.deliveries().length,
      troubles: counts,
      neverCame: kinds.filter((kind) => !counts[kind]),
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

/** Every charge that went out to the provider, and every notification with what was answered to it. */
function listening(
  time: ServiceTime,
  asked: AskedCharge[],
  step: () => number,
  tell: (entry: DeliveryEntry) => DeliveryEntry,
): Taps {
  const sentBefore = new Set<string>()
  return {
    provider: () =>
      httpTap(({ title, header }) => {
        const key = header('idempotency-key')
        if (title.startsWith('POST /v1/charges HTTP') && key !== undefined) {
          // What is not known of the time counts for the service, never against it.
          const at = sentBefore.has(key) ? time.earliest(sleptOnMs) : time.latest()
          asked.push({ key, at, step: step() })
          sentBefore.add(key)
        }
        return () => {}
      }),
    webhook: () =>
      httpTap(({ header, body }) => {
        const { type, data } = JSON.parse(body) as { type: string; data: { reference: string } }
        const entry = tell({
          kind: 'delivery',
          step: step(),
          eventId: header('webhook-id')!,
          reference: data.reference,
          type,
          forged: false,
          answer: null,
        })
        return (answer) => {
          entry.answer = { status: Number(answer.title.split(' ')[1]), text: answer.body }
        }
      }),
  }
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

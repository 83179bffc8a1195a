import { nextDue, runDue } from '../../src/billing/due.ts'
import { billingJobs } from '../../src/billing/jobs.ts'
import { resumeCharging as endStop } from '../../src/billing/lifecycle/resume-charging.ts'
import { findSealedBy, reseal } from '../../src/billing/reseal.ts'
import { forgetOldKeys } from '../../src/platform/idempotency.ts'
import { reviveDeadJob } from '../../src/platform/queue/queue-schema.ts'
import type { VaultKey } from '../../src/platform/vault/vault.ts'
import { admitVaultKeys } from '../../src/platform/vault/vault-keys.ts'
import { signStandardWebhook } from '../sign-webhook.ts'
import { type DeathPlace, Died, type Part, type Process, type Ran } from './boundaries.ts'
import {
  type DeliveryEntry,
  type HintForgery,
  type History,
  openHistory,
  type RequestEntry,
} from './history.ts'
import {
  type FaultRates,
  type ModelProvider,
  type Notice,
  openModelProvider,
  providerIdOf,
} from './model-provider.ts'
import { type Random, seededRandom } from './random.ts'
import type { Connections, Service, Stage } from './stage.ts'

export type Ask = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly body?: object
  readonly key?: string
}

/** How much goes wrong in a run. */
export type Weather = FaultRates & { readonly death: number }

export const calm: Weather = { charge: 0, refund: 0, lookup: 0, death: 0 }

/** How often each kind of trouble came. */
export type Counts = Record<string, number>

/** One run's world: two processes, the provider, time, and everything that was said. */
export type SimulatedWorld = {
  readonly random: Random
  /** A zone in which the start's time of day is a special one. */
  readonly home: string | undefined
  readonly history: History
  readonly model: ModelProvider
  readonly observer: Connections['observer']
  readonly counts: Counts
  /** Faults of the service that no trouble of ours explains. */
  readonly unexplained: unknown[]
  weather: Weather
  /** Decides in place of chance where a process dies. */
  doom: ((place: DeathPlace) => boolean) | undefined
  /** Faults that the next calls of each kind meet, in order. */
  readonly planned: Map<string, string[]>
  /** Counts what processes do; two that race have the same number. */
  step: number
  now(): number
  real(): number
  /** Real time passes, and service time with it. */
  pass(ms: number): void
  /** Service time alone is turned, as the sandbox allows; never back. */
  turnTo(ms: number): void
  ask(ask: Ask, service?: Service): Promise<RequestEntry>
  /** Two of them at once, one cut by the other. */
  race(first: Deed, second: Deed): Promise<void>
  asking(ask: Ask): Deed
  sweeping(): Deed
  /** Something else that a process does, by a name for the history. */
  working(what: string, work: Deed['work']): Deed
  delivering(notice: Notice, forged?: boolean): Deed
  /** An unsigned message about a payment that the provider names so; a notice of it is taken with it. */
  hinting(about: Hinted): Deed
  /** Without a service, chance says which process does it. */
  do(deed: Deed, service?: Service): Promise<void>
  sweep(): Promise<void>
  workJobs(service?: Service): Promise<void>
  nextDue(): Promise<number | undefined>
  releaseStalled(): Promise<void>
  /** Our credentials are right again, and charging goes on. */
  resumeCharging(): Promise<void>
  /** An operator gives those jobs their attempts back that only the deaths of their workers have cost them. */
  retryKilledJobs(): Promise<void>
  count(name: string): void
  /** What the database goes back to, if it does. */
  readonly copy: Copy | undefined
  /** Everybody comes to rest, and the database is copied. */
  backUp(): Promise<void>
  /** The processes end, and the database is the copy. */
  goBack(): Promise<void>
  /** The next step of changing the vault key, as the runbook has it. */
  turnKeys(): Promise<void>
  /** Everything is sealed anew, if that is the next step; undefined: it is not yet. */
  resealing(): Deed | undefined
}

export type Copy = { readonly step: number; readonly at: number }

/** Of a hint: what it names, whether the provider sent it, and what happens there just before it is sent. */
export type Hinted = {
  readonly reference: string
  readonly forgery?: HintForgery
  readonly happens?: () => void
}

/** Something a process does, and how its outcome enters the history. */
export type Deed = {
  readonly work: (service: Service) => Promise<unknown>
  /** Called first, with the process that does it; what it returns is told the outcome. */
  begin(service: Service): (ran: Ran<unknown>) => void
}

export async function openSimulatedWorld(stage: Stage, seed: number): Promise<SimulatedWorld> {
  const random = seededRandom(seed)
  const history = openHistory()
  const counts: Counts = {}
  const unexplained: unknown[] = []
  const count = (name: string) => {
    counts[name] = (counts[name] ?? 0) + 1
  }
  const start = random.pick(starts)
  let now = Date.parse(start.at)
  let real = Date.parse('2026-01-01T00:00:00Z')
  let racing = false
  const { boundaries } = stage

  const model = openModelProvider({
    random,
    boundaries,
    now: () => now,
    rates: () => world.weather,
    racing: () => racing,
    step: () => world.step,
    planned: (call) => world.planned.get(call)?.shift(),
    onFault(call, fault) {
      count(`${call} ${fault}`)
      history.add({ kind: 'fault', step: world.step, call, fault })
    },
  })
  const byChance = (place: DeathPlace): boolean => {
    if (place === 'before statement') return false
    // Jobs are few, so the places around them are more dangerous.
    const danger = place.endsWith('job') && world.weather.death > 0 ? 0.6 : world.weather.death
    return random.chance(danger)
  }
  const dies = (process: Process, place: DeathPlace): boolean => {
    const doom = world.doom ?? byChance
    if (!doom(place)) return false
    count(`death ${place}`)
    history.add({ kind: 'death', step: world.step, process: process.name, boundary: place })
    return true
  }
  const { observer } = await stage.begin({ now: () => now, real: () => real, provider: model.provider, dies })

  const anyService = () => random.pick(stage.services)
  const perform = async (deed: Deed, service: Service) => {
    world.step++
    const tell = deed.begin(service)
    tell(await boundaries.run(service.process, () => deed.work(service)))
  }

  const asking = (ask: Ask): Deed & { entry?: RequestEntry } => {
    const deed: Deed & { entry?: RequestEntry } = {
      begin(service) {
        const entry = history.add<RequestEntry>({
          kind: 'request',
          step: world.step,
          method: ask.method,
          path: ask.path,
          body: ask.body,
          key: ask.key,
          process: service.process.name,
          at: now,
          realAt: real,
          answer: null,
          exploded: false,
        })
        deed.entry = entry
        return (ran) => {
          if (ran.kind !== 'done') return
          entry.exploded = ran.exploded
          entry.answer = ran.value as RequestEntry['answer']
        }
      },
      async work({ http }) {
        const answer = await http.inject({
          method: ask.method,
          url: ask.path,
          headers: {
            authorization: `Bearer ${stage.token}`,
            ...(ask.key !== undefined && { 'idempotency-key': ask.key }),
          },
          ...(ask.body !== undefined && { payload: ask.body }),
        })
        return {
          status: answer.statusCode,
          text: answer.body,
          replayed: answer.headers['idempotent-replayed'] === 'true',
        }
      },
    }
    return deed
  }

  const working = (what: string, work: Deed['work']): Deed => ({
    begin: () => (ran) => {
      note(what, ran)
    },
    work,
  })

  const sweeping = () =>
    working('sweep', async ({ billing }) => {
      await forgetOldKeys(billing.db, new Date(now))
      return runDue(billing)
    })

  // How far the vault key's change has come: one process after the other is started anew, then all is sealed anew.
  const change = { from: 0, step: 0 }
  const newKeys = (): readonly { at: 0 | 1; keys: readonly VaultKey[] }[] => {
    const [old, fresh] = stage.vaultKeys.slice(change.from, change.from + 2) as [VaultKey, VaultKey]
    const lists = [[old, fresh], [fresh, old], [fresh]]
    return lists.flatMap((keys) => [
      { at: 0 as const, keys },
      { at: 1 as const, keys },
    ])
  }
  // Before it both processes have met the new key, and use it first; after it both lose the old one.
  const resealAt = 4
  const steps = 7

  /** A process ends and starts with other keys, which it holds against the database first. */
  const restarting = (keys: readonly VaultKey[]): Deed => ({
    begin: (service) => (ran) => {
      note(`keys ${keys.map(({ version }) => version).join(' ')}`, ran)
      if (ran.kind !== 'done') return
      service.vaultKeys = keys
      change.step++
    },
    work: ({ billing }) =>
      admitVaultKeys(billing.pool, keys, (versions) => findSealedBy(billing.db, versions)),
  })

  const resealing = (): Deed => ({
    begin: () => (ran) => {
      note('reseal', ran)
      if (ran.kind === 'done') change.step++
      count('reseal')
    },
    work: ({ billing }) => reseal(billing),
  })

  /** An operator has put our credentials right and says so. */
  async function resumeCharging(): Promise<void> {
    model.refuseCredentials(false)
    await perform(
      {
        begin: () => (ran) => note('resume charging', ran),
        work: ({ billing }) => endStop(billing),
      },
      anyService(),
    )
  }

  async function retryKilledJobs(): Promise<void> {
    const { rows } = await observer.query<{ id: bigint }>(
      'select id from graphile_worker._private_jobs where attempts >= max_attempts order by id',
    )
    for (const { id } of rows.filter((job) => !failedJobs.has(job.id))) {
      await reviveDeadJob(stage.services[0].billing.db, String(id))
      history.add({ kind: 'work', step: world.step, what: 'retry job', outcome: String(id) })
    }
  }

  // Whoever restores starts with the keys of then.
  let copy: (Copy & { change: typeof change; keys: (readonly VaultKey[])[] }) | undefined

  async function backUp(): Promise<void> {
    await world.releaseStalled()
    await stage.backUp()
    copy = {
      step: world.step,
      at: now,
      change: { ...change },
      keys: stage.services.map(({ vaultKeys }) => vaultKeys),
    }
    history.add({ kind: 'work', step: world.step, what: 'back up', outcome: 'done' })
  }

  async function goBack(): Promise<void> {
    await stage.restore()
    model.arrive()
    model.forgetAsking()
    stage.services.forEach((service, at) => {
      service.vaultKeys = copy!.keys[at]!
    })
    Object.assign(change, copy!.change)
    copy = undefined
  }

  async function turnKeys(): Promise<void> {
    if (change.step === resealAt) return perform(resealing(), anyService())
    const { at, keys } = newKeys()[change.step < resealAt ? change.step : change.step - 1]!
    await perform(restarting(keys), stage.services[at])
    if (change.step !== steps) return
    count('key rotation')
    Object.assign(change, { from: change.from + 1, step: 0 })
  }

  const note = (what: string, ran: Ran<unknown>) => {
    const outcome = ran.kind === 'done' ? JSON.stringify(ran.value ?? null) : ran.kind
    history.add({ kind: 'work', step: world.step, what, outcome })
    if (ran.kind === 'failed' && !ran.exploded && !(ran.error instanceof Died)) unexplained.push(ran.error)
  }

  const delivering = (notice: Notice, forged = false): Deed =>
    notice.unsigned
      ? hinting({ reference: notice.reference, ...(forged && { forgery: random.pick(hintForgeries) }) })
      : deliveringSigned(notice, forged)

  const hinting = ({ reference, forgery, happens }: Hinted): Deed => {
    const named = forgery === 'another payment' ? random.pick(model.book).reference : reference
    // What has happened by the time it is sent is told with it; what happens later has a message of its own.
    let told: readonly Notice[] = []
    return {
      begin() {
        const hint = { forgery: forgery ?? null, heardAfter: null as number | null }
        const entry = history.add<DeliveryEntry>({
          kind: 'delivery',
          step: world.step,
          eventId: `hint-${named}`,
          reference: named,
          type: 'hint',
          forged: forgery !== undefined,
          hint,
          answer: null,
        })
        count(forgery ? `hint forged: ${forgery}` : 'hint')
        return (ran) => {
          if (ran.kind !== 'done') return
          const { heardAfter, ...answer } = ran.value as { heardAfter: number; status: number; text: string }
          entry.answer = answer
          hint.heardAfter = heardAfter
          if (forgery === undefined && answer.status === 200) for (const notice of told) notice.taken = true
        }
      },
      async work({ http }) {
        happens?.()
        told = model.notices.filter((notice) => notice.reference === reference)
        const secret = forgery === 'wrong secret' ? `${stage.hintSecret.slice(0, -1)}x` : stage.hintSecret
        const orderId = forgery === 'nobody' ? 'of-nobody' : named
        const data = { orderId, paymentKey: providerIdOf(orderId) }
        const answer = await http.inject({
          method: 'POST',
          url: `/api/billing/hints/${secret}`,
          headers: { 'content-type': 'application/json' },
          payload: { eventType: 'PAYMENT_STATUS_CHANGED', data },
        })
        return { status: answer.statusCode, text: answer.body, heardAfter: model.calls.length }
      },
    }
  }

  const deliveringSigned = (notice: Notice, forged: boolean): Deed => ({
    begin() {
      const { eventId, reference, type } = notice
      const entry = history.add({
        kind: 'delivery',
        step: world.step,
        eventId,
        reference,
        type,
        forged,
        answer: null as { status: number; text: string } | null,
      })
      return (ran) => {
        if (ran.kind !== 'done') return
        entry.answer = ran.value as { status: number; text: string }
        if (entry.answer.status === 200) notice.taken = true
      }
    },
    async work({ http }) {
      const body = Buffer.from(notice.body)
      const secret = forged ? anotherSecret : stage.webhookSecret
      const headers = signStandardWebhook(secret, notice.eventId, body, new Date())
      const answer = await http.inject({
        method: 'POST',
        url: '/api/billing/webhook',
        headers: { ...headers, 'content-type': 'application/json' },
        payload: body,
      })
      return { status: answer.statusCode, text: answer.body }
    },
  })

  async function workJob(job: JobRow, service: Service): Promise<void> {
    world.step++
    const ran = await boundaries.run(service.process, async () => {
      await boundaries.at('before job')
      await billingJobs[job.task]!.run(service.billing, job.payload)
      await boundaries.at('after job')
    })
    note(`job ${job.task}`, ran)
    if (ran.kind === 'done') {
      await observer.query('delete from graphile_worker._private_jobs where id = $1', [job.id])
      return
    }
    if (ran.kind === 'failed') failedJobs.add(job.id)
    // As the queue has it: a worker's death costs a job no attempt, but for the sixth time.
    else if (countFreed(job.id) <= 5) return
    await observer.query('update graphile_worker._private_jobs set attempts = attempts + 1 where id = $1', [
      job.id,
    ])
  }
  const failedJobs = new Set<bigint>()
  const freed = new Map<bigint, number>()
  function countFreed(jobId: bigint): number {
    const times = (freed.get(jobId) ?? 0) + 1
    freed.set(jobId, times)
    return times
  }

  const world: SimulatedWorld = {
    random,
    home: start.home,
    history,
    model,
    observer,
    counts,
    unexplained,
    weather: calm,
    doom: undefined,
    planned: new Map(),
    step: 0,
    now: () => now,
    real: () => real,
    pass(ms) {
      real += ms
      world.turnTo(now + ms)
    },
    turnTo(ms) {
      now = Math.max(now, ms)
      history.add({ kind: 'time', step: world.step, now: new Date(now).toISOString(), real })
    },
    asking,
    count,
    resumeCharging,
    retryKilledJobs,
    get copy() {
      return copy
    },
    backUp,
    goBack,
    turnKeys,
    resealing: () => (change.step === resealAt ? resealing() : undefined),
    sweeping,
    working,
    delivering,
    hinting,
    do: (deed, service = anyService()) => perform(deed, service),
    async ask(ask, service = anyService()) {
      const deed = asking(ask) as Deed & { entry?: RequestEntry }
      await perform(deed, service)
      return deed.entry!
    },
    async race(first, second) {
      const [one, two] = random.shuffled(stage.services) as [Service, Service]
      world.step++
      racing = true
      const tells = [first.begin(one), second.begin(two)] as const
      const part = (deed: Deed, service: Service): Part<unknown> => ({
        process: service.process,
        work: () => deed.work(service),
      })
      const [a, b] = await boundaries.race(part(first, one), part(second, two), random.between(1, 14))
      racing = false
      tells[0](a)
      tells[1](b)
      count('race')
    },
    sweep: () => perform(sweeping(), anyService()),
    async workJobs(service) {
      const { rows } = await observer.query<JobRow>(
        `select j.id, t.identifier as task, j.payload from graphile_worker._private_jobs j
         join graphile_worker._private_tasks t on t.id = j.task_id
         where j.attempts < j.max_attempts order by j.id`,
      )
      for (const job of rows) await workJob(job, service ?? anyService())
    },
    async nextDue() {
      const ran = await boundaries.run(stage.services[0].process, () => nextDue(stage.services[0].billing))
      return ran.kind === 'done' ? ran.value?.getTime() : undefined
    },
    async releaseStalled() {
      const count = boundaries.releaseStalled()
      // An empty errand waits until those that were released have come to an end.
      await boundaries.run(stage.services[0].process, async () => {})
      history.add({ kind: 'work', step: world.step, what: 'release', outcome: String(count) })
    },
  }
  return world
}

export const hintForgeries: readonly HintForgery[] = ['wrong secret', 'nobody', 'another payment']

const anotherSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

type JobRow = { id: bigint; task: string; payload: unknown }

// Anchors at the ends of months, in leap years, on ordinary days, and where clocks will skip or double their time of day.
const starts: readonly { readonly at: string; readonly home?: string }[] = [
  { at: '2026-01-31T09:30:00Z' },
  { at: '2026-03-05T00:00:00Z', home: 'Europe/Berlin' },
  { at: '2027-12-30T15:45:00Z' },
  { at: '2028-01-29T23:59:59Z' },
  // 02:30, which does not come a week later.
  { at: '2026-03-01T07:30:00Z', home: 'America/New_York' },
  // 02:30, which comes twice a week later.
  { at: '2026-10-18T00:30:00Z', home: 'Europe/Berlin' },
  // 01:45, which comes twice a week later, half an hour apart.
  { at: '2026-03-28T14:45:00Z', home: 'Australia/Lord_Howe' },
]

import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, seededRandom } from '../simulation/random.ts'
import { saidWrong, writtenWrong } from './body-wounds.ts'
import { watchChanges } from './change-watch.ts'
import { framingWounds } from './framing-wounds.ts'
import { headerWounds } from './header-wounds.ts'
import { answeringOperation, judge } from './judge.ts'
import { type Operation, readOperations } from './operations.ts'
import { furnish, type Scene } from './scene.ts'
import type { Service } from './service.ts'
import { bytesOf, type Draft, seedOf, soundRequest } from './sound-request.ts'
import { targetWounds } from './target-wounds.ts'
import { type Heard, openWire, type Wire } from './wire.ts'
import type { Wound } from './wound.ts'

export type Violation = {
  readonly k: number
  readonly operation: string
  readonly wound: string
  readonly faults: readonly string[]
  /** The beginning of what was sent. */
  readonly sent: string
}

export type Campaign = {
  readonly requests: number
  readonly seconds: number
  /** Operation → status → how often. */
  readonly statuses: ReadonlyMap<string, ReadonlyMap<string, number>>
  readonly wounds: ReadonlyMap<string, number>
  readonly violations: readonly Violation[]
  /** Operations that never said yes, or never no, though they could. */
  readonly unreached: readonly string[]
  readonly slowestMs: number
}

export type CampaignOptions = {
  readonly seed: number
  readonly requests: number
  /** Only the request of this place. */
  readonly only?: number
  readonly mostViolations?: number
  /**
   * So many sound rounds over all operations come first, so that each of them has been reached before it is harmed; then
   * one round without a good token, so that each that asks for one has refused.
   */
  readonly soundRounds?: number
  readonly onRequest?: (done: number, violations: number) => void
  readonly onViolation?: (violation: Violation) => void
}

// A move of the clock does all the work on its way before it answers, and may take this long.
const clockPatienceMs = 240_000

/** Sends requests one after another and judges each answer together with what it left in the database. */
export async function runCampaign(service: Service, options: CampaignOptions): Promise<Campaign> {
  const { requests, only, mostViolations = 20 } = options
  const scene = await furnish(service, Math.min(600, Math.max(60, Math.ceil(requests / 100))))
  const operations = await readOperations(service.url)
  const watch = await watchChanges(service.app.pool)
  const wire = openWire(service.port)
  const statuses = new Map<string, Map<string, number>>()
  const wounds = new Map<string, number>()
  const violations: Violation[] = []
  let [done, slowestMs] = [0, 0]
  const startedAt = performance.now()
  try {
    for (let k = only ?? 0; k < (only === undefined ? requests : only + 1); k++) {
      const draft = draftAt(options, k, operations, scene)
      const bytes = bytesOf(draft)
      const heard = await send(wire, draft, bytes)
      // Who was cut off may have been heard all the same: what comes of it is not the next request's doing.
      if (heard.kind !== 'answered' || draft.halfClose) await quiet(service)
      const faults = judge(draft, heard, await watch.changes(), operations)
      if (heard.kind === 'answered' && heard.status < 300) {
        if (heard.body.length < 20_000) scene.learn(draft.operation.name, heard.body.toString())
        // A provider that was told to misbehave is well again before the next request.
        if (draft.operation.path.endsWith('/faults')) await heal(service, scene)
        await watch.changes()
      }
      const answering = answeringOperation(draft, operations)?.name ?? 'no route'
      count(statuses, answering, heard.kind === 'answered' ? String(heard.status) : heard.kind)
      wounds.set(draft.wound, (wounds.get(draft.wound) ?? 0) + 1)
      slowestMs = Math.max(slowestMs, heard.ms)
      if (faults.length > 0) {
        const violation = violationOf(draft, bytes, faults)
        violations.push(violation)
        options.onViolation?.(violation)
      }
      done++
      options.onRequest?.(done, violations.length)
      if (violations.length >= mostViolations) break
    }
  } finally {
    wire.close()
  }
  return {
    requests: done,
    seconds: (performance.now() - startedAt) / 1000,
    statuses,
    wounds,
    violations,
    unreached: only === undefined ? unreachedOf(operations, statuses) : [],
    slowestMs,
  }
}

// Harm within the body has the most ways to be done, and is drawn the most often; broken HTTP reaches no route.
const allWounds: readonly (readonly [string, Wound])[] = [
  ...repeated(12, saidWrong),
  ...repeated(5, writtenWrong),
  ...repeated(5, targetWounds),
  ...repeated(5, headerWounds),
  ...repeated(1, framingWounds),
]

const refused = Object.entries(headerWounds).filter(([name]) => name === 'no good token')

function repeated(times: number, wounds: Readonly<Record<string, Wound>>): (readonly [string, Wound])[] {
  return Array.from({ length: times }, () => Object.entries(wounds)).flat()
}

/** The request of a place: the same choices for the same seed, whatever came before. */
function draftAt(
  { seed, soundRounds = 12 }: CampaignOptions,
  k: number,
  operations: readonly Operation[],
  scene: Scene,
): Draft {
  const random = seededRandom(seedOf(seed, k))
  const round = Math.floor(k / operations.length)
  const operation = round <= soundRounds ? operations[k % operations.length]! : drawn(random, operations)
  const draft = soundRequest(operation, random, scene, k)
  if (round < soundRounds) return draft
  if (round > soundRounds && random.chance(0.2)) return draft
  const wounds = round === soundRounds ? refused : allWounds
  for (let tries = 0; tries < 50; tries++) {
    const [name, inflict] = random.pick(wounds)
    if (!inflict(random, draft, scene)) continue
    draft.wound = name
    break
  }
  return draft
}

/** One path in thirty is nobody's. Documents and clock moves cost a hundred times the rest and are drawn less often. */
function drawn(random: Random, operations: readonly Operation[]): Operation {
  if (random.chance(1 / 30))
    return { ...operations[0]!, name: 'GET /nowhere', path: '/nowhere/at/all', answers: new Map() }
  const weights = operations.map(({ name }) => [name, /\.pdf|POST .*clock/.test(name) ? 0.2 : 1] as const)
  const name = random.weighted(Object.fromEntries(weights))
  return operations.find((operation) => operation.name === name)!
}

function send(wire: Wire, draft: Draft, bytes: Buffer): Promise<Heard> {
  const { fresh, halfClose, from } = draft
  const movesClock = draft.method === 'POST' && draft.operation.path.endsWith('/clock')
  return wire.ask({
    bytes,
    head: draft.method === 'HEAD',
    fresh,
    halfClose,
    ...(from !== undefined && { from }),
    ...(movesClock && { patienceMs: clockPatienceMs }),
  })
}

async function heal(service: Service, scene: Scene): Promise<void> {
  const answer = await fetch(`${service.url}/api/sandbox/provider/faults`, {
    method: 'POST',
    // Every other token is for all, and only such a one may.
    headers: { authorization: `Bearer ${scene.tokens[1]}`, 'content-type': 'application/json' },
    body: '{}',
  })
  if (!answer.ok) throw new Error(`the provider could not be healed: ${answer.status}`)
}

function count(statuses: Map<string, Map<string, number>>, operation: string, status: string): void {
  const row = statuses.get(operation) ?? new Map<string, number>()
  row.set(status, (row.get(status) ?? 0) + 1)
  statuses.set(operation, row)
}

function violationOf(draft: Draft, bytes: Buffer, faults: readonly string[]): Violation {
  const sent = bytes.toString('latin1').replace(/rl_test_\w+/g, 'rl_test_…')
  return {
    k: draft.k,
    operation: draft.operation.name,
    wound: draft.wound,
    faults,
    sent: JSON.stringify(sent.length > 900 ? `${sent.slice(0, 900)}… (${sent.length} bytes)` : sent),
  }
}

/** An open question without any input has nothing to refuse; everything else has to have said both yes and no. */
function unreachedOf(
  operations: readonly Operation[],
  statuses: ReadonlyMap<string, ReadonlyMap<string, number>>,
): string[] {
  return operations.flatMap(({ name, method, fields, secured }) => {
    const seen = [...(statuses.get(name)?.keys() ?? [])]
    const yes = seen.some((status) => status.startsWith('2'))
    const no = seen.some((status) => status.startsWith('4') && status !== '429')
    const cannotRefuse = method === 'GET' && fields.length === 0 && !secured
    return [
      ...(yes ? [] : [`${name} never said yes`]),
      ...(no || cannotRefuse ? [] : [`${name} never said no`]),
    ]
  })
}

/** The campaign as a record that can be kept. */
export function summaryOf({ statuses, wounds, ...rest }: Campaign) {
  return {
    ...rest,
    perSecond: rest.requests / rest.seconds,
    wounds: Object.fromEntries(wounds),
    statuses: Object.fromEntries([...statuses].map(([name, counts]) => [name, Object.fromEntries(counts)])),
  }
}

/** Operation by status class, one line each. */
export function tableOf({ statuses }: Campaign): string {
  const classes = ['2xx', '4xx', '429', '5xx', 'other']
  const rows = [...statuses].map(([operation, counts]) => {
    const sums = new Map(classes.map((name) => [name, 0]))
    for (const [status, times] of counts) {
      const name = status === '429' ? status : /^[245]\d\d$/.test(status) ? `${status[0]}xx` : 'other'
      sums.set(name, sums.get(name)! + times)
    }
    return `${operation.padEnd(62)}${classes.map((name) => String(sums.get(name)).padStart(8)).join('')}`
  })
  return [`${''.padEnd(62)}${classes.map((name) => name.padStart(8)).join('')}`, ...rows.sort()].join('\n')
}

/** Returns once no connection of the service has been in use for a moment, or after two seconds. */
async function quiet({ app: { pool } }: Service): Promise<void> {
  let idle = 0
  for (let looks = 0; looks < 400 && idle < 6; looks++) {
    await sleep(5)
    idle = pool.waitingCount === 0 && pool.idleCount === pool.totalCount ? idle + 1 : 0
  }
}

import { deathPlaces } from './boundaries.ts'
import type { Violation } from './checker.ts'
import { type Worker, workAlone, workTogether } from './crew.ts'
import { tailOf } from './history.ts'
import {
  cancelFaults,
  cardFaults,
  chargeFaults,
  lookupFaults,
  profileOf,
  refundFaults,
} from './model-provider.ts'
import { runSeed } from './run-seed.ts'
import { type Counts, hintForgeries } from './simulated-world.ts'
import { openStage } from './stage.ts'
import { stepKinds } from './workload.ts'

export type Campaign = {
  readonly seeds: number
  readonly operations: number
  readonly counts: Counts
  readonly failures: readonly SeedReport[]
  /** Kinds of trouble that never came. A long campaign in which one is missing proves nothing about it. */
  readonly neverFired: readonly string[]
}

/** What is told of a seed. */
export type SeedReport = {
  readonly seed: number
  readonly hash: string
  readonly operations: number
  readonly counts: Counts
  readonly violations: readonly Violation[]
  /** Empty unless something is wrong. */
  readonly ending: string
}

/** So many seeds must have met every kind of trouble: the rarest comes to about one in ninety. */
export const enoughSeeds = 600

const kindsOf = () => [
  ...stepKinds.map((kind) => `step ${kind}`),
  ...deathPlaces.map((place) => `death ${place}`),
  ...chargeFaults.map((fault) => `charge ${fault}`),
  ...refundFaults.map((fault) => `refund ${fault}`),
  ...lookupFaults.map((fault) => `lookup ${fault}`),
  ...cardFaults.flatMap((fault) => [`describe ${fault}`, `exchange ${fault}`]),
  ...(profileOf().asks
    ? [...cancelFaults.map((fault) => `cancel ${fault}`), 'confirmed', 'confirmed too late']
    : []),
  'race',
  'restore',
  'by-hand refund',
  ...(profileOf().disputes ? ['dispute', 'dispute won', 'dispute lost'] : []),
  ...(profileOf().hidesDisputes ? ['dispute ended by giving back'] : []),
  'revoked credentials',
  'key rotation',
  'unmatched retried',
  'unmatched settled',
  'offer failed',
  ...(profileOf().hints
    ? [
        'hint',
        'hint doubled',
        'hint lost for ever',
        'hint while one is acted on',
        ...hintForgeries.map((forgery) => `hint forged: ${forgery}`),
      ]
    : []),
]

/** What happens around the service, and how often it was drawn. */
const drawnOf = () => [...kindsOf().slice(kindsOf().indexOf('restore')), 'bounced refund']

export type CampaignOptions = {
  readonly from: number
  readonly seeds: number
  readonly mostFailures: number
  /** How many processes share the work. */
  readonly workers?: number
  readonly onSeed?: (report: SeedReport) => void
  /** Ends the campaign after the seed that is being worked. */
  readonly signal?: AbortSignal
}

export async function runCampaign(serverUrl: string, options: CampaignOptions): Promise<Campaign> {
  const { from, mostFailures, workers = 1 } = options
  const counts: Counts = {}
  const failures: SeedReport[] = []
  let operations = 0
  let seeds = 0
  const onResult = (report: SeedReport) => {
    seeds++
    operations += report.operations
    addCounts(counts, report.counts)
    if (report.violations.length > 0) failures.push(report)
    options.onSeed?.(report)
    return failures.length < mostFailures && !options.signal?.aborted
  }
  const tasks = Array.from({ length: options.seeds }, (_, at) => from + at)
  if (workers === 1) await workAlone(await openSeedWorker(serverUrl), tasks, onResult)
  else await workTogether(seedProcess, [serverUrl], workers, tasks, onResult)
  return { seeds, operations, counts, failures, neverFired: missingFrom(counts) }
}

export function addCounts(counts: Counts, more: Counts): void {
  for (const [kind, count] of Object.entries(more)) counts[kind] = (counts[kind] ?? 0) + count
}

/** The kinds of trouble that never came. */
export function missingFrom(counts: Counts): string[] {
  return kindsOf().filter((kind) => !counts[kind])
}

const seedProcess = new URL('./seed-process.ts', import.meta.url)

/** Runs seeds on a stage of its own. */
export async function openSeedWorker(serverUrl: string): Promise<Worker<number, SeedReport>> {
  const stage = await openStage(serverUrl)
  return {
    async work(seed) {
      const { history, ...report } = await runSeed(stage, seed)
      return { ...report, ending: report.violations.length > 0 ? tailOf(history, 1_000) : '' }
    },
    close: stage.close,
  }
}

/** What failed, why, and the one line that shows it again. */
export function describeFailure({ seed, violations, ending }: SeedReport, lines: number): string {
  return [
    `npm run simulate -- --provider ${process.env['SIMULATED_PROVIDER'] ?? 'sandbox'} --from ${seed} --seeds 1`,
    ...violations.slice(0, 12).map(({ invariant, detail }) => `  ${invariant}: ${detail}`),
    ...(lines > 0 ? ['  how it ended:', ...ending.split('\n').slice(-lines)] : []),
  ].join('\n')
}

export function describeCampaign({ seeds, operations, counts, failures }: Campaign): string {
  const list = (prefix: string) =>
    Object.entries(counts)
      .filter(([kind]) => kind.startsWith(prefix))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([kind, count]) => `${kind.slice(prefix.length)} ${count}`)
      .join(', ')
  return [
    `${seeds} seeds, ${operations} operations, ${failures.length} with violations`,
    `races: ${counts['race'] ?? 0}`,
    `drawn: ${drawnOf()
      .map((kind) => `${kind} ${counts[kind] ?? 0}`)
      .join(', ')}`,
    `deaths: ${list('death ')}`,
    ...['charge', 'refund', 'lookup', 'describe', 'exchange'].map((call) => `${call}: ${list(`${call} `)}`),
  ].join('\n')
}

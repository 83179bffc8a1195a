import { deathPlaces } from './boundaries.ts'
import { tailOf } from './history.ts'
import { cardFaults, chargeFaults, lookupFaults, refundFaults } from './model-provider.ts'
import { runSeed, type SeedResult } from './run-seed.ts'
import type { Counts } from './simulated-world.ts'
import { openStage } from './stage.ts'

export type Campaign = {
  readonly seeds: number
  readonly operations: number
  readonly counts: Counts
  readonly failures: readonly SeedResult[]
  /** Kinds of trouble that never came. A long campaign in which one is missing proves nothing about it. */
  readonly neverFired: readonly string[]
}

/** So many seeds must have met every kind of trouble. */
export const enoughSeeds = 200

const kinds = [
  ...deathPlaces.map((place) => `death ${place}`),
  ...chargeFaults.map((fault) => `charge ${fault}`),
  ...refundFaults.map((fault) => `refund ${fault}`),
  ...lookupFaults.map((fault) => `lookup ${fault}`),
  ...cardFaults.flatMap((fault) => [`describe ${fault}`, `exchange ${fault}`]),
  'race',
]

export async function runCampaign(
  serverUrl: string,
  options: { from: number; seeds: number; mostFailures: number; onSeed?: (result: SeedResult) => void },
): Promise<Campaign> {
  const stage = await openStage(serverUrl)
  const counts: Counts = {}
  const failures: SeedResult[] = []
  let operations = 0
  let seeds = 0
  try {
    for (; seeds < options.seeds && failures.length < options.mostFailures; seeds++) {
      const result = await runSeed(stage, options.from + seeds)
      operations += result.operations
      for (const [kind, count] of Object.entries(result.counts)) counts[kind] = (counts[kind] ?? 0) + count
      if (result.violations.length > 0) failures.push(result)
      options.onSeed?.(result)
    }
  } finally {
    await stage.close()
  }
  return { seeds, operations, counts, failures, neverFired: kinds.filter((kind) => !counts[kind]) }
}

/** What failed, why, and the one line that shows it again. */
export function describeFailure({ seed, violations, history }: SeedResult, lines: number): string {
  return [
    `npm run simulate -- --from ${seed} --seeds 1`,
    ...violations.slice(0, 12).map(({ invariant, detail }) => `  ${invariant}: ${detail}`),
    ...(lines > 0 ? ['  how it ended:', tailOf(history, lines)] : []),
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
    `deaths: ${list('death ')}`,
    ...['charge', 'refund', 'lookup', 'describe', 'exchange'].map((call) => `${call}: ${list(`${call} `)}`),
  ].join('\n')
}

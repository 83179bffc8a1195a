import { check, type Violation } from './checker.ts'
import type { History } from './history.ts'
import { profileOf } from './model-provider.ts'
import type { SimulatedWorld } from './simulated-world.ts'
import { plans, type Stage } from './stage.ts'

/** Everything that is wrong with a run that has come to rest. */
export async function judge(
  stage: Stage,
  world: SimulatedWorld,
  secrets: readonly string[],
): Promise<Violation[]> {
  const { log, faults } = stage.takeOutput()
  const violations = await check({
    history: world.history.entries,
    book: world.model.book,
    asked: world.model.asked,
    calls: world.model.calls,
    told: world.model.told,
    turnedAway: world.model.turnedAway,
    refused: world.model.refused(),
    query: async <R extends object>(text: string) => (await world.observer.query<R>(text)).rows,
    outputs: [log],
    vaultKeys: stage.services.map(({ vaultKeys }) => vaultKeys),
    secrets: [...stage.secrets, ...secrets],
    prices: pricesOf(world.history),
    now: world.now(),
    keyWindowMs: profileOf().keyWindowMs,
    hidesDisputes: profileOf().hidesDisputes ?? false,
    withdrawsDisputed: profileOf().withdrawsDisputed ?? false,
  })
  return [...unexplained(world, faults), ...violations]
}

/** A fault of the service is fair only where its process died or the provider's adapter blew up. */
function unexplained(world: SimulatedWorld, faults: readonly unknown[]): Violation[] {
  const ours = faults.filter((error) => !isExplained(error))
  return [...new Set([...ours, ...world.unexplained])].map((error) => ({
    invariant: 'nothing fails without a cause',
    detail: String((error as Error)?.stack ?? error),
  }))
}

function isExplained(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return (
    error.name === 'Died' || (error.name === 'TypeError' && error.message.startsWith('unexpected token in'))
  )
}

/** Every price that a plan had at some time in the run. */
function pricesOf(history: History): ReadonlyMap<string, readonly bigint[]> {
  const prices = new Map<string, bigint[]>(Object.values(plans).map(({ planId, minor }) => [planId, [minor]]))
  for (const { method, path, body } of history.requests()) {
    const planId = method === 'PUT' ? /plans\/(\w+)$/.exec(path)?.[1] : undefined
    if (planId !== undefined) prices.get(planId)?.push(BigInt((body as { amount: number }).amount))
  }
  return prices
}

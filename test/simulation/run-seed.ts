import type { Violation } from './checker.ts'
import { type History, hashOf } from './history.ts'
import { judgeBooks } from './restore.ts'
import { type Counts, calm, openSimulatedWorld, type SimulatedWorld } from './simulated-world.ts'
import type { Stage } from './stage.ts'
import { judge } from './verdict.ts'
import { wave } from './wave.ts'
import { type Clients, converge, crowd, forget, openClients, takeStep } from './workload.ts'

export type SeedResult = {
  readonly seed: number
  /** The same seed gives the same hash. */
  readonly hash: string
  readonly operations: number
  readonly counts: Counts
  readonly violations: readonly Violation[]
  readonly history: History
}

/** One run: a phase in which things go wrong, one in which everything must come right, and the verdict. */
export async function runSeed(stage: Stage, seed: number): Promise<SeedResult> {
  const world = await openSimulatedWorld(stage, seed)
  try {
    const clients = openClients(world)
    const trouble = await live(world, clients, seed % oneWaveIn === 3)
    const violations = await judge(stage, world, clients.secrets)
    if (trouble.length === 0) violations.push(...(await judgeBooks(world)))
    return {
      seed,
      hash: hashOf([world.history.entries, world.model.book]),
      operations: world.history.entries.length,
      counts: world.counts,
      violations: [...trouble, ...violations],
      history: world.history,
    }
  } finally {
    stage.takeOutput()
    await stage.end()
  }
}

// Longer than a month, so that what was canceled would be charged if it could.
const restDays = 35

// A wave takes as long as several runs without one.
const oneWaveIn = 20

async function live(world: SimulatedWorld, clients: Clients, withWave: boolean): Promise<Violation[]> {
  const { random } = world
  const rate = () => random.pick([0.1, 0.25, 0.45, 0.7])
  const storm = {
    charge: rate(),
    // Refunds are few, so more of them go wrong.
    refund: random.pick([0.3, 0.5, 0.7, 0.9]),
    lookup: rate(),
    death: random.pick([0.002, 0.01, 0.03, 0.06]),
  }
  try {
    world.weather = storm
    const steps = random.between(25, 45)
    for (let step = 0; step < steps; step++) await takeStep(world, clients)
    if (random.chance(0.08)) await crowd(world, clients)
    if (withWave) await wave(world, clients)
    world.weather = calm
    await converge(world, clients, restDays, forget)
    return []
  } catch (error) {
    return [{ invariant: 'the run comes to an end', detail: String((error as Error).stack ?? error) }]
  }
}

import { size } from '../size.ts'
import { readFacts, violations } from './invariants.ts'
import { allOrders, type Order, readOrder, renderOrder, twoSwitches } from './orders.ts'
import type { Pair } from './pair.ts'
import { openPathMemory, type PathMemory } from './path-memory.ts'
import { type Cut, type Cuts, openCutCounter, type Run, renderTrace, runOrder } from './run-order.ts'
import type { Stage } from './stage.ts'
import type { SideName, Step } from './stepper.ts'

/** Where each side of a pair can be cut, and how many statements it has, at its longest. */
export type Shape = {
  readonly cuts: Cuts
  /** The labels of a side's cuts, in order. */
  readonly points: Readonly<Record<SideName, readonly string[]>>
  readonly statements: Readonly<Record<SideName, number>>
}

export type Exploration = {
  /** How many orders were run; the others come down to one of these. */
  readonly runs: readonly Run[]
  readonly failures: readonly string[]
}

const mostCuts = size(4, 5)
const mostFailures = 3

/** Runs every schedule of statements with at most two switches, and learns from them where the sides can be cut. */
export async function survey(stage: Stage, pair: Pair): Promise<Exploration & { shape: Shape }> {
  const memory = openPathMemory()
  const look = (orders: readonly Order[]) => explore(stage, pair, noCuts, orders, memory)
  const whole = await look([readOrder('A*', 'statements'), readOrder('B*', 'statements')])
  const { statements } = shapeOf(whole.runs)
  const switched = await look(twoSwitches(statements.A, statements.B))
  const runs = [...whole.runs, ...switched.runs]
  return { runs, failures: [...whole.failures, ...switched.failures], shape: shapeOf(runs) }
}

const noCuts: Cuts = { A: new Set(), B: new Set() }

function shapeOf(runs: readonly Run[]): Shape {
  const shapeOfSide = (name: SideName) => {
    const own = runs.map(({ trace }) => trace.filter(({ side }) => side === name))
    const found = own.map(cutsOf).sort((one, other) => other.length - one.length)[0]!
    return { ...keepFew(found), statements: Math.max(...own.map(({ length }) => length)) }
  }
  const [a, b] = [shapeOfSide('A'), shapeOfSide('B')]
  return {
    cuts: { A: a.kept, B: b.kept },
    points: { A: a.labels, B: b.labels },
    statements: { A: a.statements, B: b.statements },
  }
}

type FoundCut = { readonly step: Step; readonly cut: Cut }

function cutsOf(steps: readonly Step[]): FoundCut[] {
  const counter = openCutCounter()
  return steps
    .map((step, at) => ({ step, cut: counter.cutOf(step, steps[at + 1]) }))
    .filter((one): one is FoundCut => one.cut !== undefined)
}

/** At most five cuts of a side: its empty commits are given up first, then its later single writes and holds. */
function keepFew(found: readonly FoundCut[]): { kept: Set<number>; labels: string[] } {
  const kept = new Set(found.keys())
  for (const least of ['release', 'write', 'hold', 'commit', 'provider'] as const) {
    for (let at = found.length - 1; at > 0 && kept.size > mostCuts; at--)
      if (found[at]!.cut === least) kept.delete(at)
  }
  return { kept, labels: found.filter((_, at) => kept.has(at)).map(({ step }) => step.label) }
}

/** Every order of a pair's cuts. */
export function cutOrders({ points }: Shape): Order[] {
  return allOrders(points.A.length, points.B.length)
}

/** Runs schedules one after another and describes those that break something; it stops after a few. */
export async function explore(
  stage: Stage,
  pair: Pair,
  cuts: Cuts,
  orders: readonly Order[],
  memory: PathMemory | undefined,
): Promise<Exploration> {
  const failures: string[] = []
  const runs: Run[] = []
  for (const order of orders) {
    if (memory?.knows(order)) continue
    const { run, broken } = await runOnce(stage, pair, order, cuts)
    runs.push(run)
    memory?.learn(run)
    if (broken.length > 0) failures.push(failureOf(pair, order, broken, run))
    if (failures.length >= mostFailures) break
  }
  return { runs, failures }
}

async function runOnce(
  stage: Stage,
  pair: Pair,
  order: Order,
  cuts: Cuts,
): Promise<{ run: Run; broken: string[] }> {
  const { accountId, A, B, later, check } = await pair.open(stage)
  const works = { A: () => A(stage.actors.A), B: () => B(stage.actors.B) }
  const run = await runOrder(stage.sides, stage.watcher, works, order, cuts)
  const broken: string[] = run.stoodStill ? ['neither side moves'] : []
  // The loser is run again and nobody sees it, but whoever keeps to the order of locks never meets it.
  if (run.trace.some(({ code }) => code === '40P01')) broken.push('both sides waited for each other')
  try {
    await stage.settle()
    await later?.()
    const facts = await readFacts(stage, accountId)
    broken.push(...violations(facts), ...(await check(run, facts)))
  } catch (error) {
    broken.push(`fault: ${error}`)
  }
  await stage.retire(accountId)
  return { run, broken }
}

/** Everything one needs to see the same schedule again. */
function failureOf(pair: Pair, order: Order, broken: readonly string[], run: Run): string {
  return [
    `${pair.name}, order ${renderOrder(order)} by ${order.grain}`,
    ...broken.map((sentence) => `  ${sentence}`),
    `replay: npx tsx test/interleavings/all.ts ${pair.name} --grain ${order.grain} --order ${renderOrder(order)}`,
    'steps in the order of their completion:',
    renderTrace(run.trace),
  ].join('\n')
}

import type pg from 'pg'
import type { Order } from './orders.ts'
import { isClaim, isLock, isWrite, type Side, type SideName, type Step } from './stepper.ts'

/** What came of one schedule: how each side ended, and every step in the order of completion. */
export type Run = {
  readonly results: Readonly<Record<SideName, PromiseSettledResult<unknown>>>
  readonly trace: readonly Step[]
  /** Every turn that was given, and whether its side could move at all: it may be over, or blocked. */
  readonly path: readonly { readonly side: SideName; readonly moved: boolean }[]
  /** It had to be let go, because nothing moved any more. */
  readonly stoodStill: boolean
}

/**
 * A point at which a side may be cut: it holds what it decides on, its work becomes visible (of a transaction or of a
 * single statement), its locks are free though it wrote nothing, or money may move.
 */
export type Cut = 'hold' | 'commit' | 'write' | 'release' | 'provider'

export type Sides = { readonly A: Side; readonly B: Side }

/** Which of a side's cuts count, by their place among all of its cuts. */
export type Cuts = Readonly<Record<SideName, ReadonlySet<number>>>

const patienceMs = 120_000

/**
 * Runs two works side by side, one step released at a time in the order asked for. A step that waits for the other
 * side's lock, as PostgreSQL itself tells, gives its turn up and completes when the lock is free.
 */
export async function runOrder(
  sides: Sides,
  watcher: pg.Client,
  works: Readonly<Record<SideName, () => Promise<unknown>>>,
  order: Order,
  cuts: Cuts,
): Promise<Run> {
  const trace: Step[] = []
  const path: { side: SideName; moved: boolean }[] = []
  const released = new Set<Step>()
  const counted = new Set<Step>()
  const unjudged: Record<SideName, Step[]> = { A: [], B: [] }
  const counters = { A: openCutCounter(), B: openCutCounter() }
  const endBy = performance.now() + patienceMs

  /** Where a side stands once nothing moves any more without a release. */
  async function standing(side: Side): Promise<'at a gate' | 'blocked' | 'over'> {
    for (;;) {
      collect()
      if (side.running.size > 0) {
        if (await isBlocked(side)) return 'blocked'
        await Promise.race([side.stirred(), pause(2)])
      } else if (side.waiting.length > 0) {
        judge(side)
        return 'at a gate'
      } else if (side.result) {
        judge(side)
        return 'over'
      } else {
        await Promise.race([side.stirred(), pause(200)])
      }
      if (performance.now() > endBy) throw new StandStill()
    }
  }

  async function isBlocked(side: Side): Promise<boolean> {
    const [step] = side.running
    if (step?.pid === undefined) return false
    // Most steps are through before anybody could ask.
    await Promise.race([side.stirred(), pause(3)])
    if (!side.running.has(step)) return false
    const { rows } = await watcher.query({
      name: 'is-blocked',
      text: 'select pg_blocking_pids($1) && $2::int[] as blocked',
      values: [step.pid, [...sides.A.pids, ...sides.B.pids]],
    })
    return rows[0].blocked && side.running.has(step)
  }

  function collect(): void {
    for (const step of [...released].sort((one, other) => one.completedAt - other.completedAt)) {
      if (step.completedAt === 0) continue
      released.delete(step)
      trace.push(step)
      unjudged[step.side].push(step)
    }
  }

  /** Whether a step is a cut shows when the next one is known. */
  function judge(side: Side): void {
    const steps = unjudged[side.name].splice(0)
    for (const [at, step] of steps.entries()) {
      const next = steps[at + 1] ?? side.waiting[0]?.step
      if (counters[side.name].isCounted(step, next, cuts[side.name])) counted.add(step)
    }
  }

  /** Releases one step and waits until it is through or blocked; then whoever it set free comes to a gate, too. */
  async function releaseOne(side: Side): Promise<Step> {
    const { step, open } = side.waiting.shift()!
    released.add(step)
    open()
    await standing(side)
    const other = sides[side.name === 'A' ? 'B' : 'A']
    if (other.running.size > 0) await standing(other)
    return step
  }

  /** One step of the order. False: the side is over or blocked. */
  async function advance(side: Side): Promise<boolean> {
    const moved = (await standing(side)) === 'at a gate'
    path.push({ side: side.name, moved })
    if (!moved) return false
    do {
      const step = await releaseOne(side)
      if (order.grain === 'statements' || step.state === 'running' || counted.has(step)) return true
    } while ((await standing(side)) === 'at a gate')
    return true
  }

  async function giveTurns(): Promise<void> {
    for (const { side, steps } of order.turns) {
      for (let done = 0; done < steps; done++) if (!(await advance(sides[side]))) break
    }
    while (!sides.A.result || !sides.B.result) {
      while (await advance(sides.A));
      while (await advance(sides.B));
    }
  }

  sides.A.start(works.A)
  sides.B.start(works.B)
  const stoodStill = await giveTurns().then(
    () => false,
    (error: unknown) => {
      if (error instanceof StandStill) return true
      throw error
    },
  )
  for (const side of [sides.A, sides.B]) {
    side.letGo()
    while (!side.result) await side.stirred()
  }
  collect()
  return { results: { A: sides.A.result!, B: sides.B.result! }, trace, path, stoodStill }
}

class StandStill extends Error {}

/** Tells a side's steps that are cuts, and which in the row each is. */
export function openCutCounter() {
  let holds = false
  let hasLocked = false
  let hasWritten = false
  let count = 0

  const cutOf = (step: Step, next: Step | undefined): Cut | undefined => {
    if (step.kind === 'provider') return 'provider'
    if (step.kind === 'commit' || step.kind === 'rollback' || step.state === 'failed') {
      const cut = hasWritten ? 'commit' : hasLocked ? 'release' : undefined
      holds = false
      hasLocked = false
      hasWritten = false
      return step.kind === 'commit' ? cut : undefined
    }
    const changes = (isWrite(step.text) || isClaim(step.text)) && step.rows > 0
    if (!step.inTransaction) return changes ? 'write' : undefined
    hasLocked ||= isLock(step.text) && step.rows > 0
    // Of a statement with several parts only the last one's rows are told.
    hasWritten ||= changes || (isWrite(step.text) && /^\s*with\b/i.test(step.text))
    if (holds || !isDecided(step, next)) return undefined
    holds = true
    return 'hold'
  }

  return {
    cutOf,
    isCounted(step: Step, next: Step | undefined, cuts: ReadonlySet<number>): boolean {
      return cutOf(step, next) !== undefined && cuts.has(count++)
    },
  }
}

/**
 * The moment in a transaction at which it has claimed a key, or has read and locked all that it decides on and is about
 * to write or to let go. What comes next tells it, not the lock, so that a missing lock is cut at the same place.
 */
function isDecided(step: Step, next: Step | undefined): boolean {
  if (isClaim(step.text)) return step.rows > 0
  if (isWrite(step.text) || !next?.inTransaction) return false
  if (next.kind === 'commit') return isLock(step.text) && step.rows > 0
  return isWrite(next.text) && !isClaim(next.text)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

export function renderTrace(trace: readonly Step[]): string {
  return trace
    .map(({ side, label, state }) => `  ${side} ${label}${state === 'failed' ? ' (failed)' : ''}`)
    .join('\n')
}

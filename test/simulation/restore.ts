import { type HistoryLine, listHistory } from '../../src/billing/audit/export-history.ts'
import { stopCharging } from '../../src/billing/charging-stop.ts'
import { resumeCharging } from '../../src/billing/lifecycle/resume-charging.ts'
import { adoptPayments } from '../../src/billing/reconciliation/adopt-payments.ts'
import { applyHistory } from '../../src/billing/reconciliation/apply-history.ts'
import type { Difference } from '../../src/billing/reconciliation/compare.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import type { Violation } from './checker.ts'
import { calm, type SimulatedWorld } from './simulated-world.ts'

/**
 * The database goes back to an earlier copy, and an operator follows the runbook: charging stops, the history that was
 * kept elsewhere is applied, what the provider took since is adopted, and charging resumes. Processes may die on the way;
 * then the step is taken once more.
 */
export async function restore(world: SimulatedWorld): Promise<void> {
  if (!world.copy) return
  const { copy } = world
  const lines = await exportHistory(world)
  const unplaced = await findUnplaced(world)
  await world.goBack()
  world.count('restore')
  const adopted = new Set<string>()
  const before = await paymentsOf(world)
  world.history.add({
    kind: 'restore',
    step: world.step,
    since: copy.step,
    from: copy.at,
    at: world.now(),
    unplaced,
    adopted,
    inDoubt: await paymentsOf(world, "status in ('sending', 'unknown')"),
  })
  // The provider is at peace when somebody compares books with it.
  world.model.refuseCredentials(false)
  world.model.putRight()
  world.model.decidePending()
  await untilDone(world, 'stop charging', (billing) =>
    stopCharging(billing.db, 'restore', billing.clock(), { stopsCalendar: true }),
  )
  // The service may run meanwhile.
  if (world.random.chance(0.5)) await world.sweep()
  await untilDone(world, 'apply history', async (billing) =>
    whole(await applyHistory(billing, lines, 'operator')),
  )
  const [from, to] = [new Date(copy.at - anHour), new Date(world.now() + anHour)]
  await untilDone(world, 'adopt', async (billing) => whole(await adoptPayments(billing, from, to)))
  const strange = await compareBooks(world, from, to)
  if (strange.length > 0) throw new Error(`the books differ after a restore: ${strange.join(', ')}`)
  for (const id of await paymentsOf(world)) if (!before.has(id)) adopted.add(id)
  await untilDone(world, 'resume charging', resumeCharging)
}

/** An operator who is told of subscriptions that could not be worked on runs it again. */
function whole<Result extends { readonly failed: readonly { subject: string; reason: string }[] }>(
  result: Result,
): Result {
  if (result.failed.length === 0) return result
  throw new Error(
    `not brought back: ${result.failed.map(({ subject, reason }) => `${subject} ${reason}`).join(', ')}`,
  )
}

const anHour = 3_600_000
// Of what is still in doubt, and of money that waits for an operator, both books tell the same.
const fair = new Set(['undecided', 'unmatched'])

/** An operator compares the books; what then still differs and nothing explains. */
async function compareBooks(world: SimulatedWorld, from: Date, to: Date): Promise<string[]> {
  let differences: readonly Difference[] = []
  await untilDone(world, 'reconcile', async (billing) => {
    differences = (await reconcilePayments(billing, from, to)).differences
    return differences.length
  })
  const moving = await findMoving(world)
  const unplaced = unplacedSoFar(world)
  return differences
    .filter(
      ({ kind, reference }) =>
        !fair.has(kind) &&
        !(kind === 'unknown_here' && unplaced.has(reference)) &&
        !(kind === 'refunded' && moving.has(reference)),
    )
    .map(({ kind, reference }) => `${kind} ${reference}`)
}

/** The same about all time, once everything has come to rest and was judged: comparing may record what nobody has told. */
export async function judgeBooks(world: SimulatedWorld): Promise<Violation[]> {
  world.weather = calm
  const strange = await compareAll(world)
  return strange.map((detail) => ({ invariant: 'reconciling leaves no difference', detail }))
}

/** Compares the books of all time; what then still differs and nothing explains. */
export function compareAll(world: SimulatedWorld): Promise<string[]> {
  return compareBooks(world, new Date(0), new Date(world.now() + anHour))
}

type Billing = Parameters<typeof applyHistory>[0]

/** An operator whose command dies or gets no answer runs it again; the last time nothing disturbs them. */
async function untilDone(
  world: SimulatedWorld,
  what: string,
  work: (billing: Billing) => Promise<unknown>,
): Promise<void> {
  const { weather } = world
  for (let tries = 0; tries < 4; tries++) {
    let done = false
    world.weather = tries < 3 && what !== 'reconcile' ? { ...calm, death: weather.death } : calm
    await world.do(
      world.working(what, async ({ billing }) => {
        const result = await work(billing)
        done = true
        return result ?? null
      }),
    )
    if (done) break
  }
  world.weather = weather
}

async function exportHistory(world: SimulatedWorld): Promise<HistoryLine[]> {
  let lines: HistoryLine[] = []
  await untilDone(world, 'export history', async (billing) => {
    lines = []
    for await (const line of listHistory(billing.db, () => false)) lines.push(line)
    return lines.length
  })
  return lines
}

/** Payments of which a refund is on its way, so that nobody can say yet what else went back. */
async function findMoving({ observer }: SimulatedWorld): Promise<Set<string>> {
  const { rows } = await observer.query<{ reference: string }>(
    'select provider_reference as reference from billing.payment where refund_pending > 0',
  )
  return new Set(rows.map(({ reference }) => reference))
}

/** What was asked for after the copy and fits nothing in it; and what did not fit before. */
async function findUnplaced({ observer, history }: SimulatedWorld): Promise<Set<string>> {
  const { rows } = await observer.query<{ reference: string }>(
    `select p.provider_reference as reference from billing.payment p
     left join backup.billing_subscription s on s.id = p.subscription_id
     where s.id is null`,
  )
  return new Set([...unplacedSoFar({ history }), ...rows.map(({ reference }) => reference)])
}

function unplacedSoFar({ history }: Pick<SimulatedWorld, 'history'>): Set<string> {
  return new Set(history.entries.flatMap((entry) => (entry.kind === 'restore' ? [...entry.unplaced] : [])))
}

async function paymentsOf({ observer }: SimulatedWorld, those = 'true'): Promise<Set<string>> {
  const { rows } = await observer.query<{ id: string }>(`select id from billing.payment where ${those}`)
  return new Set(rows.map(({ id }) => id))
}

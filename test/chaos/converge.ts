import type { Pool } from 'pg'
import { profileOf } from '../simulation/model-provider.ts'
import { type Random, seededRandom } from '../simulation/random.ts'
import { type Caller, isClear, pause } from './caller.ts'
import { turnClock } from './clients.ts'
import { until } from './database.ts'
import type { Fleet } from './fleet.ts'
import type { ServiceTime } from './service-time.ts'
import type { Staff } from './staff.ts'

/**
 * A few turns are longer than a provider remembers a key and a doubt is looked at, so that they end every doubt. None is
 * so long that our clients' own keys are forgotten before they have asked again.
 */
const turnDaysAt = (provider: string) => Math.max(1.2, profileOf(provider).keyWindowMs / day / 3 + 0.2)
const day = 86_400_000
const turnsWithinMs = 600_000
const restsWithinMs = 300_000

type Rest = {
  readonly fleet: Fleet
  readonly caller: Caller
  readonly time: ServiceTime
  readonly staff: Staff
  readonly seed: number
}

/**
 * Troubles are over. Everybody asks again until they know, customers confirm what waits for them, and time passes until
 * nothing is left to do. What only a comparison of the books can tell, because its notification was lost, comes last.
 */
export async function converge(rest: Rest): Promise<{ differences: string[] }> {
  const { fleet, caller, time, seed } = rest
  const random = seededRandom(seed * 100 + 97)
  const turnDays = turnDaysAt(fleet.provider.name)
  await askAgain(caller, random)
  if (!(await becomesQuiet(rest))) return { differences: [] }
  const deadline = performance.now() + turnsWithinMs
  for (let turn = 0; performance.now() < deadline; turn++) {
    await until(() => turnClock(caller, time, random, turnDays))
    if (!(await becomesQuiet(rest))) break
    await askAgain(caller, random)
    // Money that is found now may have to go back, which takes another turn.
    if (turn === 2) await reconcile(caller, time, random)
    // A doubt that only service time can end needs another turn.
    if (turn > 2 && (await restlessness(fleet.database.observer, anything)) === 0) break
  }
  const differences = await reconcile(caller, time, random)
  await becomesQuiet(rest)
  return { differences }
}

/** Compares both books as an operator does every day. Tells what is left that is no open alarm. */
async function reconcile(caller: Caller, time: ServiceTime, random: Random): Promise<string[]> {
  const path = '/api/billing/reconciliations'
  const from = new Date(Date.now() - day).toISOString()
  const to = new Date(time.latest() + 1_000).toISOString()
  await until(
    async () =>
      (await caller.send({ method: 'POST', path, body: { from, to } }, random)).answer?.status === 202,
  )
  let run: Run | undefined
  await until(async () => {
    const { answer } = await caller.send({ method: 'GET', path }, random)
    run = answer?.status === 200 ? JSON.parse(answer.text).data.reconciliations[0] : undefined
    return run !== undefined && run.status !== 'running'
  })
  if (run!.status !== 'done') return [`the comparison is ${run!.status}`]
  // Money that nobody could give back stands in the list of alarms, which the checker judges.
  return run!.examples.filter(({ kind }) => kind !== 'unmatched').map((one) => JSON.stringify(one))
}

type Run = { readonly status: string; readonly examples: readonly { readonly kind: string }[] }

/** Every errand that got no clear answer so far is asked again. */
async function askAgain(caller: Caller, random: Random): Promise<void> {
  const open = caller.errands.filter(({ entries }) => !entries.some(isClear))
  await Promise.all(open.map((errand) => caller.carryThrough(errand, random, 10)))
}

/** Waits until nothing is left that real time can bring to an end. False: that took too long, and the verdict tells why. */
async function becomesQuiet({ fleet, staff }: Rest): Promise<boolean> {
  const { observer } = fleet.database
  const deadline = performance.now() + restsWithinMs
  await observer.query(lookAtNotifications)
  while (performance.now() < deadline) {
    for (const wait of waits) await observer.query(wait)
    const confirmed = await staff.confirmAll()
    if (confirmed === 0 && (await restlessness(observer, dueNow)) === 0) return true
    await pause(200)
  }
  return false
}

/** The waits of the queue and of the provider's notifier grow to many minutes of real time; here they pass at once. */
const waits = [
  `update graphile_worker._private_jobs set run_at = now()
   where attempts < max_attempts and locked_at is null and run_at > now()`,
  `update sandbox.delivery set due_at = now() where status = 'waiting' and due_at > now() + interval '2 seconds'`,
]

/** So do the waits of our inbox, once: a notification of something that only service time can settle waits on. */
const lookAtNotifications = `update billing.webhook set next_lookup_at = now() where status = 'waiting'`

const now = `now() + (select offset_ms from platform.clock) * interval '1 ms'`

/** What somebody should be doing at this moment. */
const dueNow = [
  `select 1 from billing.subscription where status in ('active', 'trialing') and next_billing_at <= ${now}`,
  `select 1 from billing.subscription where status = 'canceling' and cancel_at <= ${now}`,
  `select 1 from billing.invoice where due_at <= ${now}`,
  `select 1 from billing.payment where status in ('sending', 'unknown') and (next_lookup_at <= now() or lookup_by <= ${now})`,
  `select 1 from billing.refund where status = 'pending' and (next_lookup_at <= now() or lookup_by <= ${now})`,
  `select 1 from billing.payment_method where state = 'pending' and next_lookup_at <= now()`,
  // One that has just come has its first look in a second.
  `select 1 from billing.webhook where status = 'waiting' and (next_lookup_at <= now() or tries = 0)`,
  `select 1 from sandbox.delivery where status = 'waiting'`,
  'select 1 from graphile_worker._private_jobs where attempts < max_attempts',
]

/** What is not over yet, also if it only waits. */
const anything = [
  ...dueNow,
  `select 1 from billing.payment where status in ('sending', 'unknown')`,
  `select 1 from billing.refund where status = 'pending'`,
  `select 1 from billing.payment_method where state = 'pending'`,
  `select 1 from billing.webhook where status = 'waiting'`,
]

async function restlessness(observer: Pool, questions: readonly string[]): Promise<number> {
  const parts = questions.map((question) => `(select count(*) from (${question}) as one)`)
  const { rows } = await observer.query<{ count: number }>(`select (${parts.join(' + ')})::int as count`)
  return rows[0]!.count
}

import type { Pool } from 'pg'
import { type Random, seededRandom } from '../simulation/random.ts'
import { type Caller, isClear, pause } from './caller.ts'
import { turnClock } from './clients.ts'
import { until } from './database.ts'
import type { Fleet } from './fleet.ts'
import type { ServiceTime } from './service-time.ts'

/** Longer than a provider remembers a key and a doubt is looked at, so that each turn may end a doubt. */
const turnDays = 1.2
const turnsWithinMs = 600_000
const restsWithinMs = 300_000

/** Troubles are over. Everybody asks again until they know, and time passes until nothing is left to do. */
export async function converge(fleet: Fleet, caller: Caller, time: ServiceTime, seed: number): Promise<void> {
  const random = seededRandom(seed * 100 + 97)
  await askAgain(caller, random)
  if (!(await becomesQuiet(fleet))) return
  const deadline = performance.now() + turnsWithinMs
  for (let turn = 0; performance.now() < deadline; turn++) {
    await until(() => turnClock(caller, time, random, turnDays))
    if (!(await becomesQuiet(fleet))) return
    await askAgain(caller, random)
    // A doubt that only service time can end needs another turn.
    if (turn > 2 && (await restlessness(fleet.database.observer, anything)) === 0) return
  }
}

/** Every errand that got no clear answer so far is asked again. */
async function askAgain(caller: Caller, random: Random): Promise<void> {
  const open = caller.errands.filter(({ entries }) => !entries.some(isClear))
  await Promise.all(open.map((errand) => caller.carryThrough(errand, random, 10)))
}

/** Waits until nothing is left that real time can bring to an end. False: that took too long, and the verdict tells why. */
async function becomesQuiet({ database: { observer } }: Fleet): Promise<boolean> {
  const deadline = performance.now() + restsWithinMs
  await observer.query(lookAtNotifications)
  while (performance.now() < deadline) {
    for (const wait of waits) await observer.query(wait)
    if ((await restlessness(observer, dueNow)) === 0) return true
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
  `select 1 from billing.webhook where status = 'waiting' and next_lookup_at <= now()`,
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

import {
  resolveOpenPayments,
  sendUnsentPayments,
} from '../../src/billing/collection/resolve-open-payments.ts'
import { renewDueSubscriptions } from '../../src/billing/lifecycle/renew-due-subscriptions.ts'
import { resumeRefunds } from '../../src/billing/refunds/resume-refunds.ts'
import { calm, type SimulatedWorld } from './simulated-world.ts'
import { advance, type Clients, send } from './workload.ts'

const second = 1_000
const minute = 60 * second

/** What a wave must not do to anybody, as it was seen; the checker finds it in the history. */
export type WaveSeen = {
  /** Calls for the provider by a process that had been told to stop. */
  readonly afterSignal: number
  /** Those that one broken row, or others' turns, kept from what was due. */
  readonly kept: readonly string[]
  /** Charges still in doubt a minute after the provider answered again. */
  readonly inDoubt: readonly string[]
  /** Broken, and no operator is told. */
  readonly untold: readonly string[]
}

/**
 * Many renew at the same instant. One of them is broken, one leaves just before, the provider says nothing for a while, and
 * a process is told to stop in the middle. Then the provider answers again, and a minute later somebody looks.
 */
export async function wave(world: SimulatedWorld, clients: Clients): Promise<void> {
  const { random, observer } = world
  world.weather = calm
  await world.releaseStalled()
  await world.resumeCharging()
  const accounts = Array.from({ length: random.between(4, 9) }, (_, at) => `wave_${at}`)
  // A second apart, so that it is settled who comes first.
  for (const account of accounts) {
    await subscribe(world, clients, account)
    world.pass(second)
  }
  const members = await listMembers(world)
  const [broken, leaving, ...others] = random.shuffled(members) as [Member, Member, ...Member[]]
  const begins = Math.max(...members.map(({ next_billing_at }) => next_billing_at.getTime()))
  await advance(world, begins - 10 * minute)
  await send(world, clients, {
    method: 'POST',
    path: '/api/billing/cancel',
    body: { subscription_id: leaving.id },
  })
  const breakIt = (zone: string) =>
    observer.query('update billing.subscription set time_zone = $2 where id = $1', [broken.id, zone])
  await breakIt('Mars/Olympus')
  world.turnTo(begins)

  let afterSignal = await sweepStopped(world)
  silence(world, others.length)
  await world.sweep()
  for (let round = 0; round < 7; round++) {
    world.pass(random.between(40, 100) * second)
    if (round === 3) afterSignal += await sweepStopped(world)
    await world.sweep()
  }
  answerAgain(world)
  for (let round = 0; round < 6; round++) {
    world.pass(10 * second)
    await world.sweep()
  }

  const seen = await look(world, broken.id, afterSignal)
  world.count('wave')
  world.history.add({ kind: 'work', step: world.step, what: waved, outcome: JSON.stringify(seen) })
  await breakIt('UTC')
}

export const waved = 'wave'

async function subscribe(world: SimulatedWorld, clients: Clients, account: string): Promise<void> {
  const card = `${account}${world.random.between(1000, 9999)}`
  clients.secrets.push(card)
  await send(world, clients, {
    method: 'POST',
    path: '/api/billing/subscribe',
    body: {
      account_id: account,
      plan_id: 'weekly',
      payment_method: { billing_key: `bk_${card}_ok` },
      timezone: 'UTC',
    },
    key: `key-${account}`,
  })
}

type Member = { readonly id: string; readonly next_billing_at: Date }

async function listMembers({ observer }: SimulatedWorld): Promise<Member[]> {
  const { rows } = await observer.query<Member>(
    `select id, next_billing_at from billing.subscription
     where account_id like 'wave%' and status = 'active' order by account_id`,
  )
  if (rows.length < 4) throw new Error(`Only ${rows.length} subscribed to the wave in calm weather.`)
  return rows
}

/** Money is taken without an answer, or nothing arrives, and nobody can be asked. */
function silence(world: SimulatedWorld, renewals: number): void {
  // The same for all of them: they are due at once, and which of them is sent first is left to chance.
  const first = Array<string>(renewals).fill(world.random.pick(['lost_answer', 'lost_request', 'not_sent']))
  world.planned.set('charge', [...first, ...Array<string>(500).fill('not_sent')])
  world.planned.set('lookup', Array<string>(2_000).fill('lookup_error'))
}

function answerAgain(world: SimulatedWorld): void {
  world.planned.delete('charge')
  world.planned.delete('lookup')
}

/** What a process does that was told to stop: nothing that asks the provider, or would. Says how often it did. */
async function sweepStopped(world: SimulatedWorld): Promise<number> {
  const faults = () => world.history.entries.filter(({ kind }) => kind === 'fault').length
  const before = world.model.calls.length + faults()
  const sweeps = { renewDueSubscriptions, sendUnsentPayments, resolveOpenPayments, resumeRefunds }
  for (const [name, sweep] of Object.entries(sweeps)) {
    await world.do(
      world.working(`${name} after the signal`, ({ billing }) =>
        sweep({ ...billing, stopping: AbortSignal.abort() }),
      ),
    )
  }
  return world.model.calls.length + faults() - before
}

async function look(
  { observer, now }: SimulatedWorld,
  broken: string,
  afterSignal: number,
): Promise<WaveSeen> {
  const ids = async (text: string, values: unknown[] = []) =>
    (await observer.query<{ id: string }>(text, values)).rows.map(({ id }) => id)
  return {
    afterSignal,
    kept: await ids(
      `select id from billing.subscription
       where account_id like 'wave%' and id <> $1
         and (status = 'active' and next_billing_at <= $2 or status = 'canceling' and cancel_at <= $2) order by id`,
      [broken, new Date(now())],
    ),
    inDoubt: await ids(
      `select id from billing.payment
       where account_id like 'wave%' and status in ('sending', 'unknown') order by id`,
    ),
    untold: await ids(
      `select id from billing.subscription s where id = $1 and not exists (
         select from platform.alarm a where a.kind = 'sweep_failed' and a.subject = s.id)`,
      [broken],
    ),
  }
}

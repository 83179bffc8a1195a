import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openProgress } from '../../src/cli/progress.ts'
import { openSlowProvider } from '../slow-provider.ts'
import { makeDue, storeSubscriptions } from '../stored-subscriptions.ts'
import { type Fleet, openFleet } from './fleet.ts'
import { type Check, none, report } from './report.ts'

/**
 * `npm run wave -- --due 100000 --delay 500 --minutes 6`: so many renewals fall due at once at a provider that takes its
 * time. Meanwhile charges lose their answers, refunds are asked for, cancellations and notifications fall due. Exit 0
 * only if each of them has its turn within its time, and a stop in the middle of it all is prompt. With `--outage 60`
 * nobody listens at the provider for a minute first, so that all renewals wait for their first send.
 */
const { values } = parseArgs({
  options: {
    due: { type: 'string', default: '100000' },
    delay: { type: 'string', default: '500' },
    minutes: { type: 'string', default: '6' },
    outage: { type: 'string', default: '0' },
    json: { type: 'string' },
  },
})
const timeoutMs = 3_000
const settledWithinMs = 60_000
const cancelWithinMs = 5_000

const fleet = await openFleet({ PROVIDER_TIMEOUT_MS: String(timeoutMs) })
try {
  const { checks, details } = await ride(fleet)
  report('wave', checks, details, values.json)
} finally {
  await fleet.close()
}

type Provider = Awaited<ReturnType<typeof openSlowProvider>>

type Lateness = Record<'doubt' | 'cancellation' | 'refund' | 'notification' | 'subscribe', number[]>

async function ride(fleet: Fleet): Promise<{ checks: Check[]; details: Record<string, unknown> }> {
  const sandbox = fleet.start(['sandbox'])
  const provider = await openSlowProvider(await sandbox.started(), 0)
  const environment = { PROVIDER_BASE_URL: provider.url }
  const serve = fleet.start(['serve', '--no-worker'], environment)
  const url = await serve.started()
  const ask = askerOf(url, fleet)

  await ask.subscribe('model')
  await storeSubscriptions(fleet.db, 'model', Number(values.due))
  await fleet.db.query('vacuum analyze')
  provider.state.delayMs = Number(values.delay)
  if (Number(values.outage) > 0) await provider.hangUp()
  await makeDue(fleet.db, 'stored_%', new Date(Date.now() - 1_000))
  const work = fleet.start(['work'], environment)
  await work.started()
  if (Number(values.outage) > 0) {
    await sleep(Number(values.outage) * 1000)
    await provider.listenAgain()
  }

  const late: Lateness = { doubt: [], cancellation: [], refund: [], notification: [], subscribe: [] }
  const faults: string[] = []
  const endAt = performance.now() + Number(values.minutes) * 60_000
  const progress = openProgress('seconds', Number(values.minutes) * 60)
  const probes: Promise<void>[] = []
  for (let n = 0; performance.now() < endAt; n++) {
    probes.push(
      probe(fleet, provider, ask, n, late).catch((error: unknown) => void faults.push(String(error))),
    )
    await sleep(10_000)
    progress.show(
      Math.round(Number(values.minutes) * 60 - (endAt - performance.now()) / 1000),
      await progressOf(fleet),
    )
  }
  await Promise.all(probes)
  progress.end()
  const left = await stillToCharge(fleet)

  const signalAt = performance.now()
  const stopped = await work.stop()
  // What left the process before it heard of the signal may arrive a moment later.
  const begunAfter = provider.calls.filter(({ at }) => at > signalAt + 250).length
  const charged = await fleet.db.query<{ n: number; twice: number }>(
    `select count(*)::int as n, (count(*) - count(distinct account_id))::int as twice
     from sandbox.payment where account_id like 'stored_%' and status = 'paid'`,
  )
  provider.close()

  const worst = (what: keyof Lateness) => Math.max(0, ...late[what])
  const within = (what: keyof Lateness, sentence: string, goalMs: number): Check => ({
    what: sentence,
    measured: `${late[what].length} times, worst ${Math.round(worst(what))} ms`,
    goal: `within ${goalMs} ms`,
    held: late[what].length > 0 && worst(what) <= goalMs,
  })
  return {
    checks: [
      within('doubt', 'a charge in doubt settles after the provider answers', settledWithinMs),
      within('cancellation', 'a cancellation runs on time', cancelWithinMs),
      within('refund', 'a refund is answered', 15_000),
      within('subscribe', 'a subscriber is answered', 15_000),
      within('notification', 'a notification is acted on', settledWithinMs),
      none('probes that failed', faults.length, faults),
      {
        what: 'renewals left when it was stopped',
        measured: String(left),
        goal: 'some, or it was no wave',
        held: left > 0,
      },
      {
        what: 'stop in the wave',
        measured: `${stopped.ms} ms, exit ${stopped.code}`,
        goal: `within ${timeoutMs + 5_000} ms, exit 0`,
        held: stopped.ms <= timeoutMs + 5_000 && stopped.code === 0,
      },
      none('calls that began after the signal', begunAfter),
      none('customers charged twice', charged.rows[0]!.twice),
    ],
    details: {
      due: Number(values.due),
      delay_ms: Number(values.delay),
      outage_s: Number(values.outage),
      charged: charged.rows[0]!.n,
      left,
      late,
    },
  }
}

type Asker = ReturnType<typeof askerOf>

function askerOf(url: string, fleet: Fleet) {
  const post = async (
    path: string,
    body: unknown,
  ): Promise<{ status: number; data: Record<string, string> }> => {
    const answer = await fetch(url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${fleet.token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const { data } = (await answer.json()) as { data: Record<string, string> }
    return { status: answer.status, data }
  }
  return {
    post,
    subscribe: (accountId: string) =>
      post('/api/billing/subscribe', {
        account_id: accountId,
        plan_id: 'pro-monthly',
        payment_method: { billing_key: 'bk_test_ok' },
      }),
  }
}

/** One of each kind of trouble, in the middle of the wave. */
async function probe(fleet: Fleet, provider: Provider, ask: Asker, n: number, late: Lateness): Promise<void> {
  const one = async <T>(text: string, given: unknown[]) => (await fleet.db.query(text, given)).rows[0]?.v as T
  const until = async (holds: () => Promise<boolean>) => {
    const startedAt = performance.now()
    while (!(await holds())) {
      if (performance.now() - startedAt > 5 * 60_000) throw new Error(`probe ${n} never came to its end`)
      await sleep(100)
    }
  }
  const timed = async (what: keyof Lateness, work: () => Promise<unknown>) => {
    const startedAt = performance.now()
    await work()
    late[what].push(performance.now() - startedAt)
  }

  const paying = `pays_${n}_${randomUUID()}`
  await timed('subscribe', async () => {
    const { status } = await ask.subscribe(paying)
    if (status !== 201) throw new Error(`a subscriber was answered ${status}`)
  })
  const invoice = await one<string>('select id as v from billing.invoice where account_id = $1', [paying])
  await Promise.all([
    timed('refund', async () => {
      const { status } = await ask.post('/api/billing/refund', { invoice_id: invoice, amount: 100 })
      if (status !== 200) throw new Error(`a refund was answered ${status}`)
    }),
    doubt(provider, ask, `doubts_${n}_${randomUUID()}`, fleet, until, late),
    (async () => {
      const subscription = await one<string>(
        `update billing.subscription set status = 'canceling', cancel_at = now() + interval '3 seconds'
         where id = (select id from billing.subscription where account_id = $1) returning id as v`,
        [paying],
      )
      await sleep(3_000)
      await timed('cancellation', () =>
        until(
          async () =>
            (await one(`select status as v from billing.subscription where id = $1`, [subscription])) ===
            'canceled',
        ),
      )
    })(),
    (async () => {
      await sleep(4_000)
      const event = `evt_${n}_${randomUUID()}`
      await fleet.db.query(
        `insert into billing.webhook (provider, event_id, body_hash, type, claim, reference, status, received_at, next_lookup_at)
         select provider, $1, '\\x00', 'payment.updated', 'changed', provider_reference, 'waiting', now(), now()
         from billing.payment where account_id = $2`,
        [event, paying],
      )
      await timed('notification', () =>
        until(
          async () =>
            (await one(`select status as v from billing.webhook where event_id = $1`, [event])) !== 'waiting',
        ),
      )
    })(),
  ])
}

/** Neither the answer to its charge nor any to a lookup arrives for a while; from then on they do. */
async function doubt(
  provider: Provider,
  ask: Asker,
  accountId: string,
  fleet: Fleet,
  until: (holds: () => Promise<boolean>) => Promise<void>,
  late: Lateness,
): Promise<void> {
  const lost = provider.lose(accountId)
  const { status, data } = await ask.subscribe(accountId)
  if (status !== 202) throw new Error(`a charge in doubt was answered ${status}`)
  await sleep(5_000)
  lost.found()
  const answersAt = performance.now()
  await until(async () => {
    const { rows } = await fleet.db.query('select status from billing.subscription where id = $1', [
      data['subscription_id'],
    ])
    return rows[0]?.status === 'active'
  })
  late.doubt.push(performance.now() - answersAt)
}

async function stillToCharge(fleet: Fleet): Promise<number> {
  const { rows } = await fleet.db.query<{ n: number }>(
    `select (select count(*) from billing.subscription where account_id like 'stored_%' and next_billing_at <= now())::int
          + (select count(*) from billing.payment where account_id like 'stored_%' and status = 'sending')::int as n`,
  )
  return rows[0]!.n
}

async function progressOf(fleet: Fleet): Promise<string> {
  return `${await stillToCharge(fleet)} still to charge`
}

import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { median } from '../../bench/result.ts'
import { openProgress } from '../../src/cli/progress.ts'
import { findFreePort } from '../../src/platform/embedded-postgres/free-port.ts'
import { again } from './arrivals.ts'
import { type Client, openClient } from './client.ts'
import { type Fleet, type Member, openFleet } from './fleet.ts'
import { openLookers } from './lookers.ts'
import { openPayers } from './payers.ts'
import { type Check, endedWell, none, report } from './report.ts'
import { listUnsettled, untilSettled } from './unsettled.ts'

/**
 * `npm run provider-hang -- --minutes 3`: the payment provider hangs again and again while customers pay. Exit 0 only if
 * batch and read routes keep their speed meanwhile, all that was left unknown settles soon, and nobody pays twice.
 */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '3' },
    slice: { type: 'string', default: '10' },
    seed: { type: 'string', default: '1' },
    json: { type: 'string' },
  },
})
const sliceSeconds = Number(values.slice)
const speedKept = 0.8
const settledWithinMs = 60_000

const kinds = ['stopped', 'silent'] as const
type Kind = (typeof kinds)[number]
type Group = 'batch' | 'read'
type Round = {
  readonly kind: Kind
  /** Answers a second in the slice in which the provider is well, and in the one in which it hangs. */
  readonly well: Readonly<Record<Group, number>>
  readonly hanging: Readonly<Record<Group, number>>
  readonly leftUnsettled: number
  readonly settledMs: number | undefined
}

const fleet = await openFleet()
try {
  const { checks, details } = await hang(fleet)
  report('provider hang', checks, details, values.json)
} finally {
  await fleet.close()
}

async function hang(fleet: Fleet): Promise<{ checks: Check[]; details: Record<string, unknown> }> {
  const stage = await openStage(fleet)
  const lookers = openLookers(stage.url, fleet.token)
  const payers = await openPayers(stage.url, fleet.token, Number(values.seed))
  const readyz = openClient({ url: () => stage.url, token: fleet.token })
  const watch = again(250, () => readyz.ask('GET /readyz', { expect: [200] }))
  const measure = async (): Promise<Record<Group, number>> => {
    const before = { ...lookers.answered }
    const startedAt = performance.now()
    await sleep(sliceSeconds * 1000)
    const seconds = (performance.now() - startedAt) / 1000
    return {
      batch: (lookers.answered.batch - before.batch) / seconds,
      read: (lookers.answered.read - before.read) / seconds,
    }
  }

  await sleep(5_000)
  const rounds: Round[] = []
  const until = performance.now() + Number(values.minutes) * 60_000
  const progress = openProgress('provider hang, rounds', null)
  while (performance.now() < until || rounds.length < kinds.length) {
    const round = await runRound(stage, rounds.length, measure)
    rounds.push(round)
    progress.show(rounds.length, describe(round))
  }
  progress.end()
  for (const round of rounds) process.stdout.write(`${describe(round)}\n`)

  await payers.stop()
  await lookers.stop()
  const unanswered = await payers.repeatDoubtful(settledWithinMs)
  const left = await untilSettled(fleet.db, settledWithinMs)
  await watch.stop()
  const checks = [
    ...checksOf(rounds),
    none(
      'answers of batch and read routes other than 200 and 404',
      lookers.tally.unexpected,
      lookers.tally.surprises,
    ),
    none(
      'answers to payers that the contract does not know',
      payers.tally.unexpected,
      payers.tally.surprises,
    ),
    none('/readyz other than 200', readyz.tally.unexpected, readyz.tally.surprises),
    none('subscribers without a final answer to their key', unanswered.length, unanswered),
    none(
      'charges and refunds left unsettled at the end',
      left === undefined ? (await listUnsettled(fleet.db)).length : 0,
    ),
    none('invoices paid twice, by the book of the provider', await countPaidTwice(fleet)),
    endedWell('check-ledger', await fleet.run(['check-ledger'], stage.environment)),
    endedWell(
      'reconcile',
      await fleet.run(['reconcile', '--from', '2020-01-01', '--to', '2060-01-01'], stage.environment),
    ),
  ]
  const details = {
    seed: values.seed,
    rounds,
    charged: await countCharges(fleet),
    logged: fleet.logged(),
    payers: payers.tally.routes,
    lookers: lookers.tally.routes,
  }
  return { checks, details }
}

type Stage = {
  readonly url: string
  readonly sandbox: Member
  /** What a process needs to find the provider. */
  readonly environment: Readonly<Record<string, string>>
  readonly client: Client
  readonly fleet: Fleet
}

/** The provider is a process of its own here, as in the world, so that it can hang alone. */
async function openStage(fleet: Fleet): Promise<Stage> {
  const port = String(await findFreePort())
  const url = `http://127.0.0.1:${port}`
  const sandbox = fleet.start(['sandbox', '--webhook-url', `${url}/api/billing/webhook`])
  const environment = { PROVIDER_BASE_URL: await sandbox.started() }
  const serve = fleet.start(['serve', '--no-worker'], { ...environment, PORT: port })
  await serve.started()
  await fleet.start(['work'], environment).started()
  return { url, sandbox, environment, client: openClient({ url: () => url, token: fleet.token }), fleet }
}

/** Each kind of slice goes first in turn, so that neither always finds the warmer caches. */
async function runRound(
  stage: Stage,
  nth: number,
  measure: () => Promise<Record<Group, number>>,
): Promise<Round> {
  const kind = kinds[nth % kinds.length]!
  const wellFirst = Math.floor(nth / kinds.length) % 2 === 0
  const before = wellFirst ? await measure() : undefined
  await startHang(stage, kind)
  const hanging = await measure()
  await endHang(stage, kind)
  const unsettled = await listUnsettled(stage.fleet.db)
  const settledMs = await untilSettled(stage.fleet.db, settledWithinMs, unsettled)
  return { kind, well: before ?? (await measure()), hanging, leftUnsettled: unsettled.length, settledMs }
}

/** `stopped`: the whole provider stands still. `silent`: it takes calls, acts on half of them and answers none. */
async function startHang({ client, sandbox }: Stage, kind: Kind): Promise<void> {
  if (kind === 'stopped') return void sandbox.child.kill('SIGSTOP')
  const body = { timeout_before_rate: 0.5, timeout_after_rate: 0.5, lookup_error_rate: 1 }
  await client.ask('POST /api/sandbox/provider/faults', { body, expect: [200] })
}

async function endHang({ client, sandbox }: Stage, kind: Kind): Promise<void> {
  if (kind === 'stopped') return void sandbox.child.kill('SIGCONT')
  await client.ask('POST /api/sandbox/provider/faults', { body: {}, expect: [200] })
}

function checksOf(rounds: readonly Round[]): Check[] {
  const speed = (group: Group): Check => {
    const ratio = median(rounds.map(({ well, hanging }) => hanging[group] / well[group]))
    const rate = (slice: 'well' | 'hanging') => median(rounds.map((round) => round[slice][group])).toFixed(0)
    return {
      what: `speed of ${group} routes while the provider hangs`,
      measured: `${ratio.toFixed(2)} of ${rate('well')} a second (${rate('hanging')})`,
      goal: `median of ratios >= ${speedKept}`,
      held: ratio >= speedKept,
    }
  }
  const slowest = Math.max(...rounds.map(({ settledMs }) => settledMs ?? Number.POSITIVE_INFINITY))
  const left = rounds.reduce((sum, { leftUnsettled }) => sum + leftUnsettled, 0)
  return [
    speed('batch'),
    speed('read'),
    {
      what: 'charges and refunds that a hang left unsettled',
      measured: `${left} in ${rounds.length} hangs`,
      goal: 'at least one a hang, or it proves nothing',
      held: rounds.every(({ leftUnsettled }) => leftUnsettled > 0),
    },
    {
      what: 'all of them settled after the hang ended',
      measured: `within ${(slowest / 1000).toFixed(1)} s`,
      goal: `within ${settledWithinMs / 1000} s`,
      held: slowest <= settledWithinMs,
    },
  ]
}

function describe({ kind, well, hanging, leftUnsettled, settledMs }: Round): string {
  const ratio = (group: Group) => (hanging[group] / well[group]).toFixed(2)
  const settled = settledMs === undefined ? 'not settled' : `settled in ${(settledMs / 1000).toFixed(1)} s`
  return `provider ${kind}: batch ${ratio('batch')}, read ${ratio('read')}, ${leftUnsettled} unknown, ${settled}`
}

/** By the provider's own book: more was kept for an invoice than it asked for. */
async function countPaidTwice(fleet: Fleet): Promise<number> {
  const { rows } = await fleet.db.query(`
    select i.id
    from sandbox.payment s
    join billing.payment p on p.provider_reference = s.reference
    join billing.invoice i on i.id = p.invoice_id
    where s.status = 'paid'
    group by i.id, i.amount_due
    having sum(s.amount - s.amount_refunded) > i.amount_due`)
  return rows.length
}

async function countCharges(fleet: Fleet): Promise<Record<string, number>> {
  const { rows } = await fleet.db.query(
    'select status, count(*)::int as count from billing.payment group by status',
  )
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
}

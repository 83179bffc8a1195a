import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { median } from '../bench/result.ts'
import type { Stage, Started } from '../bench/stage.ts'

/**
 * How fast one checkout subscribes and renews beside another: `npx tsx tools/compare-commits.ts BEFORE AFTER [--rounds N]`.
 * Both services are up at once and work in turn, in small pieces, so that whatever else the machine does falls on both. The
 * figures are medians of the rounds' own ratios, speed after to speed before, 1 = equal: by the clock, and by the processor
 * time that service and database took together, which a busy machine hardly disturbs (Linux only). Both need `npm ci`.
 */
const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '15' } },
  allowPositionals: true,
})
if (positionals.length !== 2 || !(Number(values.rounds) >= 1)) {
  process.stderr.write('Give two checkouts: compare-commits BEFORE AFTER [--rounds N]\n')
  process.exit(2)
}
const stored = 12_000
const renewedAtOnce = 1_000
const rounds = Number(values.rounds)

type Side = { readonly stage: Stage; readonly api: Started; asked: number }
type Cost = { readonly ms: number; readonly cpuMs: number }
const sides: Side[] = []
try {
  for (const checkout of positionals) sides.push(await open(resolve(checkout)))
  const [before, after] = sides as [Side, Side]
  await compare('subscribe', before, after, subscribe)
  await compare('renewal', before, after, renew)
} finally {
  for (const { stage } of sides) await stage.close()
}

async function open(checkout: string): Promise<Side> {
  const load = (file: string) => import(pathToFileURL(resolve(checkout, 'bench', file)).href)
  const { openStage } = (await load('stage.ts')) as typeof import('../bench/stage.ts')
  const { storeSubscriptions } = (await load(
    'stored-subscriptions.ts',
  )) as typeof import('../bench/stored-subscriptions.ts')
  const stage = await openStage()
  const api = await stage.start('./renewal-process.ts')
  await storeSubscriptions(stage, api, stored)
  const side = { stage, api, asked: 0 }
  for (let at = 0; at < 5; at++) await subscribe(side)
  await renew(side)
  // As the server does by itself within a minute: until then sessions keep plans that were made for a ledger of one page.
  await stage.db.query('analyze')
  await renew(side)
  return side
}

async function compare(
  what: string,
  before: Side,
  after: Side,
  measure: (side: Side) => Promise<Cost>,
): Promise<void> {
  const [were, are]: [Cost[], Cost[]] = [[], []]
  for (let round = 0; round < rounds; round++) {
    if (round % 2 === 0) were.push(await measure(before))
    are.push(await measure(after))
    if (round % 2 === 1) were.push(await measure(before))
  }
  for (const [unit, of] of [
    ['ms', (cost: Cost) => cost.ms],
    ['ms of processor time', (cost: Cost) => cost.cpuMs],
  ] as const) {
    const ratios = are.map((one, at) => of(were[at]!) / of(one)).sort((a, b) => a - b)
    const quantile = (share: number) => ratios[Math.floor((ratios.length - 1) * share)]!.toFixed(3)
    process.stdout.write(
      `${what}: ${median(were.map(of)).toFixed(2)} ${unit} before, ${median(are.map(of)).toFixed(2)} after; ` +
        `speed ${median(ratios).toFixed(3)} of before (middle half ${quantile(0.25)} to ${quantile(0.75)}, ${rounds} rounds)\n`,
    )
  }
}

/** The median of forty, one after the other. */
async function subscribe(side: Side): Promise<Cost> {
  const count = 40
  const ms: number[] = []
  const cpuBefore = await cpuMs(side)
  for (let at = 0; at < count; at++) {
    const account = `compared_${side.asked++}`
    const startedAt = performance.now()
    const answer = await fetch(`http://127.0.0.1:${side.api.port}/api/billing/subscribe`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${side.api.token}`,
        'content-type': 'application/json',
        'idempotency-key': account,
      },
      body: JSON.stringify({
        account_id: account,
        plan_id: 'pro-monthly',
        payment_method: { billing_key: 'bk_test_ok' },
      }),
    })
    await answer.arrayBuffer()
    ms.push(performance.now() - startedAt)
    if (answer.status !== 201) throw new Error(`A subscribe was answered ${answer.status}.`)
  }
  return { ms: median(ms), cpuMs: ((await cpuMs(side)) - cpuBefore) / count }
}

async function renew(side: Side): Promise<Cost> {
  await clean(side)
  const cpuBefore = await cpuMs(side)
  side.api.process.send(renewedAtOnce)
  const [perSecond] = (await once(side.api.process, 'message')) as [number]
  return { ms: 1000 / perSecond, cpuMs: ((await cpuMs(side)) - cpuBefore) / renewedAtOnce }
}

/** The server's own cleaning comes once a minute, to one side earlier than to the other; what it takes away slows reading. */
async function clean({ stage }: Side): Promise<void> {
  const { rows } = await stage.db.query(
    'select schemaname, relname from pg_stat_user_tables where n_dead_tup > 0',
  )
  for (const { schemaname, relname } of rows)
    await stage.db.query(`vacuum analyze ${pg.escapeIdentifier(schemaname)}.${pg.escapeIdentifier(relname)}`)
}

/** What the service and the database's processes have used so far. */
async function cpuMs({ stage, api }: Side): Promise<number> {
  const found = await stage.db.query('select pg_backend_pid() as pid')
  const postmaster = Number(statOf(found.rows[0].pid)[1])
  const children = readdirSync('/proc').filter(
    (pid) => /^\d+$/.test(pid) && Number(statOf(pid)[1]) === postmaster,
  )
  return [api.process.pid!, postmaster, ...children.map(Number)].reduce(
    (sum, pid) => sum + usedMs(statOf(pid)),
    0,
  )
}

/** The fields after the command's name: state, parent, … */
function statOf(pid: number | string): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}

/** User and system time, also of children that have ended, in ticks of 10 ms. */
function usedMs(stat: string[]): number {
  return stat.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * 10, 0)
}

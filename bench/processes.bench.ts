import type { ChildProcess } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../test/free-port.ts'
import { startBuilt, stopBuilt } from './built-serve.ts'
import type { BenchResult } from './result.ts'
import { sized } from './size.ts'
import { openStage, type Stage } from './stage.ts'
import { storeSubscriptions } from './stored-subscriptions.ts'
import { storeYearOf } from './stored-volumes.ts'

const processes = [1, 2, 4] as const
/** Of an equal share, what each process does at least. What is small is over before all have looked round. */
const leastShare = sized(0.25, 0)

/** One, two and four processes of `serve` and of `work` on one PostgreSQL: what they do together, each its share and nothing twice. */
export async function bench(): Promise<BenchResult[]> {
  return [...(await lookups()), ...(await renewals())]
}

async function lookups(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    await storeYearOf(stage.db, 'shoes')
    const rates: number[] = []
    const apis = []
    for (const count of processes) {
      while (apis.length < count) apis.push(await stage.start('./api-process.ts'))
      const reports = await stage.loadAll(
        apis.map((api) => ({
          port: api.port,
          connections: 64 / count,
          seconds: sized(10, 1),
          method: 'GET',
          path: '/api/batch/volumes/shoes?workspace_id=ws_{n}',
          spread: 20_000,
          token: api.token!,
        })),
      )
      const refused = reports.flatMap(({ statuses }) => Object.keys(statuses)).filter((one) => one !== '200')
      if (refused.length > 0) throw new Error(`Not all were answered: ${refused.join()}`)
      requireShared(reports.map(({ perSecond }) => perSecond))
      rates.push(reports.reduce((sum, { perSecond }) => sum + perSecond, 0))
    }
    return compared('lookups by', 'serve', 'requests/s', rates)
  } finally {
    await stage.close()
  }
}

async function renewals(): Promise<BenchResult[]> {
  const each = sized(4_000, 200)
  const stage = await openStage()
  try {
    const api = await stage.start('./renewal-process.ts')
    await storeSubscriptions(stage, api, each * processes.length)
    const rates: number[] = []
    for (const [at, count] of processes.entries()) {
      const workers = await Promise.all(Array.from({ length: count }, () => startWork(stage)))
      try {
        await until(
          stage,
          `select count(*) >= ${count} as done from platform.worker where beat_at > now() - interval '5 seconds'`,
        )
        await stage.db.query(
          `update billing.subscription
           set next_billing_at = now() - interval '1 second', anchor = now() - interval '1 second' - (last_k + 1) * interval '1 month'
           where id like 'sub_stored_%' and right(id, 8)::int between $1 and $2`,
          [at * each + 1, (at + 1) * each],
        )
        const startedAt = performance.now()
        // Asked by indexes: counting what is paid, again and again, would take from what is measured.
        await until(
          stage,
          `select not exists (select from billing.subscription where status = 'active' and next_billing_at <= now())
             and not exists (select from billing.payment where status in ('sending', 'unknown')) as done`,
        )
        rates.push(each / ((performance.now() - startedAt) / 1000))
        requireShared(await Promise.all(workers.map(countCharges)))
      } finally {
        for (const { process } of workers) await stopBuilt(process)
      }
    }
    await requireNothingTwice(stage, each * processes.length)
    return compared('renewals by', 'work', 'renewals/s', rates)
  } finally {
    await stage.close()
  }
}

type Worker = { readonly process: ChildProcess; readonly metricsPort: number }

async function startWork(stage: Stage): Promise<Worker> {
  const metricsPort = await freePort()
  return {
    process: startBuilt(stage, ['work'], { settings: { METRICS_PORT: String(metricsPort) } }),
    metricsPort,
  }
}

/** How many charges a worker sent, as its own metrics tell; one that got no answer in time is sent again. */
async function countCharges({ metricsPort }: Worker): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  const counts = metrics.matchAll(/^rankledger_provider_answers_total\{[^}]*call="charge"[^}]*\} (\d+)$/gm)
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
}

function requireShared(done: readonly number[]): void {
  const all = done.reduce((sum, one) => sum + one, 0)
  if (all === 0 || done.some((one) => one < (all / done.length) * leastShare))
    throw new Error(`The work was not shared: ${done.map(Math.round).join(', ')}`)
}

async function until(stage: Stage, question: string): Promise<void> {
  for (let tries = 0; tries < 60_000; tries++) {
    if ((await stage.db.query(question)).rows[0].done) return
    await sleep(20)
  }
  throw new Error(`It never came to: ${question}`)
}

/** Each subscription was charged once, by our book and by the provider's. */
async function requireNothingTwice(stage: Stage, expected: number): Promise<void> {
  const { rows } = await stage.db.query(
    `select (select count(*) from billing.period where subscription_id like 'sub_stored_%')::int as periods,
       (select count(*) from billing.payment where account_id like 'stored_%')::int as payments,
       (select count(*) from sandbox.payment where account_id like 'stored_%')::int as at_provider`,
  )
  const found = rows[0] as Record<string, number>
  if (Object.values(found).some((count) => count !== expected))
    throw new Error(`${expected} were due, and there are ${JSON.stringify(found)}`)
}

function compared(what: string, command: string, unit: string, rates: readonly number[]): BenchResult[] {
  return processes.map((count, at) => ({
    promise: `${what} ${count} ${command}`,
    unit,
    ours: rates[at]!,
    floor: rates[0]!,
    ratio: rates[at]! / rates[0]!,
    goal: 'work shared, nothing twice',
  }))
}

import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../test/free-port.ts'
import { openBareRenewals } from './bare-renewals.ts'
import { startBuilt, startBuiltServe, stopBuilt } from './built-serve.ts'
import { cpuMsOf, cpuOfServer } from './process-cpu.ts'
import { type BenchResult, median } from './result.ts'
import { sized } from './size.ts'
import { openStage, type Stage } from './stage.ts'
import { storeSubscriptions } from './stored-subscriptions.ts'

const each = sized(1_500, 100)
const stored = each * 8
const rounds = sized(3, 1)

type Cpu = { readonly programs: number; readonly server: number }

/**
 * How long a renewal keeps a core busy: of the service (`work`, which charges and records, and `serve`, which takes the
 * notification) and of its PostgreSQL, beside both ends of the bare statements. The provider has a process and a PostgreSQL of
 * its own, as in the world. Processor time says the same however many cores there are; beside other work it is a little more.
 */
export async function cpuOfRenewals(): Promise<BenchResult[]> {
  const [servePort, provider] = [String(await freePort()), await openStage()]
  const { WEBHOOK_SECRETS } = provider.environment
  const notified = `http://127.0.0.1:${servePort}/api/billing/webhook`
  const simulator = await provider.start('./simulator-process.ts', ['sandbox', notified])
  const stage = await openStage({
    PORT: servePort,
    WEBHOOK_SECRETS: WEBHOOK_SECRETS!,
    PROVIDER_BASE_URL: `http://127.0.0.1:${simulator.port}`,
    PROVIDER_SECRET_KEY: 'bench',
  })
  const bare = openBareRenewals(stage.url, stored)
  try {
    const serve = await startBuiltServe(stage, ['--no-worker'])
    await storeSubscriptions(stage, serve, stored)
    const work = startBuilt(stage, ['work'])
    const serverMs = await cpuOfServer(stage)
    const costOf = async (renewAll: () => Promise<unknown>, programsMs: () => number): Promise<Cpu> => {
      const [programs, server] = [programsMs(), serverMs()]
      await renewAll()
      return { programs: (programsMs() - programs) / each, server: (serverMs() - server) / each }
    }
    const ours = () => cpuMsOf(work.pid!) + cpuMsOf(serve.process.pid!)
    const measured: { ours: Cpu; floor: Cpu }[] = []
    // Everybody has connections, and its code is compiled, before anything counts.
    await renewEach(stage, 0)
    await bare(each)
    for (let round = 1; round <= rounds; round++)
      measured.push({
        ours: await costOf(() => renewEach(stage, round), ours),
        floor: await costOf(
          () => bare(each),
          () => cpuMsOf(process.pid),
        ),
      })
    await stopBuilt(work)
    await stopBuilt(serve.process)
    const compared = (promise: string, of: (cpu: Cpu) => number): BenchResult => ({
      promise,
      unit: 'CPU ms',
      ours: median(measured.map(({ ours }) => of(ours))),
      floor: median(measured.map(({ floor }) => of(floor))),
      ratio: median(measured.map(({ ours, floor }) => of(ours) / of(floor))),
      goal: 'told in docs/scaling.md',
    })
    return [
      compared('a renewal, processor time of work and serve', ({ programs }) => programs),
      compared('a renewal, processor time of PostgreSQL', ({ server }) => server),
    ]
  } finally {
    await bare.close()
    await stage.close()
    await provider.close()
  }
}

/** Makes the next of the stored subscriptions due, and waits until all is charged, recorded and heard from the provider. */
async function renewEach({ db }: Stage, round: number): Promise<void> {
  const { rows } = await db.query('select count(*)::int as heard from billing.webhook')
  await db.query(
    `update billing.subscription
     set next_billing_at = now() - interval '1 second', anchor = now() - interval '1 second' - (last_k + 1) * interval '1 month'
     where id like 'sub_stored_%' and right(id, 8)::int between $1 and $2`,
    [round * each + 1, (round + 1) * each],
  )
  // It is asked seldom, and by indexes: what asking costs counts as ours.
  const isOver = async () => {
    const { rows: found } = await db.query(
      `select not exists (select from billing.subscription where status = 'active' and next_billing_at <= now())
          and not exists (select from billing.payment where status in ('sending', 'unknown'))
          and not exists (select from billing.webhook where status = 'waiting')
          and (select count(*) from billing.webhook) >= $1 as over`,
      [rows[0].heard + each],
    )
    return found[0].over
  }
  for (let tries = 0; tries < 1_200; tries++) {
    if (await isOver()) return
    await sleep(500)
  }
  throw new Error('Not all were renewed within ten minutes.')
}

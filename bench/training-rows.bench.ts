import { cpuSecondsOf } from '../test/process-cpu.ts'
import { startBuiltServe } from './built-serve.ts'
import { count, onTwoStages } from './growing.ts'
import { memoryOf } from './process-memory.ts'
import { type BenchResult, interleave } from './result.ts'
import { runTask } from './run-task.ts'
import { sized } from './size.ts'
import { storeWanderingRanks } from './wandering-ranks.ts'

const DAYS = 200
const FEW = sized(5_000, 100)
const MANY = sized(100_000, 400)
const MOST_MEGABYTES = 600

type Cost = { seconds: number; cpuSeconds: number; megabytes: number }

/** A whole training from stored ranks, from the trigger to the end of the run, in `serve` as it is built, of many ranks and of few. */
export async function bench(): Promise<BenchResult[]> {
  return onTwoStages(async (open) => {
    const filled = async (keywords: number) => {
      const stage = await open()
      await storeWanderingRanks(stage.db, { keywords, days: DAYS })
      const costs: Cost[] = []
      const train = async () => {
        // With an active model the same ranks train nothing.
        await stage.db.query(`update batch.model set status = 'retired' where status = 'active'`)
        // A process of its own, so that what it holds is what this training takes.
        const serve = await startBuiltServe(stage)
        const { pid } = serve.process
        try {
          const before = cpuSecondsOf(pid!)
          const { seconds } = await runTask(stage, serve, 'classifier')
          const cost = { seconds, cpuSeconds: cpuSecondsOf(pid!) - before, megabytes: memoryOf(pid!, 'peak') }
          process.stderr.write(`${count(keywords * DAYS)} ranks: ${JSON.stringify(cost)}\n`)
          costs.push(cost)
          return cost
        } finally {
          serve.process.kill('SIGKILL')
        }
      }
      return { train, most: (which: keyof Cost) => Math.max(...costs.map((cost) => cost[which])) }
    }
    const [few, many] = [await filled(FEW), await filled(MANY)]
    const measured = await interleave({
      rounds: 3,
      ours: async () => (await many.train()).seconds,
      floor: async () => (await few.train()).seconds,
    })
    const peak = (rows: number, megabytes: number): BenchResult => ({
      promise: `training on ${count(rows)} stored ranks, peak memory of API and worker together`,
      unit: 'MB',
      ours: megabytes,
      floor: MOST_MEGABYTES,
      ratio: megabytes / MOST_MEGABYTES,
      goal: `at most ${MOST_MEGABYTES} MB`,
    })
    const promise = `training on ${count(MANY * DAYS)} stored ranks, not ${count(FEW * DAYS)}`
    const [ours, floor] = [many.most('cpuSeconds'), few.most('cpuSeconds')]
    return [
      { promise, unit: 's', ...measured, goal: 'ratio <= 2' },
      {
        promise: `${promise}: processor time of API and worker`,
        unit: 'CPU s',
        ours,
        floor,
        ratio: ours / floor,
        goal: 'ratio <= 2',
      },
      peak(FEW * DAYS, few.most('megabytes')),
      peak(MANY * DAYS, many.most('megabytes')),
    ]
  })
}

import { sized } from './size.ts'
import { openStage, type Stage, type Started } from './stage.ts'

/** What a unit of work may cost when much is stored, beside the same when little is. */
export const growthGoal = 'ratio <= 1.25'

export const count = (n: number) => n.toLocaleString('en')

/** What one request costs in µs while several connections ask as fast as they are answered. */
export async function costOf(
  stage: Stage,
  api: Started,
  path: string,
  order: { spread: number; connections?: number; method?: string; body?: string },
): Promise<number> {
  const { perSecond, statuses } = await stage.load({
    port: api.port,
    connections: 16,
    seconds: sized(3, 1),
    method: 'GET',
    ...order,
    path,
    token: api.token!,
  })
  if (Object.keys(statuses).join() !== '200')
    throw new Error(`Not all were answered: ${JSON.stringify(statuses)}`)
  return 1_000_000 / perSecond
}

/** Stages for both sizes, which stand at the same time. */
export async function onTwoStages<T>(work: (open: () => Promise<Stage>) => Promise<T>): Promise<T> {
  const stages: Stage[] = []
  try {
    return await work(async () => {
      const stage = await openStage()
      stages.push(stage)
      return stage
    })
  } finally {
    for (const stage of stages) await stage.close()
  }
}

import type { BatchApp } from '../app.ts'
import { aggregateVolumes } from '../volumes/aggregate-volumes.ts'
import { workRun } from './work-run.ts'

/** A run that works out the monthly volumes again that observations have changed. */
export async function workAggregation(app: BatchApp, { runId }: { runId: string }): Promise<void> {
  await workRun(app, runId, async (run) => {
    const { keywords, months } = await aggregateVolumes(app, ({ done, of }) =>
      run.report(of === 0 ? 1 : done / of),
    )
    return async () => ({ metrics: { keywords, months } })
  })
}

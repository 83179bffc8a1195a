import { aggregateVolumes } from '../src/batch/volumes/aggregate-volumes.ts'
import {
  clearDirtyMonths,
  listDirtyMonths,
  listObservationsOf,
  storeMonthlyVolumes,
} from '../src/batch/volumes/volume-rows.ts'
import { openService } from './open-service.ts'

/** Aggregates what is marked, by our use-case or by its bare statements, and says how many seconds that took. */
const { app } = await openService()

process.on('message', async (kind: 'ours' | 'bare') => {
  const startedAt = performance.now()
  if (kind === 'ours') await aggregateVolumes(app.batch)
  else await bare()
  process.send!((performance.now() - startedAt) / 1000)
})
process.send!({ port: 0 })

async function bare(): Promise<void> {
  const { db } = app.batch
  for (let dirty = await listDirtyMonths(db, undefined, 500); dirty.length > 0; ) {
    await listObservationsOf(db, dirty)
    const months = dirty.map(({ key, source, month }) => ({
      key,
      source,
      month,
      volume: 1,
      volumeMin: 1,
      volumeMax: 1,
      quality: 'measured' as const,
      daysObserved: 30,
      atMonthEnd: null,
    }))
    await db.transaction().execute(async (tx) => {
      await clearDirtyMonths(tx, dirty)
      await storeMonthlyVolumes(tx, months, new Date())
    })
    dirty = await listDirtyMonths(db, dirty.at(-1), 500)
  }
}

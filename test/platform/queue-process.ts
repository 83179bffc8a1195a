import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { openDb } from '../../src/platform/database/db.ts'
import { startQueueWorker } from '../../src/platform/queue/queue-worker.ts'
import { openPatientPool } from '../patience.ts'

/**
 * A worker process for the queue's tests, to be killed and stopped from outside. `test.deed` notes that it began, takes
 * its time, and settles behind the fence. `test.poison` ends the process.
 */
const [url, tookMs] = [process.argv[2]!, Number(process.argv[3])]
const pool = openPatientPool(url, 10, 'queue test')
const db = openDb<object>(pool)

startQueueWorker({
  url,
  sessionUrl: url,
  concurrency: 4,
  jobs: {
    'test.deed': async (payload, fence) => {
      const { id } = payload as { id: string }
      await sql`insert into public.begun (id, pid) values (${id}, ${process.pid})`.execute(db)
      await sleep(tookMs)
      await db.transaction().execute(async (tx) => {
        await fence(tx)
        await sql`insert into public.done (id, pid) values (${id}, ${process.pid})`.execute(tx)
      })
    },
    'test.poison': async () => {
      process.kill(process.pid, 'SIGKILL')
      await sleep(1_000)
    },
  },
  events: {
    onDone() {},
    onFailed: (name, id, attempt, error) =>
      process.stdout.write(`failed ${name} ${id} ${attempt} ${(error as Error).name}\n`),
    onDead: (name) => process.stdout.write(`dead ${name}\n`),
    onLeaseLost: () => process.stdout.write('lease lost\n'),
  },
})
process.stdout.write('working\n')

import { type ChildProcess, spawn } from 'node:child_process'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { openDb } from '../../src/platform/database/db.ts'
import { enqueue, listDeadJobs, PoisonedJob } from '../../src/platform/queue/queue.ts'
import { forgetFreedJobs, freeDeadWorkers, reviveDeadJob } from '../../src/platform/queue/queue-schema.ts'
import {
  type QueueWorker,
  startQueueWorker,
  type WorkerOptions,
} from '../../src/platform/queue/queue-worker.ts'
import { type Bundle, bundle } from '../bundle.ts'
import { openWorld, type World } from '../world.ts'

// Whole processes are started and killed here, which takes its time on a busy machine.

let world: World
let program: Bundle
const processes: ChildProcess[] = []
const workers: QueueWorker[] = []

beforeAll(async () => {
  program = await bundle(new URL('./queue-process.ts', import.meta.url))
  world = await openWorld()
  await world.query('create table public.begun (id text not null, pid integer not null)')
  await world.query('create table public.done (id text primary key, pid integer not null)')
})
afterEach(async () => {
  for (const one of processes.splice(0)) one.kill('SIGKILL')
  await Promise.all(workers.splice(0).map((worker) => worker.stop()))
  await world.query('delete from platform.worker')
  await world.query('delete from graphile_worker._private_jobs')
  await world.query('truncate public.begun, public.done, platform.freed_job')
})
afterAll(async () => {
  await world.close()
  program.remove()
})

function startProcess(tookMs: number): ChildProcess & { said: string[] } {
  const child = spawn(process.execPath, [program.file, world.databaseUrl, String(tookMs)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  processes.push(child)
  const said: string[] = []
  child.stdout.on('data', (chunk: Buffer) => said.push(...chunk.toString().trim().split('\n')))
  return Object.assign(child, { said })
}

function startHere(jobs: WorkerOptions['jobs'], events: Partial<WorkerOptions['events']> = {}): void {
  workers.push(
    startQueueWorker({
      url: world.databaseUrl,
      sessionUrl: world.databaseUrl,
      concurrency: 4,
      jobs,
      events: { onDone() {}, onFailed() {}, onDead() {}, onLeaseLost() {}, ...events },
    }),
  )
}

const db = () => openDb<object>(world.app.pool)
const enqueueDeeds = (ids: string[]) =>
  db()
    .transaction()
    .execute(async (tx) => {
      for (const id of ids) await enqueue(tx, 'test.deed', { id })
    })
const begun = () =>
  world.query<{ id: string; pid: number }>('select id, pid from public.begun order by id, pid')
const done = () => world.query<{ id: string; pid: number }>('select id, pid from public.done order by id')

test('a job exists exactly if the transaction that wanted it committed', async () => {
  const seen: unknown[] = []
  startHere({ 'test.note': async (payload) => void seen.push(payload) })
  await db()
    .transaction()
    .execute(async (tx) => {
      await enqueue(tx, 'test.note', { id: 'rolled back' })
      throw new Error('changed my mind')
    })
    .catch(() => {})
  await db()
    .transaction()
    .execute((tx) => enqueue(tx, 'test.note', { id: 'committed' }))
  await expect.poll(() => seen).toEqual([{ id: 'committed' }])
})

test('the jobs of a killed worker are taken up by another within 15 seconds, each settled once', {
  retry: 3,
}, async () => {
  const first = startProcess(60_000)
  await enqueueDeeds(['a', 'b', 'c'])
  await expect.poll(begun).toHaveLength(3)
  // The other is there before, so that what is timed is how soon a death is seen, not how soon a process starts.
  const other = startProcess(0)
  await expect.poll(() => other.said).toContain('working')
  first.kill('SIGKILL')
  const killedAt = performance.now()
  await expect
    .poll(
      async () => {
        await freeDeadWorkers(world.app.pool)
        return (await done()).map(({ id }) => id)
      },
      { timeout: 15_000, interval: 500 },
    )
    .toEqual(['a', 'b', 'c'])
  expect(performance.now() - killedAt).toBeLessThan(15_000)
  const attempts = await world.query('select 1 from graphile_worker.jobs')
  expect(attempts).toHaveLength(0)

  expect((await world.query('select 1 from platform.freed_job')).length).toBeGreaterThan(0)
  await forgetFreedJobs(world.app.pool)
  expect(await world.query('select 1 from platform.freed_job')).toHaveLength(0)
})

test('a worker that sleeps through its lease is fenced when it wakes, and the work is settled once', async () => {
  const sleeper = startProcess(3_000)
  await enqueueDeeds(['x'])
  await expect.poll(begun).toHaveLength(1)
  sleeper.kill('SIGSTOP')
  await expect.poll(() => freeDeadWorkers(world.app.pool), { interval: 500 }).toBe(1)
  const other = startProcess(0)
  await expect.poll(done).toEqual([{ id: 'x', pid: other.pid }])
  sleeper.kill('SIGCONT')
  await expect.poll(() => sleeper.said.join()).toMatch(/StaleWorker/)
  expect(await done()).toEqual([{ id: 'x', pid: other.pid }])
  await expect.poll(() => sleeper.said.join()).toMatch(/lease lost/)
})

test('a poisoned job dies at once, is listed, can be revived, and blocks nobody', async () => {
  const dead: string[] = []
  const seen: unknown[] = []
  let cured = false
  startHere(
    {
      'test.poison': async () => {
        if (!cured) throw new PoisonedJob('never')
        seen.push('cured')
      },
      'test.note': async (payload) => void seen.push(payload),
    },
    { onDead: (name) => dead.push(name) },
  )
  await db()
    .transaction()
    .execute(async (tx) => {
      await enqueue(tx, 'test.poison', { id: 'person@example.com' })
      await enqueue(tx, 'test.note', { id: 'after' })
    })
  await expect.poll(() => [dead, seen]).toEqual([['test.poison'], [{ id: 'after' }]])
  await expect.poll(() => listDeadJobs(db(), 10)).toHaveLength(1)
  const [job] = await listDeadJobs(db(), 10)
  expect(job).toMatchObject({ name: 'test.poison', last_error: expect.stringContaining('PoisonedJob') })
  cured = true
  expect(await reviveDeadJob(db(), job!.id)).toBe(true)
  await world.query("select pg_notify('jobs:insert', '{\"count\":1}')")
  await expect.poll(() => seen).toContain('cured')
})

test('a job that kills its worker every time ends as a dead job', async () => {
  await db()
    .transaction()
    .execute((tx) => enqueue(tx, 'test.poison', { id: 'x' }, { maxAttempts: 2 }))
  let victim = startProcess(0)
  let victims = 1
  // Looked for all the time, as every process of the service does: a question that was under way when its process died
  // may take the job up once more.
  const lookAfter = async () => {
    await freeDeadWorkers(world.app.pool)
    await world.query('update graphile_worker._private_jobs set run_at = now() where locked_at is null')
    if (victim.signalCode === 'SIGKILL') {
      victim = startProcess(0)
      victims++
    }
    return (await listDeadJobs(db(), 10)).length
  }
  await expect.poll(lookAfter, { interval: 200 }).toBe(1)
  expect(victims).toBeGreaterThan(2)
})

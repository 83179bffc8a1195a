import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDb } from '../../src/platform/database/db.ts'
import { enqueue } from '../../src/platform/queue/queue.ts'
import { freeDeadWorkers } from '../../src/platform/queue/queue-schema.ts'
import { startQueueWorker, type WorkerOptions } from '../../src/platform/queue/queue-worker.ts'
import { openLease } from '../../src/platform/queue/worker-lease.ts'
import { openProxy } from '../chaos/proxy.ts'
import { urlThrough } from '../postgres.ts'
import { openWorld, type World } from '../world.ts'

// A rejection that nobody handles ends a process, so the queue's library must leave none when its connections break.

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const unhandled: unknown[] = []
const note = (error: unknown) => unhandled.push(error)
let listeners: NodeJS.UnhandledRejectionListener[]
beforeEach(() => {
  listeners = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', note)
})
afterEach(() => {
  process.off('unhandledRejection', note)
  for (const listener of listeners) process.on('unhandledRejection', listener)
  expect(unhandled.splice(0)).toEqual([])
})

function startWorker(more: Partial<WorkerOptions> & { onLeaseLost?: () => void }) {
  const { onLeaseLost = () => {}, ...options } = more
  return startQueueWorker({
    url: world.databaseUrl,
    sessionUrl: world.databaseUrl,
    jobs: {},
    concurrency: 1,
    events: { onDone() {}, onFailed() {}, onDead() {}, onLeaseLost },
    ...options,
  })
}

test('a worker that stops while its link to the database breaks ends in peace', async () => {
  let listens: () => void = () => {}
  const listening = new Promise<void>((resolve) => {
    listens = resolve
  })
  const port = Number(new URL(world.databaseUrl).port)
  const link = await openProxy({
    target: () => port,
    tap: () => ({
      sent(bytes) {
        if (!bytes.includes('LISTEN "jobs:insert"')) return
        // The question arrives, its answer does not.
        link.suffer('half_open')
        listens()
      },
    }),
  })
  const worker = startWorker({ url: urlThrough(world.databaseUrl, link) })
  await listening
  const stopped = worker.stop()
  // Long enough for the library to be waiting for its connection; then that breaks.
  await sleep(300)
  link.heal()
  await stopped
  await link.close()
})

test('a lease that does not get its lock leaves no session behind', async () => {
  await world.query(`create function public.pg_advisory_lock(bigint) returns void language plpgsql as $$
    begin raise exception 'planted' using errcode = '53200'; end $$`)
  const url = new URL(world.databaseUrl)
  url.searchParams.set('options', '-c search_path=public,pg_catalog')
  await expect(openLease(url.toString())).rejects.toMatchObject({ code: '53200' })
  const sessions = () =>
    world.query(
      "select 1 from pg_stat_activity where datname = current_database() and application_name = 'rankledger worker lease'",
    )
  await expect.poll(sessions, { timeout: 10_000 }).toEqual([])
})

test.each([
  ['done', 'delete', async () => {}],
  [
    'failed',
    'update',
    async () => {
      throw new Error('not yet')
    },
  ],
] as const)(
  'a job that is %s while its connection breaks is taken up again, by a new lease',
  async (_, how, work) => {
    // Whoever writes down how a job ended loses its connection, until the worker has started over.
    await world.query(`create function public.cut() returns trigger language plpgsql as $$
    begin
      perform pg_terminate_backend(pg_backend_pid()) where current_setting('application_name') = 'rankledger queue';
      return coalesce(new, old);
    end $$`)
    const when = how === 'update' ? 'when (old.locked_by is not null and new.locked_by is null)' : ''
    await world.query(
      `create trigger cut before ${how} on graphile_worker._private_jobs for each row ${when} execute function public.cut()`,
    )
    let runs = 0
    let starts = 0
    const job = async () => {
      if (++runs === 1) await work()
    }
    const worker = startWorker({ jobs: { deed: job }, onLeaseLost: () => void starts++ })
    const db = openDb<object>(world.app.pool)
    await db.transaction().execute((tx) => enqueue(tx, 'deed', {}))
    await expect.poll(() => starts + unhandled.length).toBeGreaterThan(0)
    expect(unhandled).toEqual([])
    await world.query('drop function public.cut cascade')
    await expect
      .poll(async () => {
        await freeDeadWorkers(world.app.pool)
        return (await world.query('select 1 from graphile_worker._private_jobs')).length
      })
      .toBe(0)
    await worker.stop()
    expect(runs).toBe(2)
  },
)

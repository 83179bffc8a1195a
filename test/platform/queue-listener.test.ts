import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startQueueWorker } from '../../src/platform/queue/queue-worker.ts'
import { openProxy } from '../chaos/proxy.ts'
import { urlThrough } from '../postgres.ts'
import { createDatabase, dropDatabase } from '../world.ts'

let url: string
beforeAll(async () => {
  url = await createDatabase()
})
afterAll(() => dropDatabase(url))

test('a worker that stops while its link to the database breaks ends in peace', async () => {
  let listens: () => void = () => {}
  const listening = new Promise<void>((resolve) => {
    listens = resolve
  })
  const port = Number(new URL(url).port)
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
  const unhandled: unknown[] = []
  const note = (error: unknown) => unhandled.push(error)
  const before = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', note)

  const worker = startQueueWorker({
    url: urlThrough(url, link),
    sessionUrl: url,
    jobs: {},
    concurrency: 1,
    events: { onDone() {}, onFailed() {}, onDead() {}, onLeaseLost() {} },
  })
  await listening
  const stopped = worker.stop()
  // Long enough for the library to be waiting for its connection; then that breaks.
  await sleep(300)
  link.heal()
  await stopped
  await link.close()
  process.off('unhandledRejection', note)
  for (const listener of before) process.on('unhandledRejection', listener)
  expect(unhandled).toEqual([])
})

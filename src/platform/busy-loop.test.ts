import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { watchEventLoop } from './busy-loop.ts'

test('a loop that works without a pause is busy, and one that waits is not', { retry: 3 }, async () => {
  const isBusy = watchEventLoop()
  const until = performance.now() + 200
  while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve))
  expect(isBusy()).toBe(true)
  await sleep(200)
  expect(isBusy()).toBe(false)
})

import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { keepBusy } from './keep-busy.ts'

test('one slow answer holds up nobody else, and what falls due meanwhile is claimed', async () => {
  const waiting = [1, 2, 3, 4, 5, 6]
  const done: number[] = []
  let release = () => {}
  const slow = new Promise<void>((resolve) => {
    release = resolve
  })
  setTimeout(() => waiting.push(7), 200)
  const taken = await keepBusy({
    most: 2,
    claim: async (limit) => waiting.splice(0, limit),
    work: async (one) => {
      if (one === 1) await slow
      done.push(one)
      if (one === 7) release()
    },
  })
  expect(taken).toBe(7)
  expect(done).toEqual([2, 3, 4, 5, 6, 7, 1])
})

test('once it is to stop it claims nothing more, and what is in hand comes to its end', async () => {
  const stopping = new AbortController()
  let claims = 0
  let done = 0
  await keepBusy({
    most: 4,
    stopping: stopping.signal,
    claim: async (limit) => {
      claims++
      return claims > 5 ? 'over' : Array.from({ length: limit }, () => 0)
    },
    work: async () => {
      stopping.abort()
      await sleep(20)
      done++
    },
  })
  expect(claims).toBe(1)
  expect(done).toBe(4)
})

test('a failure is told when all are through, and nothing more is claimed after it', async () => {
  let done = 0
  const working = keepBusy({
    most: 4,
    claim: async (limit) => Array.from({ length: limit }, (_, at) => at),
    work: async (at) => {
      if (at === 0) throw new Error('the database is away')
      await sleep(20)
      done++
    },
  })
  await expect(working).rejects.toThrow('the database is away')
  expect(done).toBe(3)
})

test('who says that it is over is not asked again', async () => {
  let claims = 0
  let done = 0
  const taken = await keepBusy({
    most: 4,
    claim: async () => (claims++ === 0 ? [1] : 'over'),
    work: async () => {
      await sleep(1_200)
      done++
    },
  })
  expect([taken, claims, done]).toEqual([1, 2, 1])
})

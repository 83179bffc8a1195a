import { expect, test } from 'vitest'
import { openSlowAnswers } from './slow-answers.ts'

const counter = () => {
  let made = 0
  return async () => ++made
}

test('a quick answer is made anew for each question, or believed for a while', async () => {
  const patience = { believedForMs: 60_000, slowMs: 60_000, oldestShownMs: 60_000 }
  const fresh = openSlowAnswers<number>({ freshWhileQuick: true }, patience)
  const make = counter()
  expect([await fresh('a', make), await fresh('a', make)]).toEqual([1, 2])
  const believing = openSlowAnswers<number>({ freshWhileQuick: false }, patience)
  expect([await believing('a', make), await believing('a', make), await believing('b', make)]).toEqual([
    3, 3, 4,
  ])
})

test('a slow answer is shown while the next is made, which all who ask meanwhile share', async () => {
  const answers = openSlowAnswers<number>(
    { freshWhileQuick: true },
    { believedForMs: 0, slowMs: 0, oldestShownMs: 60_000 },
  )
  const make = counter()
  expect(await answers('a', make)).toBe(1)
  expect([await answers('a', make), await answers('a', make)].every((one) => one <= 2)).toBe(true)
  await expect.poll(() => answers('a', make)).toBeGreaterThan(1)
})

test('who waits for an answer that fails hears of it, and the next question tries again', async () => {
  const answers = openSlowAnswers<number>(
    { freshWhileQuick: false },
    { believedForMs: 60_000, slowMs: 0, oldestShownMs: 60_000 },
  )
  const failing = () => Promise.reject(new Error('no database'))
  await expect(Promise.all([answers('a', failing), answers('a', failing)])).rejects.toThrow('no database')
  expect(await answers('a', counter())).toBe(1)
})

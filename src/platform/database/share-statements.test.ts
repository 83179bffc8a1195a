import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { shareStatements } from './share-statements.ts'

function recorder(fail: (entries: readonly number[]) => Error | undefined = () => undefined) {
  const written: number[][] = []
  const add = shareStatements({ together: 3, atOnce: 1 }, async (entries: readonly number[]) => {
    await turn()
    written.push([...entries])
    const error = fail(entries)
    if (error) throw error
    return entries.map((entry) => `answer ${entry}`)
  })
  return { written, add }
}

test('what comes in one turn shares a statement, what comes while it runs the next, and each gets its own answer', async () => {
  const { written, add } = recorder()
  const early = [1, 2].map(add)
  await turn()
  const answers = await Promise.all([...early, ...[3, 4, 5, 6].map(add)])
  expect(answers).toEqual([1, 2, 3, 4, 5, 6].map((entry) => `answer ${entry}`))
  expect(written).toEqual([[1, 2], [3, 4, 5], [6]])
  expect(await add(7)).toBe('answer 7')
})

test('a broken entry fails alone', async () => {
  const { written, add } = recorder((entries) =>
    entries.includes(3) ? Object.assign(new Error('broken'), { code: '22021' }) : undefined,
  )
  const ends = await Promise.allSettled([1, 2, 3, 4].map(add))
  expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
  expect(written).toEqual([[1, 2, 3], [1], [2], [3], [4]])
})

test('a database in trouble is told to all at once and asked no further', async () => {
  const { written, add } = recorder((entries) =>
    entries.includes(3) ? Object.assign(new Error('away'), { code: '57P01' }) : undefined,
  )
  const ends = await Promise.allSettled([1, 2, 3, 4].map(add))
  expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'fulfilled'])
  expect(written).toEqual([[1, 2, 3], [4]])
})

test('several statements may run at once, and nobody waits while there is room', async () => {
  const running: number[][] = []
  const ends: (() => void)[] = []
  const add = shareStatements({ together: 10, atOnce: 2 }, async (entries: readonly number[]) => {
    running.push([...entries])
    await new Promise<void>((end) => {
      ends.push(end)
    })
    return entries
  })
  const answers = [add(1)]
  await turn()
  answers.push(add(2))
  await turn()
  answers.push(add(3), add(4))
  await turn()
  expect(running).toEqual([[1], [2]])
  ends[1]!()
  expect(await answers[1]).toBe(2)
  await turn()
  expect(running).toEqual([[1], [2], [3, 4]])
  for (const end of ends) end()
  expect(await Promise.all(answers)).toEqual([1, 2, 3, 4])
})

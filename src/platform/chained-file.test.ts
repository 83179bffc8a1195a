import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { appendChain, ChainMoved, readChain } from './chained-file.ts'

let folder: string
let path: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rankledger-chain-'))
  path = join(folder, 'chain.jsonl')
})
afterEach(() => rmSync(folder, { recursive: true }))

const append = async (key: string) => appendChain(path, await readChain(path), [{ key }], { at: key })

test('what was read and what was appended end at the same byte', async () => {
  expect(await readChain(path)).toMatchObject({ lines: 0, bytes: 0 })
  const end = await append('여보세요')
  expect(end.bytes).toBe(readFileSync(path).length)
  expect(await readChain(path)).toEqual(end)
  // One byte less is still a whole file.
  writeFileSync(path, readFileSync(path).subarray(0, -1))
  expect(await readChain(path)).toEqual({ ...end, bytes: end.bytes - 1 })
  const next = await append('two')
  expect(next.bytes).toBe(readFileSync(path).length)
  expect(await readChain(path)).toEqual(next)
})

test('whoever finds that somebody appended since they read changes nothing', async () => {
  const before = await readChain(path)
  const theirs = await append('theirs')
  await expect(appendChain(path, before, [{ key: 'ours' }], { at: 'late' })).rejects.toThrow(ChainMoved)
  expect(await readChain(path)).toEqual(theirs)
  writeFileSync(path, '')
  await expect(appendChain(path, theirs, [{ key: 'ours' }], { at: 'late' })).rejects.toThrow(ChainMoved)
  expect(readFileSync(path, 'utf8')).toBe('')
})

test('somebody who appends while the lines are gathered keeps theirs', async () => {
  await append('first')
  const before = await readChain(path)
  async function* lines() {
    yield { key: 'ours' }
    await append('theirs')
  }
  await expect(appendChain(path, before, lines(), { at: 'late' })).rejects.toThrow(ChainMoved)
  expect(await readChain(path)).toMatchObject({ lines: 4, closed: true })
  expect(readFileSync(path, 'utf8')).not.toContain('ours')
})

test('a failure takes back its own lines alone', async () => {
  async function* failing(meanwhile: () => void) {
    for (let n = 0; n < 2_000; n++) yield { key: `${n}`.padEnd(100) }
    meanwhile()
    throw new Error('the database went away')
  }
  const before = await append('first')
  const whole = readFileSync(path, 'utf8')
  await expect(
    appendChain(
      path,
      before,
      failing(() => {}),
      { at: 'late' },
    ),
  ).rejects.toThrow(/went away/)
  expect(readFileSync(path, 'utf8')).toBe(whole)

  const theirs = () => appendFileSync(path, 'theirs\n')
  await expect(appendChain(path, before, failing(theirs), { at: 'late' })).rejects.toThrow(/went away/)
  expect(readFileSync(path, 'utf8')).toMatch(/theirs\n$/)
})

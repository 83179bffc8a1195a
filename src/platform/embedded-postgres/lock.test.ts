import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { withLock } from './lock.ts'
import { findProcess } from './process-mark.ts'

let folder: string
let path: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lock-test-'))
  path = join(folder, 'lock')
})

afterEach(() => rm(folder, { recursive: true }))

test('everyone gets the lock, one at a time, and nothing is left behind', async () => {
  expect(await mostAtOnce(20)).toBe(1)
  expect(await readdir(folder)).toEqual([])
})

test('the lock of a process that was killed is taken over by exactly one of those who wait', async () => {
  for (let round = 0; round < 10; round += 1) {
    await writeFile(path, JSON.stringify({ ...(await findKilledProcess()), id: `dead${round}` }))
    expect(await mostAtOnce(12)).toBe(1)
  }
  expect(await readdir(folder)).toEqual([])
})

test('a lock file emptied by a power cut holds nobody up', async () => {
  await writeFile(path, '')
  expect(await mostAtOnce(12)).toBe(1)
})

test('a pid that was given to another process since does not count as the holder', async () => {
  await writeFile(path, JSON.stringify({ pid: process.pid, started: 'long ago', id: 'recycled' }))
  expect(await withLock(path, async () => 'mine')).toBe('mine')
})

test('whoever waits longer than the patience lasts is told who holds the lock', async () => {
  await withLock(path, async () => {
    await expect(withLock(path, async () => {}, 50)).rejects.toThrow(
      `Process ${process.pid} has held ${path}`,
    )
  })
})

test('work that fails gives the lock back', async () => {
  await expect(withLock(path, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await withLock(path, async () => 'next')).toBe('next')
})

async function mostAtOnce(contenders: number): Promise<number> {
  let inside = 0
  let most = 0
  let served = 0
  const contend = () =>
    withLock(path, async () => {
      inside += 1
      most = Math.max(most, inside)
      for (let step = 0; step < 20; step += 1) await turn()
      inside -= 1
      served += 1
    })
  await Promise.all(Array.from({ length: contenders }, contend))
  expect(served).toBe(contenders)
  return most
}

async function findKilledProcess() {
  const child = spawn('sleep', ['60'])
  const mark = await findProcess(child.pid!)
  child.kill('SIGKILL')
  await once(child, 'exit')
  return mark
}

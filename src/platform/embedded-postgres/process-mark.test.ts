import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Writable } from 'node:stream'
import { expect, test, vi } from 'vitest'
import { commandLineOf, findProcess, isAlive } from './process-mark.ts'

test('a running process is found and stays the same one', async () => {
  const mark = await findProcess(process.pid)
  expect(mark).toEqual(await findProcess(process.pid))
  expect(await isAlive(mark!)).toBe(true)
})

test('a process with the same pid and another start is another process', async () => {
  expect(await isAlive({ pid: process.pid, started: 'another time' })).toBe(false)
})

test.each([0, -1, Number.NaN])('%s is nobody, although a signal to it would go to many', async (pid) => {
  expect(await findProcess(pid)).toBe(null)
})

test('a process that ended is gone even while nobody has collected its exit code', async () => {
  // The shell's child ends when its input does, by when the shell is a program that never asks for its exit code.
  const script = 'cat <&3 >/dev/null & echo $!; exec sleep 30 3<&-'
  const parent = spawn('/bin/sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore', 'pipe'] })
  try {
    const [line] = await once(createInterface(parent.stdout!), 'line')
    await vi.waitUntil(async () => (await commandLineOf(parent.pid!)) === 'sleep 30')
    expect(await findProcess(Number(line))).not.toBe(null)
    ;(parent.stdio[3] as Writable).end()
    await vi.waitUntil(async () => !(await findProcess(Number(line))))
    process.kill(Number(line), 0) // It is still in the table, else this throws.
  } finally {
    parent.kill()
  }
})

test('the command line tells what a process was started with', async () => {
  const child = spawn('sleep', ['31.5'])
  try {
    await vi.waitUntil(async () => (await commandLineOf(child.pid!)) === 'sleep 31.5')
  } finally {
    child.kill()
  }
})

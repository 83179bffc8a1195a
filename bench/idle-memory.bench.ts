import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { BenchResult } from './result.ts'
import { openStage } from './stage.ts'

/** How much memory `serve`, API and worker in one, holds when nobody asks anything. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  const main = fileURLToPath(new URL('../dist/main.js', import.meta.url))
  const serve = spawn(process.execPath, [main, 'serve'], {
    env: { ...process.env, ...stage.environment },
    stdio: 'ignore',
  })
  const bare = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
  try {
    await sleep(15_000)
    const [ours, floor] = [residentMb(serve.pid!), residentMb(bare.pid!)]
    return [
      { promise: 'serve, idle, resident', unit: 'MB', ours, floor, ratio: ours / floor, goal: 'ours < 150' },
    ]
  } finally {
    serve.kill('SIGKILL')
    bare.kill('SIGKILL')
    await stage.close()
  }
}

function residentMb(pid: number): number {
  const kilobytes = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kilobytes) / 1024
}

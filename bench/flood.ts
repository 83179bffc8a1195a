import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { BenchResult } from './result.ts'
import { openStage } from './stage.ts'

const workspaces = 200
const seconds = 15

/**
 * What others feel while one token sends the largest requests it may, from 64 connections: a thousand ranks in 2 MB, to
 * as many workspaces as it takes to stay within each one's limit. The service is the real `serve`, worker and all.
 */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  const main = fileURLToPath(new URL('../dist/main.js', import.meta.url))
  const serve = spawn(process.execPath, [main, 'serve'], {
    env: { ...process.env, ...stage.environment, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const port = await portOf(serve.stdout)
    const base = `http://127.0.0.1:${port}`
    const own = readFileSync(join(stage.environment['RANKLEDGER_DATA']!, 'token'), 'utf8').trim()
    await stage.db.query(`
      insert into batch.monthly_volume (key, source, month, volume, volume_min, volume_max, quality, days_observed, updated_at)
      select 'shoes', 'naver', m::date, 1000, 1000, 1000, 'reported', 30, now()
      from generate_series('2025-11-01'::date, '2026-10-01', '1 month') m`)
    for (let at = 0; at < workspaces; at++) {
      const keywords = Array.from({ length: 100 }, (_, n) => `keyword ${n}`)
      await ask(base, own, 'POST', '/api/batch/keywords', { workspace_id: `flood_${at}`, keywords })
    }
    const grant = { scopes: ['batch:write'], workspace: '*' }
    const flooder = (await ask(base, own, 'POST', '/api/tokens', grant)).body.data.token
    const other = (await ask(base, own, 'POST', '/api/tokens', grant)).body.data.token

    await probe(base, other, 3)
    const idle = await probe(base, other, seconds)
    const flooding = stage.load({
      port,
      connections: 64,
      seconds: seconds + 4,
      method: 'POST',
      path: '/api/batch/ranks',
      body: JSON.stringify({ workspace_id: 'flood_{n}', observations: observations() }),
      spread: workspaces,
      token: flooder,
    })
    await sleep(2_000)
    const flooded = await probe(base, other, seconds)
    const { perSecond, statuses } = await flooding
    if (Object.keys(statuses).some((status) => status !== '200' && status !== '429') || !statuses['200'])
      throw new Error(`The flood was answered with ${JSON.stringify(statuses)}.`)
    const allowed = Math.max(3 * idle, 50)
    const memory = peakMb(serve.pid!)
    return [
      {
        promise: `others' p99 while one token sends ${perSecond.toFixed(1)} requests of 2 MB a second`,
        unit: 'ms',
        ours: flooded,
        floor: idle,
        ratio: flooded / allowed,
        goal: 'ours <= max(3 x floor, 50): ratio <= 1',
      },
      {
        promise: 'serve at its largest, under that flood',
        unit: 'MB',
        ours: memory,
        floor: 300,
        ratio: memory / 300,
        goal: 'ours < 300',
      },
    ]
  } finally {
    serve.kill('SIGKILL')
    await stage.close()
  }
}

function observations(): object[] {
  return Array.from({ length: 1000 }, (_, n) => ({
    keyword: `keyword ${n % 100}`,
    day: `2026-11-${String(1 + Math.floor(n / 100)).padStart(2, '0')}`,
    status: 'ranked',
    position: 1 + (n % 100),
    url: `https://example.com/${'x'.repeat(1950)}`,
  }))
}

/** Asks twenty times a second, whatever becomes of the answers before, and says how long the slowest hundredth took. */
async function probe(base: string, token: string, forSeconds: number): Promise<number> {
  const taken: Promise<number>[] = []
  for (let at = 0; at < forSeconds * 20; at++) {
    taken.push(timed(() => ask(base, token, 'GET', `/api/batch/volumes/shoes?workspace_id=other_${at % 50}`)))
    await sleep(50)
  }
  const sorted = (await Promise.all(taken)).sort((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * 0.99) - 1]!
}

async function timed(work: () => Promise<{ status: number }>): Promise<number> {
  const startedAt = performance.now()
  const { status } = await work()
  if (status !== 200) throw new Error(`Another one was answered ${status}.`)
  return performance.now() - startedAt
}

// biome-ignore lint/suspicious/noExplicitAny: answers of routes that are tested elsewhere
async function ask(base: string, token: string, method: string, path: string, body?: object): Promise<any> {
  const answer = await fetch(base + path, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: await answer.json() }
}

function portOf(output: NodeJS.ReadableStream): Promise<number> {
  return new Promise((resolve) => {
    let text = ''
    output.on('data', (chunk) => {
      // Read to the end, so that the service never waits for its log to be taken.
      if (text.length > 100_000) return
      text += chunk
      const port = /"event":"service.started".*?"port":(\d+)/.exec(text)?.[1]
      if (port) resolve(Number(port))
    })
  })
}

function peakMb(pid: number): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../src/platform/embedded-postgres/free-port.ts'
import { keepAsking } from './keep-asking.ts'
import { memoryOf } from './process-memory.ts'
import type { BenchResult } from './result.ts'
import { sized } from './size.ts'

const main = fileURLToPath(new URL('../dist/main.js', import.meta.url))
const loadSeconds = sized(3_600, 5)

/** `serve` as one command starts it, embedded PostgreSQL and worker and all: how soon it answers, and what it holds. */
export async function bench(): Promise<BenchResult[]> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-bench-serve-'))
  const port = await findFreePort()
  const start = () =>
    spawn(process.execPath, [main, 'serve'], {
      env: {
        PATH: process.env['PATH'] ?? '',
        RANKLEDGER_DATA: dataDir,
        PORT: String(port),
        BILLING_RATE: '0',
      },
      stdio: 'ignore',
    })
  const bare = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
  let serve = start()
  try {
    await firstAnswer(port)
    await stop(serve)
    const startedAt = performance.now()
    serve = start()
    await firstAnswer(port)
    const seconds = (performance.now() - startedAt) / 1000
    await sleep(sized(15_000, 3_000))
    const idle = memoryOf(serve.pid!, 'resident')
    await load(port, readFileSync(join(dataDir, 'token'), 'utf8').trim())
    const floor = memoryOf(bare.pid!, 'resident')
    const held = (promise: string, ours: number, most: number): BenchResult => ({
      promise,
      unit: 'MB',
      ours,
      floor,
      ratio: ours / floor,
      goal: `ours <= ${most}`,
    })
    return [
      {
        promise: 'second start to the first 200',
        unit: 's',
        ours: seconds,
        floor: 2,
        ratio: seconds / 2,
        goal: 'ours <= 2',
      },
      held('serve, idle, resident', idle, 130),
      held(`serve after ${loadSeconds} s of load, resident`, memoryOf(serve.pid!, 'resident'), 220),
    ]
  } finally {
    await stop(serve)
    bare.kill('SIGKILL')
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function firstAnswer(port: number): Promise<void> {
  for (let tries = 0; tries < 6_000; tries++) {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined)
    await answer?.arrayBuffer()
    if (answer?.status === 200) return
    await sleep(10)
  }
  throw new Error('serve did not become ready within a minute')
}

/** Writes and reads of both areas, from workspaces and accounts that come and go. */
async function load(port: number, token: string): Promise<void> {
  let n = 0
  const request = () => {
    const at = n++
    const body = JSON.stringify({ workspace_id: `ws_${at % 5_000}`, keywords: [`word ${at}`] })
    const [method, path] = (
      [
        ['POST', '/api/batch/keywords'],
        ['GET', `/api/batch/keywords?workspace_id=ws_${at % 5_000}`],
        ['GET', '/api/billing/invoices'],
        ['GET', '/api/billing/plans'],
      ] as const
    )[at % 4]!
    const head = [`${method} ${path} HTTP/1.1`, 'Host: 127.0.0.1', `Authorization: Bearer ${token}`]
    if (method === 'POST')
      head.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`)
    return `${head.join('\r\n')}\r\n\r\n${method === 'POST' ? body : ''}`
  }
  const { statuses } = await keepAsking({ port, connections: 8, seconds: loadSeconds, pauseMs: 20 }, request)
  const refused = Object.keys(statuses).filter((status) => status !== '200' && status !== '201')
  if (refused.length > 0) throw new Error(`Not all were answered: ${JSON.stringify(statuses)}`)
}

async function stop(serve: ChildProcess): Promise<void> {
  if (serve.exitCode !== null) return
  serve.kill('SIGTERM')
  await once(serve, 'exit')
}

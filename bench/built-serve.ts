import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Stage } from './stage.ts'

/** `serve` as it is built, worker and console and all, on the database of a stage. */
export type BuiltServe = {
  readonly process: ChildProcess
  readonly port: number
  readonly base: string
  /** May do everything. */
  readonly token: string
}

export async function startBuiltServe(stage: Stage, options: readonly string[] = []): Promise<BuiltServe> {
  const serve = startBuilt(stage, ['serve', ...options], { stdout: 'pipe' })
  try {
    const port = await portOf(serve.stdout!)
    const token = readFileSync(join(stage.environment['RANKLEDGER_DATA']!, 'token'), 'utf8').trim()
    return { process: serve, port, base: `http://127.0.0.1:${port}`, token }
  } catch (error) {
    serve.kill('SIGKILL')
    throw error
  }
}

/** Any command as it is built. */
export function startBuilt(
  stage: Stage,
  args: readonly string[],
  {
    stdout = 'ignore',
    settings = {},
  }: { stdout?: 'pipe' | 'ignore'; settings?: Readonly<Record<string, string>> } = {},
): ChildProcess {
  const main = fileURLToPath(new URL('../dist/main.js', import.meta.url))
  return spawn(process.execPath, [main, ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...stage.environment, ...settings },
    stdio: ['ignore', stdout, 'inherit'],
  })
}

/** Ends a process that was to go on until now. */
export async function stopBuilt(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null) throw new Error('It ended by itself.')
  process.kill('SIGTERM')
  await once(process, 'exit')
}

function portOf(output: NodeJS.ReadableStream): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = ''
    output.on('end', () => reject(new Error('serve ended before it was up')))
    output.on('data', (chunk) => {
      // Read to the end, so that the service never waits for its log to be taken.
      if (text.length > 100_000) return
      text += chunk
      const port = /"event":"service.started".*?"port":(\d+)/.exec(text)?.[1]
      if (port) resolve(Number(port))
    })
  })
}

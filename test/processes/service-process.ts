import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** A real process of the built service, watched from outside. */
export type ServiceProcess = {
  readonly child: ChildProcess
  /** Everything it wrote, on both outputs. */
  output(): string
  /** Waits for a line of its log and gives it back. */
  event(name: string, timeoutMs?: number): Promise<Record<string, unknown>>
  /** The API's address, once it listens. */
  url(): Promise<string>
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

export function startService(
  args: string[],
  environment: Record<string, string>,
  executable = main,
): ServiceProcess {
  const child = spawn(process.execPath, [executable, ...args], {
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: process.env['HOME'] ?? '',
      ...environment,
      LOG_LEVEL: 'info',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let text = ''
  const watchers = new Set<() => void>()
  const take = (chunk: Buffer) => {
    text += chunk.toString()
    for (const look of watchers) look()
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  const exited = new Promise<number | null>((resolve) => child.on('exit', (code) => resolve(code)))

  const event: ServiceProcess['event'] = (name, timeoutMs = 300_000) =>
    new Promise((resolve, reject) => {
      const end = (finish: () => void) => {
        clearTimeout(timer)
        watchers.delete(look)
        finish()
      }
      const look = () => {
        const line = text.split('\n').find((one) => one.includes(`"event":"${name}"`) && one.endsWith('}'))
        if (line) end(() => resolve(JSON.parse(line)))
      }
      const timer = setTimeout(
        () => end(() => reject(new Error(`no ${name} within ${timeoutMs} ms:\n${text}`))),
        timeoutMs,
      )
      void exited.then((code) => end(() => reject(new Error(`ended with ${code} before ${name}:\n${text}`))))
      watchers.add(look)
      look()
    })

  return {
    child,
    output: () => text,
    event,
    url: async () => `http://127.0.0.1:${(await event('service.started'))['port']}`,
    async stop(signal = 'SIGTERM') {
      child.kill(signal)
      return exited
    },
  }
}

/** Runs a command of the executable to its end. */
export async function runCommand(
  args: string[],
  environment: Record<string, string>,
  executable = main,
): Promise<{ code: number | null; output: string }> {
  const service = startService(args, environment, executable)
  const code = await new Promise<number | null>((resolve) => service.child.on('close', resolve))
  return { code, output: service.output() }
}

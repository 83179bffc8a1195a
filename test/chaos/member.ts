import { type ServiceProcess, startService } from '../processes/service-process.ts'
import { type Database, until } from './database.ts'

export type Role = 'serve' | 'work' | 'sandbox'

/** One place of the installation: the process that holds it just now, and all that held it before. */
export type Member = {
  readonly role: Role
  readonly name: string
  /** Where it listens; undefined while it does not run. */
  port(): number | undefined
  isUp(): boolean
  isReady(): Promise<boolean>
  /** Starts it and waits until it does its work. */
  start(): Promise<void>
  /** kill -9, and a new one in its place. */
  kill(): Promise<void>
  /** SIGTERM, as in a rolling restart, and a new one in its place. */
  replace(): Promise<void>
  freeze(): void
  thaw(): void
  stop(): Promise<void>
  outputs(): string[]
}

export type MemberOptions = {
  readonly role: Role
  readonly name: string
  readonly args: string[]
  readonly environment: Record<string, string>
  readonly database: Database
  readonly isReady: (port: number) => Promise<boolean>
  readonly onStart?: () => void
  readonly onMishap: (what: string) => void
}

const stopsWithinMs = 120_000

/** A process under a supervisor that starts it again, as an operator would have it. */
export function openMember(options: MemberOptions): Member {
  const { role, name, database, onMishap } = options
  const lives: ServiceProcess[] = []
  let port: number | undefined
  let up = false
  let wanted = true

  const current = () => lives.at(-1)
  const ended = (life: ServiceProcess) =>
    new Promise<number | null>((resolve) => {
      const { child } = life
      if (child.exitCode !== null || child.signalCode !== null) resolve(child.exitCode)
      else child.once('exit', (code) => resolve(code))
    })

  /** A start that fails because the database is away is tried again, like any supervisor does. */
  const launch = async (): Promise<void> => {
    while (wanted) {
      await database.whenUp()
      options.onStart?.()
      const life = startService(options.args, options.environment)
      lives.push(life)
      const started = await life.event('service.started', 120_000).catch(() => undefined)
      if (started) {
        port = (started['port'] as number | undefined) ?? 0
        up = true
        void ended(life).then(
          (code) => up && current() === life && onMishap(`${name} ended with ${code}: ${lastWordsOf(life)}`),
        )
        return
      }
      life.child.kill('SIGKILL')
      await ended(life)
    }
  }
  const isReady = async () => up && (await options.isReady(port!))
  const start = async () => {
    await launch()
    await until(isReady)
  }
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    up = false
    const life = current()!
    const patience = setTimeout(() => {
      onMishap(`${name} did not stop within ${stopsWithinMs} ms`)
      life.child.kill('SIGKILL')
    }, stopsWithinMs)
    const code = await life.stop(signal)
    clearTimeout(patience)
    port = undefined
    return code
  }

  return {
    role,
    name,
    port: () => port,
    isUp: () => up,
    isReady,
    start,
    async kill() {
      await end('SIGKILL')
      await start()
    },
    async replace() {
      const code = await end('SIGTERM')
      if (code !== 0) onMishap(`${name} was asked to stop and ended with ${code}`)
      await start()
    },
    freeze: () => void current()!.child.kill('SIGSTOP'),
    thaw: () => void current()!.child.kill('SIGCONT'),
    async stop() {
      wanted = false
      const life = current()
      if (!life) return
      life.child.kill('SIGCONT')
      if (up) await end('SIGKILL')
    },
    outputs: () => lives.map((life) => life.output()),
  }
}

function lastWordsOf(life: ServiceProcess): string {
  const lines = life.output().trimEnd().split('\n')
  return lines.findLast((line) => line.includes('"process.crashed"')) ?? lines.at(-1) ?? ''
}

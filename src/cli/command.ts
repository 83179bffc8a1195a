import { type ParseArgsConfig, parseArgs } from 'node:util'
import type { App } from '../app.ts'
import { type Config, loadConfig } from '../config.ts'
import type { Foundation } from '../foundation.ts'
import { guardProcessOutput, type OutputGuardOptions } from '../platform/log/guard-process-output.ts'
import { openLog, type ServiceLog } from '../service-log.ts'

/** One operator command: what `help` says of it, and what it does. It answers with the exit code. */
export type Command = {
  readonly summary: string
  readonly usage: string
  run(args: string[]): Promise<number>
}

/** The operator asked for something that does not exist; told with the usage, exit 2. */
export class UsageError extends Error {
  override name = 'UsageError'
}

/** Something went wrong that one sentence explains; told without a stack, exit 1. */
export class CommandFailed extends Error {
  override name = 'CommandFailed'
}

/** Parses a command's own flags; what it does not know is misuse. */
export function parseFlags<T extends NonNullable<ParseArgsConfig['options']>>(args: string[], options: T) {
  try {
    return parseArgs({ args, options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

/** For a command that takes no words of its own: what it would not look at is a mistake, and is not said back. */
export function parseOnlyFlags<T extends NonNullable<ParseArgsConfig['options']>>(
  args: string[],
  options: T,
) {
  const parsed = parseFlags(args, options)
  if (parsed.positionals.length > 0)
    throw new UsageError('There is a word that this command does not take; it takes options only.')
  return parsed
}

/** What is wrong with a file that the operator named, in one sentence. */
export function explainFile(path: string, doing: 'read' | 'written'): (error: unknown) => never {
  return (error) => {
    const { code, syscall } = error as NodeJS.ErrnoException
    if (syscall === undefined) throw error
    throw new CommandFailed(`${path} cannot be ${doing} (${code}); name another, or put its place right.`)
  }
}

/**
 * Opens the service's database for the time of one command, which opens nothing sealed and asks no provider. Its output is
 * the result, so it goes out, sanitized.
 */
export function withFoundation(
  name: string,
  work: (foundation: Foundation) => Promise<number>,
): Promise<number> {
  // Loaded when it is needed: misuse and help are told at once.
  return during(async (config) => {
    const { openFoundation } = await import('../foundation.ts')
    return openFoundation(config, { name, role: 'command', poolSize: commandPoolSize })
  }, work)
}

/** The same for a command that opens sealed values, asks a provider or builds the API. */
export function withApp(name: string, work: (app: App) => Promise<number>): Promise<number> {
  return during(
    async (config) => {
      const { openApp } = await import('../app.ts')
      return openApp(config, { name, role: 'command', poolSize: commandPoolSize })
    },
    (app) => inRightEnvironment(app, work),
  )
}

/** What a command made of a wrong key or mode is told last, and in place of what it failed with for that. */
async function inRightEnvironment(app: App, work: (app: App) => Promise<number>): Promise<number> {
  const done = await work(app).catch((error: unknown) => {
    if (error instanceof CommandFailed) return error
    throw error
  })
  const troubles = app.troubles()
  if (troubles.length > 0) throw new CommandFailed(troubles.join('\n'))
  if (done instanceof CommandFailed) throw done
  return done
}

const commandPoolSize = 4

async function during<T extends Foundation>(
  open: (config: Config) => Promise<T>,
  work: (opened: T) => Promise<number>,
): Promise<number> {
  const config = { ...loadConfig(), logLevel: 'error' as const }
  return underGuard(config, { stdout: 'results' }, async () => {
    const opened = await open(config)
    try {
      return await work(opened)
    } finally {
      await opened.close()
    }
  })
}

/**
 * Runs a command with all that the process says under guard, and what it fails with as well: an error may quote a
 * setting or an answer, so its sentence takes the same stages as a line of the log before anybody reads it. Where standard
 * output is for results, the log goes to standard error.
 */
export async function underGuard(
  config: Config,
  options: OutputGuardOptions,
  work: () => Promise<number>,
): Promise<number> {
  const { log } = openLog(config, options.stdout === 'results' ? 'stderr' : 'stdout')
  const guard = guardProcessOutput(log, options)
  try {
    return await work()
  } catch (error) {
    throw sanitized(error, log)
  } finally {
    guard.uninstall()
  }
}

function sanitized(error: unknown, log: ServiceLog): Error {
  const said = error instanceof Error ? error : new Error(String(error))
  const told = Buffer.from(log.sanitize(said.message)).toString()
  // Defined anew: a driver's error may hold its message where it cannot be assigned.
  return Object.defineProperty(said, 'message', { value: told, configurable: true, writable: true })
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** One JSON document, for scripts. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2))
}

/** A plain table for people: columns as wide as their widest cell. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  )
  for (const row of [head, ...rows]) {
    print(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
  }
}

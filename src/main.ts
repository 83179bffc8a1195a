#!/usr/bin/env node
import { writeSync } from 'node:fs'
import { type Command, UsageError } from './cli/command.ts'
import { commandNamed, commands } from './cli/commands.ts'
import { sanitize } from './platform/log/sanitize.ts'

/** Why the output could not be written, if it could not. */
let unwritten: string | undefined
process.stdout.on('error', outlive)
process.stderr.on('error', outlive)
process.on('exit', tellUnwritten)
process.exitCode = await main(process.argv.slice(2))

async function main([name, ...args]: string[]): Promise<number> {
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') return help(args)
  const load = commandNamed(name)
  if (!load) return unknownCommand(name)
  if (args.includes('--help') || args.includes('-h')) return help([name])
  const command = await load()
  try {
    return await command.run(args)
  } catch (error) {
    return explain(error, command)
  }
}

/**
 * Whoever reads may stop early, as `| head -1` does: the work goes on to its end, and the rest is said to nobody. It does so
 * on a full disk too, but then a result is missing that somebody waits for.
 */
function outlive(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') unwritten ??= error.code ?? error.name
}

function tellUnwritten(): void {
  if (unwritten === undefined) return
  process.exitCode ||= 1
  try {
    writeSync(2, `The output could not be written (${unwritten}).\n`)
  } catch {
    // The same disk, it seems: the exit code says it.
  }
}

function explain(error: unknown, command: Command): number {
  if (error instanceof UsageError) {
    complain(error.message)
    process.stderr.write(`\n${command.usage}\n`)
    return 2
  }
  complain(error instanceof Error ? error.message : String(error))
  return 1
}

async function help(words: readonly string[]): Promise<number> {
  const asJson = words.includes('--json')
  const [name] = words.filter((word) => word !== '--json')
  if (name !== undefined) {
    const load = commandNamed(name)
    if (!load) return unknownCommand(name)
    const { summary, usage } = await load()
    process.stdout.write(asJson ? `${JSON.stringify({ command: name, summary, usage })}\n` : `${usage}\n`)
    return 0
  }
  const known = await Promise.all(
    Object.entries(commands).map(async ([command, load]) => ({ command, summary: (await load()).summary })),
  )
  const lines = known.map(({ command, summary }) => `  ${command.padEnd(16)}${summary}`).join('\n')
  process.stdout.write(
    asJson
      ? `${JSON.stringify({ commands: known })}\n`
      : `rankledger COMMAND\n\n${lines}\n\nrankledger help COMMAND tells more.\n`,
  )
  return 0
}

function unknownCommand(name: string): number {
  complain(`There is no command "${name}".`, 'See `rankledger help`.')
  return 2
}

/** What is said here may quote what was typed or set, so it takes the log's stages like every line. */
function complain(...lines: string[]): void {
  process.stderr.write(sanitize(`${lines.join('\n')}\n`))
}

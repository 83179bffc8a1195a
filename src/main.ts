#!/usr/bin/env node
import { type Command, UsageError } from './cli/command.ts'
import { sanitize } from './platform/log/sanitize.ts'

/** Each command is loaded when it is asked for, so that a small one starts at once. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./cli/serve.ts')).serve,
  work: async () => (await import('./cli/work.ts')).work,
  sandbox: async () => (await import('./cli/sandbox.ts')).sandbox,
  migrate: async () => (await import('./cli/migrate.ts')).migrate,
  token: async () => (await import('./cli/token.ts')).token,
  plan: async () => (await import('./cli/plan.ts')).plan,
  backlog: async () => (await import('./cli/backlog.ts')).backlog,
  provider: async () => (await import('./cli/provider.ts')).provider,
  reconcile: async () => (await import('./cli/reconcile.ts')).reconcile,
  'check-ledger': async () => (await import('./cli/check-ledger.ts')).checkLedger,
  'replay-webhook': async () => (await import('./cli/replay-webhook.ts')).replayWebhook,
  import: async () => (await import('./cli/import.ts')).importFile,
  'check-model': async () => (await import('./cli/check-model.ts')).checkModelCommand,
  model: async () => (await import('./cli/model.ts')).model,
  demo: async () => (await import('./cli/demo.ts')).demo,
  audit: async () => (await import('./cli/audit.ts')).audit,
  db: async () => (await import('./cli/db.ts')).db,
  doctor: async () => (await import('./cli/doctor.ts')).doctor,
  retention: async () => (await import('./cli/retention.ts')).retention,
  openapi: async () => (await import('./cli/openapi.ts')).openapi,
}

process.exitCode = await main(process.argv.slice(2))

async function main([name, ...args]: string[]): Promise<number> {
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') return help(args[0])
  const load = commands[name]
  if (!load) {
    complain(`There is no command "${name}".`, 'See `rankledger help`.')
    return 2
  }
  if (args.includes('--help') || args.includes('-h')) return help(name)
  const command = await load()
  try {
    return await command.run(args)
  } catch (error) {
    return explain(error, command)
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

async function help(name: string | undefined): Promise<number> {
  const load = name === undefined ? undefined : commands[name]
  if (load) {
    process.stdout.write(`${(await load()).usage}\n`)
    return 0
  }
  const lines = await Promise.all(
    Object.entries(commands).map(async ([one, load]) => `  ${one.padEnd(16)}${(await load()).summary}`),
  )
  process.stdout.write(`rankledger COMMAND\n\n${lines.join('\n')}\n\nrankledger help COMMAND tells more.\n`)
  return name === undefined ? 0 : 2
}

/** What is said here may quote what was typed or set, so it takes the log's stages like every line. */
function complain(...lines: string[]): void {
  process.stderr.write(sanitize(`${lines.join('\n')}\n`))
}

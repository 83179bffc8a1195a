import type { Command } from './command.ts'

/** The command of that name. Words such as `constructor`, which every object knows, are none. */
export function commandNamed(name: string): (() => Promise<Command>) | undefined {
  return Object.hasOwn(commands, name) ? commands[name] : undefined
}

/** Each command is loaded when it is asked for, so that a small one starts at once. */
export const commands: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./serve.ts')).serve,
  work: async () => (await import('./work.ts')).work,
  sandbox: async () => (await import('./sandbox.ts')).sandbox,
  migrate: async () => (await import('./migrate.ts')).migrate,
  token: async () => (await import('./token.ts')).token,
  plan: async () => (await import('./plan.ts')).plan,
  backlog: async () => (await import('./backlog.ts')).backlog,
  provider: async () => (await import('./provider.ts')).provider,
  reconcile: async () => (await import('./reconcile.ts')).reconcile,
  'check-ledger': async () => (await import('./check-ledger.ts')).checkLedger,
  'replay-webhook': async () => (await import('./replay-webhook.ts')).replayWebhook,
  import: async () => (await import('./import.ts')).importFile,
  'check-model': async () => (await import('./check-model.ts')).checkModelCommand,
  model: async () => (await import('./model.ts')).model,
  demo: async () => (await import('./demo.ts')).demo,
  audit: async () => (await import('./audit.ts')).audit,
  db: async () => (await import('./db.ts')).db,
  doctor: async () => (await import('./doctor.ts')).doctor,
  retention: async () => (await import('./retention.ts')).retention,
  openapi: async () => (await import('./openapi.ts')).openapi,
}

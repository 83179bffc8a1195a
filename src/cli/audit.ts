import { type Command, UsageError } from './command.ts'

/** One file per verb, each loaded when it is asked for. */
const verbs: Readonly<Record<string, () => Promise<{ run(args: string[]): Promise<number> }>>> = {
  list: async () => ({ run: (await import('./audit-list.ts')).listAuditCommand }),
}

export const audit: Command = {
  summary: 'Who asked for what, and who read whose data',
  usage: `rankledger audit list [--actor ID] [--action NAME] [--account ID] [--target ID] [--from TIME] [--to TIME] [--limit N] [--json]

Newest first. An actor is a token's id, \`operator\` for this command line, or \`service\`.`,

  async run([verb, ...args]) {
    const load = verb === undefined ? undefined : verbs[verb]
    if (!load) throw new UsageError(`Say what to do: ${Object.keys(verbs).join(' or ')}.`)
    return (await load()).run(args)
  },
}

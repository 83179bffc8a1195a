import { type Command, UsageError } from './command.ts'

/** One file per verb, each loaded when it is asked for. */
const verbs: Readonly<Record<string, () => Promise<{ run(args: string[]): Promise<number> }>>> = {
  list: async () => ({ run: (await import('./audit-list.ts')).listAuditCommand }),
  export: async () => ({ run: (await import('./audit-export.ts')).exportHistoryCommand }),
  apply: async () => ({ run: (await import('./audit-apply.ts')).applyHistoryCommand }),
}

export const audit: Command = {
  summary: 'Who asked for what, who read whose data, and a copy elsewhere for the day of a restore',
  usage: `rankledger audit list [--actor ID] [--action NAME] [--account ID] [--target ID] [--from TIME] [--to TIME] [--limit N] [--json]
rankledger audit export FILE [--json]
rankledger audit apply FILE [--cut-off] [--json]

\`list\` shows the newest first. An actor is a token's id, \`operator\` for this command line, or \`service\`.

A backup forgets what happened after it. \`export\` appends to FILE, which belongs on another machine, what must not be
forgotten: cancellations and resumptions, erasures, used trials, changed payment methods, tokens that were revoked or rotated;
ids and instants, no personal data. Run it every few minutes; of two at once the second ends with exit 1 and changes nothing.
Each line carries the hash of all before it, so that a file that was cut or changed is noticed. \`apply\` brings those facts
back into a restored database while charging is stopped; applying twice changes nothing. A file that was cut off while an
export wrote it says at which line and since when it may lack something; \`--cut-off\` applies what is whole of it.
docs/runbook.md has the whole recipe.`,

  async run([verb, ...args]) {
    const load = verb !== undefined && Object.hasOwn(verbs, verb) ? verbs[verb] : undefined
    if (!load) throw new UsageError('Say what to do: list, export or apply.')
    return (await load()).run(args)
  },
}

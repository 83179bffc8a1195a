import { setFlagsFromString } from 'node:v8'
import { type Command, UsageError } from './command.ts'
import { importRanks } from './import-ranks.ts'
import { importVolumes } from './import-volumes.ts'

export const importFile: Command = {
  summary: 'Import rank history or search volumes from a file',
  usage: `rankledger import ranks FILE --workspace ID [--rejects FILE] [--json]
rankledger import ranks FILE.parquet [--workspace ID] [--rejects FILE] [--json]
rankledger import volumes FILE [--rejects FILE] [--json]

FILE is CSV with the API's field names as its header, or JSON lines; - is standard input. An import that was stopped
goes on where it was when the same command runs again, but for standard input, which is read anew and stores nothing
twice either. Rejected lines go to FILE.rejected.csv. FILE.parquet is an archive that \`rankledger retention\` wrote: it names
the workspace of each rank, and --workspace only chooses one of them.`,

  async run([what, ...args]) {
    // An import makes much garbage and keeps little. Left to itself the heap triples before it is swept.
    setFlagsFromString('--heap-growing-percent=50')
    if (what === 'ranks') return importRanks(args)
    if (what === 'volumes') return importVolumes(args)
    throw new UsageError('Say what to import: ranks or volumes.')
  },
}

import { setFlagsFromString } from 'node:v8'
import { type Command, UsageError } from './command.ts'
import { importRanks } from './import-ranks.ts'
import { importVolumes } from './import-volumes.ts'
import { formatNames } from './open-import.ts'

export const importFile: Command = {
  summary: 'Import rank history or search volumes from a file',
  usage: `rankledger import ranks FILE --workspace ID [--rejects FILE] [--json]
rankledger import ranks FILE.parquet [--workspace ID] [--rejects FILE] [--json]
rankledger import volumes FILE [--rejects FILE] [--json]
rankledger import volumes FILE.parquet [--json]
  [--format FORMAT] [--day YYYY-MM-DD] [--site SITE] [--device NAME] [--location NAME] [--depth N]

FILE is CSV with the API's field names as its header, or JSON lines; - is standard input. It may also be what another tool
wrote, as text in UTF-8, UTF-16 or CP949, as .xlsx or .zip; --format names the tool, by default auto: ${formatNames.join(', ')}.
What such a file does not say itself is said by --day, --site, --device, --location and --depth (see docs/import.md). An import that was stopped
goes on where it was when the same command runs again, but for standard input, which is read anew and stores nothing
twice either. Rejected lines go to FILE.rejected.csv. FILE.parquet is an archive that \`rankledger retention\` wrote: one of
ranks names the workspace of each, and --workspace only chooses one of them.`,

  async run([what, ...args]) {
    // An import makes much garbage and keeps little. Left to itself the heap triples before it is swept.
    setFlagsFromString('--heap-growing-percent=50')
    if (what === 'ranks') return importRanks(args)
    if (what === 'volumes') return importVolumes(args)
    throw new UsageError('Say what to import: ranks or volumes.')
  },
}

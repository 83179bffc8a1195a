import { importVolumes as importVolumeFile } from '../batch/volumes/import-volumes.ts'
import { VolumeForm } from '../batch/volumes/volume-form.ts'
import { parseFlags, UsageError, withFoundation } from './command.ts'
import { openRejects } from './import-file.ts'
import { openProgress, reportImport } from './import-report.ts'
import { formatFlags, openImport } from './open-import.ts'

export async function importVolumes(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, {
    rejects: { type: 'string' },
    json: { type: 'boolean', default: false },
    ...formatFlags,
  })
  const [path, ...more] = positionals
  if (!path || more.length > 0) throw new UsageError('Name one file, or - for standard input.')
  const columns = { known: Object.keys(VolumeForm.properties), required: VolumeForm.required }
  const source = await openImport(path, 'volumes', columns, values)
  const rejectsPath = values.rejects ?? (path === '-' ? 'rejected-volumes.csv' : `${path}.rejected.csv`)
  return withFoundation('import', async (app) => {
    const rejects = openRejects(rejectsPath)
    const progress = openProgress('volumes', source.size)
    const outcome = await importVolumeFile(app.batch, source, rejects, progress).finally(rejects.close)
    reportImport('volumes', outcome, rejectsPath, values.json, source.told)
    return 0
  })
}

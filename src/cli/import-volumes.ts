import { restoreVolumes } from '../batch/retention/restore-volumes.ts'
import { volumeArchive } from '../batch/retention/volume-archive.ts'
import { importVolumes as importVolumeFile } from '../batch/volumes/import-volumes.ts'
import { VolumeForm } from '../batch/volumes/volume-form.ts'
import { parseFlags, UsageError } from './command.ts'
import { openRejects, readRejectsPath } from './import-file.ts'
import { openImportProgress, reportImport } from './import-report.ts'
import { formatFlags, openArchiveNamed, openImport, whileImporting } from './open-import.ts'

export async function importVolumes(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, {
    rejects: { type: 'string' },
    json: { type: 'boolean', default: false },
    ...formatFlags,
  })
  const [path, ...more] = positionals
  if (!path || more.length > 0) throw new UsageError('Name one file, or - for standard input.')
  if (path.endsWith('.parquet')) return importArchive(path, values)
  const columns = { known: Object.keys(VolumeForm.properties), required: VolumeForm.required }
  const rejectsPath = await readRejectsPath(values.rejects, path, 'volumes')
  const source = await openImport(path, 'volumes', columns, values)
  return whileImporting(async (app) => {
    const rejects = openRejects(rejectsPath)
    const progress = openImportProgress('volumes', source.size)
    const outcome = await importVolumeFile(app.batch, source, rejects, progress).finally(rejects.close)
    reportImport('volumes', outcome, rejectsPath, values.json, source.format)
    return 0
  })
}

async function importArchive(
  path: string,
  { rejects: given, json }: { rejects?: string | undefined; json: boolean },
): Promise<number> {
  const rejectsPath = await readRejectsPath(given, path, 'volumes')
  const archive = await openArchiveNamed(volumeArchive, path)
  return whileImporting(async (app) => {
    const rejects = openRejects(rejectsPath)
    const progress = openImportProgress('volumes', archive.rows)
    const outcome = await restoreVolumes(app.batch, archive, rejects, progress).finally(rejects.close)
    reportImport('archived volumes', outcome, rejectsPath, json)
    return 0
  })
}

import { importRanks as importRankFile } from '../batch/ranks/import-ranks.ts'
import { RankForm } from '../batch/ranks/rank-form.ts'
import { rankArchive } from '../batch/retention/rank-archive.ts'
import { restoreRanks } from '../batch/retention/restore-ranks.ts'
import { callerIdPattern } from '../platform/id.ts'
import { parseFlags, UsageError } from './command.ts'
import { openRejects, readRejectsPath } from './import-file.ts'
import { openImportProgress, reportImport } from './import-report.ts'
import { formatFlags, openArchiveNamed, openImport, whileImporting } from './open-import.ts'

export async function importRanks(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, {
    workspace: { type: 'string' },
    rejects: { type: 'string' },
    json: { type: 'boolean', default: false },
    ...formatFlags,
  })
  const [path, ...more] = positionals
  if (!path || more.length > 0) throw new UsageError('Name one file, or - for standard input.')
  const { workspace } = values
  if (path.endsWith('.parquet')) return importArchive(path, workspace ?? null, values)
  if (workspace === undefined || !callerIdPattern.test(workspace)) {
    throw new UsageError('Name the workspace: --workspace ID, 1 to 64 of A-Za-z0-9_.:-')
  }
  const columns = { known: Object.keys(RankForm.properties), required: RankForm.required }
  const rejectsPath = await readRejectsPath(values.rejects, path, 'ranks')
  const source = await openImport(path, 'ranks', columns, values)
  return whileImporting(async (app) => {
    const rejects = openRejects(rejectsPath)
    const progress = openImportProgress('ranks', source.size)
    const outcome = await importRankFile(app.batch, workspace, source, rejects, progress).finally(
      rejects.close,
    )
    reportImport(`ranks into workspace ${workspace}`, outcome, rejectsPath, values.json, source.format)
    return 0
  })
}

/** An archive names the workspace of each rank, so that naming one here only chooses among them. */
async function importArchive(
  path: string,
  workspace: string | null,
  { rejects: given, json }: { rejects?: string | undefined; json: boolean },
): Promise<number> {
  const rejectsPath = await readRejectsPath(given, path, 'ranks')
  const archive = await openArchiveNamed(rankArchive, path)
  return whileImporting(async (app) => {
    const rejects = openRejects(rejectsPath)
    const progress = openImportProgress('ranks', archive.rows)
    const outcome = await restoreRanks(app.batch, archive, workspace, rejects, progress).finally(
      rejects.close,
    )
    reportImport(
      workspace === null ? 'archived ranks' : `archived ranks of ${workspace}`,
      outcome,
      rejectsPath,
      json,
    )
    return 0
  })
}

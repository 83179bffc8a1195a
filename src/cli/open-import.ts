import type { ImportRecord } from '../batch/import.ts'
import { isSeriesName } from '../batch/ranks/rank.ts'
import { type Archive, type ArchiveForm, NoArchive, openArchive } from '../batch/retention/archive.ts'
import { loadConfig } from '../config.ts'
import type { Foundation } from '../foundation.ts'
import { giveWay } from '../platform/give-way.ts'
import { parseDay } from '../platform/time.ts'
import { CommandFailed, UsageError, withFoundation } from './command.ts'
import { formats, openForeignFile } from './files/open-foreign-file.ts'
import { FileTrouble } from './files/table.ts'
import { headOf, type ImportFile, openImportFile, type RecordColumns } from './import-file.ts'
import type { ReadFormat } from './import-report.ts'

export const formatNames: readonly string[] = ['auto', ...formats.map(({ name }) => name)]

/** The flags that tell what a file of another tool does not say itself. */
export const formatFlags = {
  format: { type: 'string', default: 'auto' },
  day: { type: 'string' },
  site: { type: 'string' },
  device: { type: 'string' },
  location: { type: 'string' },
  depth: { type: 'string' },
} as const

type Flags = {
  readonly format: string
  readonly day?: string | undefined
  readonly site?: string | undefined
  readonly device?: string | undefined
  readonly location?: string | undefined
  readonly depth?: string | undefined
}

/** Makes way for the API only once the database is open: a server that this command had to start would inherit it, and keep it. */
export function whileImporting(work: (foundation: Foundation) => Promise<number>): Promise<number> {
  return withFoundation('import', (foundation) => {
    giveWay('somebody')
    return work(foundation)
  })
}

/** Opens a file to import: one in our own form, or one that another tool wrote, which says what it was taken for. */
export async function openImport(
  path: string,
  what: 'ranks' | 'volumes',
  columns: RecordColumns,
  flags: Flags,
): Promise<ImportFile & { format?: ReadFormat }> {
  if (!formatNames.includes(flags.format))
    throw new UsageError(`--format takes one of ${formatNames.join(', ')}.`)
  const said = saidIn(flags)
  const isAuto = flags.format === 'auto'
  if (path === '-') {
    if (isAuto) return openImportFile(path, columns)
    throw new UsageError('Standard input is read in our own form; name the file of another tool.')
  }
  let own: unknown
  if (isAuto) {
    try {
      return await openImportFile(path, columns)
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error
      own = error
    }
  }
  try {
    const { identity } = await headOf(path)
    const { timeZone } = loadConfig()
    const named = isAuto ? undefined : flags.format
    const file = await openForeignFile(path, identity, what, named, { ...said, timeZone })
    if (!file) throw own
    const { format, unknownColumns, notes } = file
    const read = { name: format.name, title: format.title, unknownColumns, notes }
    return { ...(what === 'ranks' ? asOldAsItsDays(file) : file), format: read }
  } catch (error) {
    throw error instanceof FileTrouble ? new CommandFailed(error.message) : error
  }
}

/**
 * Ranks that another tool found count as checked when their day began where clocks are furthest ahead: what was measured here
 * on that day came later, and stays. A file that is imported again corrects what it told before.
 */
function asOldAsItsDays(file: ImportFile): ImportFile {
  return {
    ...file,
    async *read(from) {
      for await (const chunk of file.read(from))
        yield { ...chunk, records: () => chunk.records().map(asOldAsItsDay) }
    },
  }
}

function asOldAsItsDay(record: ImportRecord): ImportRecord {
  const day = parseDay(String(record.fields?.['day']))
  if (record.fields === undefined || day === undefined) return record
  return { ...record, fields: { ...record.fields, checked_at: `${day}T00:00:00+14:00` } }
}

/** Opens an archive that `retention` wrote. */
export function openArchiveNamed<Row>(form: ArchiveForm<Row>, path: string): Promise<Archive<Row>> {
  return openArchive(form, path).catch((error: unknown) => {
    throw new CommandFailed(error instanceof NoArchive ? error.message : `${path} cannot be read.`)
  })
}

function saidIn({ day, site, device, location, depth }: Flags) {
  if (day !== undefined && parseDay(day) === undefined)
    throw new UsageError('--day takes a day such as 2026-11-14.')
  for (const [name, value] of Object.entries({ device, location }))
    if (value !== undefined && !isSeriesName(value))
      throw new UsageError(`--${name} takes 1 to 64 of A-Za-z0-9_.:-`)
  const places = depth === undefined ? undefined : Number(depth)
  if (places !== undefined && !(Number.isInteger(places) && places >= 1 && places <= 10_000))
    throw new UsageError('--depth takes a number from 1 to 10000.')
  return { day, site, device, location, depth: places }
}

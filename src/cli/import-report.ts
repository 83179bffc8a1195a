import type { ImportState } from '../batch/import.ts'
import { print, printJson } from './command.ts'
import { barOf } from './progress.ts'

const count = (number: number) => number.toLocaleString('en-US')

/**
 * Tells how an import goes, on standard error: a bar that redraws itself on a terminal, a plain line every five
 * seconds elsewhere.
 */
export function openImportProgress(what: string, size: number | null): (state: ImportState) => void {
  const isTerminal = process.stderr.isTTY === true
  const everyMs = isTerminal ? 100 : 5_000
  let lastShownAt = performance.now()
  return (state) => {
    const now = performance.now()
    const isDone = state.bytes === size && size > 0
    if (now - lastShownAt < everyMs && !(isTerminal && isDone)) return
    lastShownAt = now
    const share = size === null || size === 0 ? undefined : Math.min(1, state.bytes / size)
    const text = `${what}: ${count(state.lines)} lines${share === undefined ? '' : `, ${Math.floor(share * 100)} %`}`
    if (!isTerminal) process.stderr.write(`${text}\n`)
    else
      process.stderr.write(`${share === undefined ? '' : `${barOf(share)} `}${text}${isDone ? '\n' : '\r'}`)
  }
}

export type ImportOutcome = ImportState & { resumedAt: number }

/** What was understood of a file that another tool wrote. */
export type ReadFormat = {
  name: string
  title: string
  unknownColumns: readonly string[]
  notes: readonly string[]
}

/** The last word: counts, and where the rejected lines are. */
export function reportImport(
  what: string,
  outcome: ImportOutcome,
  rejectsPath: string,
  asJson: boolean,
  format?: ReadFormat,
): void {
  const { inserted, updated, unchanged, rejected, lines, resumedAt } = outcome
  const rejects = rejected > 0 ? rejectsPath : null
  if (asJson) {
    const counts = { inserted, updated, unchanged, rejected, lines, resumed_after_line: resumedAt, rejects }
    const understood = format && {
      format: format.name,
      unknown_columns: format.unknownColumns,
      notes: format.notes,
    }
    printJson({ ...counts, ...understood })
    return
  }
  if (format) {
    print(`Read as a file of ${format.title}.`)
    for (const note of format.notes) print(note)
    if (format.unknownColumns.length > 0)
      print(`Columns that nobody here knows, and nothing is read from: ${format.unknownColumns.join(', ')}`)
  }
  if (resumedAt > 0) print(`Went on after line ${count(resumedAt)}, where an earlier run had stopped.`)
  print(
    `Imported ${what}: ${count(inserted)} inserted, ${count(updated)} updated, ${count(unchanged)} unchanged, ${count(rejected)} rejected.`,
  )
  if (rejects) print(`Rejected lines and reasons: ${rejects}`)
}

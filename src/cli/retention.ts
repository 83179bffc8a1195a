import { mkdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import {
  dropOldMonths,
  findOldMonths,
  HistoryBusy,
  type OldMonths,
} from '../batch/retention/drop-old-months.ts'
import { periodOf } from '../batch/retention/month-rows.ts'
import { addDuration, dayOf, parseDuration } from '../platform/time.ts'
import {
  type Command,
  CommandFailed,
  parseOnlyFlags,
  print,
  printJson,
  printTable,
  UsageError,
  withFoundation,
} from './command.ts'
import { openProgress } from './progress.ts'

export const retention: Command = {
  summary: 'Drop old months of rank history, archived first if asked for',
  usage: `rankledger retention --keep MONTHS [--archive DIR] [--yes] [--json]

MONTHS is how many whole months before the current one stay: 25m, or 3y. Prints what would go; with --yes it goes. With
--archive each month is first written to DIR as a Parquet file, which \`rankledger import ranks FILE.parquet\` reads back.
Ranks before 2025 are kept by the year and go by the year. Run it as the role that owns the tables. Stopped at any moment,
the next run goes on.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, {
      keep: { type: 'string' },
      archive: { type: 'string' },
      yes: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    })
    const months = monthsIn(values.keep)
    const folder = values.archive === undefined ? null : resolve(values.archive)
    return withFoundation('retention', async ({ batch }) => {
      const before = firstDayKept(batch.clock(), months)
      const old = await findOldMonths(batch, before)
      if (!values.yes) {
        if (values.json)
          printJson({
            kept_from: before,
            dropped: false,
            months: old.months.map(viewOf),
            leaving: old.leaving,
          })
        else printPlan(old, before)
        return 0
      }
      if (folder) await mkdir(folder, { recursive: true })
      const progress = openProgress('months', old.months.length + old.leaving.length)
      let done = 0
      const dropped = await dropOldMonths(batch, old, folder, {
        waiting: (period) => progress.show(done, `${period} is being read, waiting`),
        archived: (period, rows) => progress.show(done, `${period}: ${rows} rows written`),
        dropped: () => progress.show(++done),
      }).catch((error: unknown) => {
        throw explained(error)
      })
      progress.end()
      if (values.json) printJson({ kept_from: before, dropped: true, months: dropped })
      else if (dropped.length === 0) print(`Nothing to drop: there are no ranks before ${before}.`)
      else
        for (const { period, archive, rows } of dropped)
          print(archive ? `Dropped ${period}: ${rows} rows are in ${archive}` : `Dropped ${period}`)
      return 0
    })
  },
}

function monthsIn(text: string | undefined): number {
  const match = /^(\d{1,4})([my])$/.exec(text ?? '')
  const months = match ? Number(match[1]) * (match[2] === 'y' ? 12 : 1) : 0
  if (months < 1 || months > 1_200)
    throw new UsageError(
      'Say how many months stay: --keep 25m, or --keep 3y; at least one, at most a hundred years.',
    )
  return months
}

function firstDayKept(now: Date, months: number): string {
  const ago = addDuration(now, parseDuration(`-P${months}M`)!, 'UTC')!
  return `${dayOf(ago, 'UTC').slice(0, 7)}-01`
}

function viewOf({ table, from, to, rows, bytes }: OldMonths['months'][number]) {
  return { period: periodOf(table), from, to, rows, bytes }
}

function printPlan({ months, leaving }: OldMonths, before: string): void {
  if (months.length + leaving.length === 0) {
    print(`Nothing to drop: there are no ranks before ${before}.`)
    return
  }
  const megabytes = (bytes: number) => (bytes / 1_048_576).toFixed(1)
  printTable(
    ['month', 'rows (about)', 'MiB'],
    [
      ...leaving.map(({ table, bytes }) => [`${periodOf(table)}, begun earlier`, '', megabytes(bytes)]),
      ...months.map(({ table, rows, bytes }) => [
        periodOf(table),
        rows === null ? '?' : String(rows),
        megabytes(bytes),
      ]),
    ],
  )
  print(`Ranks from ${before} on stay. Nothing was changed; with --yes these months go.`)
}

function explained(error: unknown): unknown {
  if (error instanceof HistoryBusy) return new CommandFailed(error.message)
  if ((error as { code?: string }).code === '42501')
    return new CommandFailed(
      'This role may not drop tables: run it as the one that owns them, which migrates.',
    )
  return error
}

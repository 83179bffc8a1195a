import { mkdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { MonthlyHistory } from '../batch/month-rows.ts'
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
  summary: 'Drop old months of ranks and of daily volumes, archived first if asked for',
  usage: `rankledger retention --keep MONTHS [--only ranks|volumes] [--archive DIR] [--yes] [--json]

MONTHS is how many whole months before the current one stay: 25m, or 3y. Prints what would go; with --yes it goes. With
--archive each month is first written to DIR as a Parquet file, which \`rankledger import ranks|volumes FILE.parquet\` reads
back. Of volumes the observations go; the monthly volumes made of them stay for good. What is from before 2025 is kept by the
year and goes by the year. Run it as the role that owns the tables. Stopped at any moment, the next run goes on.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, {
      keep: { type: 'string' },
      only: { type: 'string' },
      archive: { type: 'string' },
      yes: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    })
    const months = monthsIn(values.keep)
    const histories = historiesIn(values.only)
    const folder = values.archive === undefined ? null : resolve(values.archive)
    return withFoundation('retention', async ({ batch }) => {
      const before = firstDayKept(batch.clock(), months)
      const old = await findOldMonths(batch, histories, before)
      if (!values.yes) {
        if (values.json)
          printJson({
            kept_from: before,
            dropped: false,
            months: old.months.map(viewOf),
            leaving: old.leaving.map(({ history, table, bytes }) => ({ of: whats[history], table, bytes })),
          })
        else printPlan(old, histories, before)
        return 0
      }
      if (folder) await mkdir(folder, { recursive: true })
      const progress = openProgress('months', old.months.length + old.leaving.length)
      let done = 0
      const dropped = await dropOldMonths(batch, old, folder, {
        waiting: (month, why) => progress.show(done, `${nameOf(month)} is being ${why}, waiting`),
        archived: (month, rows) => progress.show(done, `${nameOf(month)}: ${rows} rows written`),
        dropped: () => progress.show(++done),
      }).catch((error: unknown) => {
        throw explained(error)
      })
      progress.end()
      if (values.json) {
        const months = dropped.map(({ history, ...month }) => ({ of: whats[history], ...month }))
        printJson({ kept_from: before, dropped: true, months })
      } else if (dropped.length === 0) printNothing(histories, before)
      else
        for (const { history, period, archive, rows } of dropped) {
          const month = `${whats[history]} of ${period}`
          print(archive ? `Dropped ${month}: ${rows} rows are in ${archive}` : `Dropped ${month}`)
        }
      return 0
    })
  },
}

const whats: Readonly<Record<MonthlyHistory, string>> = { rank: 'ranks', volume_observation: 'volumes' }

function historiesIn(only: string | undefined): MonthlyHistory[] {
  const all = Object.keys(whats) as MonthlyHistory[]
  if (only === undefined) return all
  const named = all.filter((history) => whats[history] === only)
  if (named.length === 0) throw new UsageError('--only takes ranks or volumes.')
  return named
}

function nameOf({ history, table }: { history: MonthlyHistory; table: string }): string {
  return `${whats[history]} of ${periodOf(table)}`
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

function viewOf({ history, table, from, to, rows, bytes }: OldMonths['months'][number]) {
  return { of: whats[history], period: periodOf(table), from, to, rows, bytes }
}

function printNothing(histories: readonly MonthlyHistory[], before: string): void {
  const what = histories.map((one) => whats[one]).join(' or ')
  // A year that is kept as one table may hold older rows, which stay until all of it is old.
  print(`Nothing to drop: no month or year of ${what} ends before ${before}.`)
}

function printPlan(
  { months, leaving }: OldMonths,
  histories: readonly MonthlyHistory[],
  before: string,
): void {
  if (months.length + leaving.length === 0) {
    printNothing(histories, before)
    return
  }
  const megabytes = (bytes: number) => (bytes / 1_048_576).toFixed(1)
  printTable(
    ['of', 'month', 'rows (about)', 'MiB'],
    [
      ...leaving.map(({ history, table, bytes }) => [
        whats[history],
        `${periodOf(table)}, begun earlier`,
        '',
        megabytes(bytes),
      ]),
      ...months.map(({ history, table, rows, bytes }) => [
        whats[history],
        periodOf(table),
        rows === null ? '?' : String(rows),
        megabytes(bytes),
      ]),
    ],
  )
  print(`What is from ${before} on stays. Nothing was changed; with --yes these months go.`)
}

function explained(error: unknown): unknown {
  if (error instanceof HistoryBusy) return new CommandFailed(error.message)
  if ((error as { code?: string }).code === '42501')
    return new CommandFailed(
      'This role may not drop tables: run it as the one that owns them, which migrates.',
    )
  return error
}

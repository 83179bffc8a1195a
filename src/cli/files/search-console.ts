import {
  type Columns,
  dayOfFile,
  dayWritten,
  type FileFormat,
  findHeader,
  type Said,
  troubleOf,
} from './format.ts'
import { FileTrouble, type Workbook } from './table.ts'

const columns: Columns<'keyword' | 'position'> = {
  read: {
    keyword: ['Top queries', 'Queries', 'Query', '인기 검색어', '검색어'],
    position: ['Position', 'Average position', '게재 순위', '게재순위', '평균 게재순위', '평균 게재 순위'],
  },
  required: ['keyword', 'position'],
  ignored: ['Clicks', 'Impressions', 'CTR', '클릭수', '노출', '노출수', '클릭률'],
}

/** Of two periods side by side nobody could say which one is meant. */
const compared = /^(last|previous|지난|이전) .+ (position|게재 ?순위)$/

/**
 * What Google Search Console exports under "Performance": a zip of CSV files, or the one with the queries. Its positions are
 * means over all times that a query was shown, so that they stand under an engine name of their own.
 */
export const searchConsole: FileFormat = {
  name: 'gsc',
  title: 'Google Search Console',
  tells: 'ranks',
  open(book, said) {
    refuseComparison(book)
    const found = book.tables
      .map((table) => ({ table, header: findHeader(table, columns) }))
      .find(({ header }) => header !== undefined)
    if (!found?.header) return undefined
    const { table, header } = found
    const { day, note } = dayOf(book, said)
    const series = {
      engine: 'google_search_console',
      device: said.device ?? 'all',
      location: said.location ?? 'all',
    }
    return {
      table,
      headerLine: header.line,
      unknownColumns: header.unknown,
      notes: [note],
      read(row) {
        const trouble = troubleOf(row, table, header.titles.length)
        if (trouble) return trouble
        const mean = meanOf(header.cell(row, 'position'))
        if (mean === undefined) return 'position_wrong_form'
        const position = Math.max(1, Math.round(mean))
        const searched_depth = Math.max(100, position)
        return [
          {
            keyword: header.cell(row, 'keyword'),
            day,
            status: 'ranked',
            position,
            mean_position: mean,
            searched_depth,
            ...series,
          },
        ]
      },
    }
  },
}

function refuseComparison({ tables }: Workbook): void {
  const titles = tables.flatMap(({ head }) => head.flatMap(({ cells }) => cells ?? []))
  if (titles.some((title) => compared.test(title.trim().toLowerCase())))
    throw new FileTrouble('This export compares two periods. Export one period, without comparison.')
}

/** Means have decimals, with a point or a comma. */
function meanOf(text: string): number | undefined {
  const mean = /^\d{1,4}([.,]\d{1,9})?$/.test(text) ? Number(text.replace(',', '.')) : Number.NaN
  return mean >= 1 ? mean : undefined
}

/** The rows are of a whole period. Where its end is written down, they are stored under it, else under the day of the export. */
function dayOf(book: Workbook, said: Said): { day: string; note: string } {
  const range = said.day === undefined ? exportedDays(book) : undefined
  if (range?.from === range?.to && range)
    return { day: range.to, note: `Positions are those of ${range.to}.` }
  if (range)
    return {
      day: range.to,
      note: `Positions are means over ${range.from} to ${range.to}, and stored under the last day.`,
    }
  const day = dayOfFile(book, said)
  return { day, note: `Positions are means over the period that was exported, and stored under ${day}.` }
}

/** `Filters.csv` says what was exported: `Date,2026-08-01-2026-10-31`, or only `Date,Last 3 months`. */
function exportedDays({ tables }: Workbook): { from: string; to: string } | undefined {
  const filters = tables.filter(({ name }) => /^(filters|필터)\.csv$/i.test(name.normalize('NFC')))
  for (const { cells } of filters.flatMap(({ head }) => head)) {
    if (!/^(date|날짜)$/i.test(cells?.[0]?.trim() ?? '')) continue
    const text = (cells ?? []).slice(1).join(', ').trim()
    const one = dayWritten(text)
    if (one) return { from: one, to: one }
    for (const cut of text.matchAll(/\s*[-–—~]\s*/g)) {
      const from = dayWritten(text.slice(0, cut.index))
      const to = dayWritten(text.slice(cut.index + cut[0].length))
      if (from && to && from <= to) return { from, to }
    }
  }
  return undefined
}

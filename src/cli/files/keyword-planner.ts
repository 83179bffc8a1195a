import {
  type Columns,
  countOf,
  dayWritten,
  type Fields,
  type FileFormat,
  findTable,
  type Header,
  monthOf,
  type Said,
  troubleOf,
} from './format.ts'
import { FileTrouble, type Row, type Table } from './table.ts'

type Name = 'keyword' | 'average'

const columns: Columns<Name> = {
  read: { keyword: ['Keyword'], average: ['Avg. monthly searches'] },
  required: ['keyword', 'average'],
  ignored: [
    'Currency',
    'Segmentation',
    'Three month change',
    'YoY change',
    'Competition',
    'Competition (indexed value)',
    'Top of page bid (low range)',
    'Top of page bid (high range)',
    'Ad impression share',
    'Organic impression share',
    'Organic average position',
    'In account',
    'In plan',
    /^searches: /,
  ],
}

/** What Google's Keyword Planner downloads as "historical metrics": two lines of title, then a table. */
export const keywordPlanner: FileFormat = {
  name: 'keyword-planner',
  title: 'Google Keyword Planner',
  tells: 'volumes',
  open(book, said) {
    const found = findTable(book, columns)
    return found && readingOf(found.table, found.header, said)
  },
}

function readingOf(table: Table, header: Header<Name>, said: Said) {
  const monthly = monthColumns(header)
  const average = monthly.length > 0 ? undefined : averageDay(table, header, said)
  return {
    table,
    headerLine: header.line,
    unknownColumns: header.unknown,
    notes:
      average === undefined
        ? []
        : [`The file has no months: its averages are stored as those of ${average.slice(0, 7)}.`],
    read(row: Row): readonly (Fields | string)[] | string {
      const trouble = troubleOf(row, table, header.titles.length)
      if (trouble) return trouble
      const keyword = header.cell(row, 'keyword')
      // A row without a keyword is a part of the one above: the same searches again, by device or place.
      if (keyword === '') return []
      const told =
        average === undefined
          ? monthly.map(({ at, day }) => ({ day, text: row.cells?.[at]?.trim() ?? '' }))
          : [{ day: average, text: header.cell(row, 'average') }]
      const volumes: (Fields | string)[] = []
      for (const { day, text } of told) {
        if (text === '') continue
        const volume = volumeOf(text)
        volumes.push(
          volume
            ? { keyword, source: 'google_keyword_planner', kind: 'month', day, ...volume }
            : 'volume_wrong_form',
        )
      }
      return volumes.length === 0 ? 'volume_missing' : volumes
    },
  }
}

/** `Searches: Jan 2026`. */
function monthColumns({ titles }: Header<Name>): { at: number; day: string }[] {
  return titles.flatMap((title, at) => {
    const [, name = '', year] = /^searches: ([a-z]{3,9}) (20\d\d)$/.exec(title) ?? []
    const month = monthOf(name)
    return month === undefined ? [] : [{ at, day: `${year}-${String(month).padStart(2, '0')}-01` }]
  })
}

/** An average over a year is no month's volume: which month it stands for, only the range or the operator can say. */
function averageDay({ head }: Table, { line }: Header<Name>, said: Said): string {
  if (said.day !== undefined) return said.day
  const preamble = head.filter((row) => row.line < line).map(({ raw }) => raw.replaceAll('"', '').trim())
  for (const text of preamble) {
    const [from, to] = text.split(/\s+[-–—]\s+/).map((part) => dayWritten(part.trim()))
    if (from && to && from.slice(0, 7) === to.slice(0, 7)) return from
  }
  throw new FileTrouble(
    'This file tells averages over several months, and none of a month. Download it with monthly columns ("Searches: Jan 2026"), or say which month they stand for: --day YYYY-MM-DD.',
  )
}

/** `1K – 10K` says no more than "at most 10,000". */
function volumeOf(text: string): { volume: number } | { volume_max: number } | undefined {
  const range = /^[\d.,]+\s*[KM]?\s*[-–—]\s*(?<most>[\d.,]+)\s*(?<unit>[KM]?)$/.exec(text)?.groups
  if (range) {
    const most = Number(range['most']?.replaceAll(',', '')) * ({ K: 1e3, M: 1e6 }[range['unit'] ?? ''] ?? 1)
    return Number.isSafeInteger(most) ? { volume_max: most } : undefined
  }
  const told = countOf(text)
  if (!told) return undefined
  return told.isBound ? { volume_max: told.count } : { volume: told.count }
}

import {
  bestPlaces,
  type Columns,
  dayOfFile,
  type Fields,
  type FileFormat,
  findHeader,
  type Header,
  placeOf,
  type Reading,
  requireSaid,
  type Said,
  troubleOf,
} from './format.ts'
import { FileTrouble, type Row, type Table, type Workbook } from './table.ts'

const usualDepth = 100
const notRanked = ['-']

/** What Semrush exports: Position Tracking with a column per site and day, or the Positions of Organic Research. */
export const semrush: FileFormat = {
  name: 'semrush',
  title: 'Semrush',
  tells: 'ranks',
  open(book, said) {
    for (const table of book.tables) {
      const tracking = findHeader(table, trackingColumns)
      const days = tracking ? dayColumns(tracking) : []
      if (tracking && days.length > 0) return trackingOf(table, tracking, days, said)
      const positions = findHeader(table, positionColumns)
      if (positions) return positionsOf(book, table, positions, said)
    }
    return undefined
  },
}

const trackingColumns: Columns<'keyword'> = {
  read: { keyword: ['Keyword'] },
  required: ['keyword'],
  ignored: [
    'Tags',
    'Intents',
    'Search Volume',
    'CPC',
    'Keyword Difficulty',
    /_20\d{6}(_type|_landing|_difference)?$/,
    /_difference$/,
  ],
}

type DayColumn = { site: string; day: string; place: number; type: number; landing: number }

/** `*.example.com/*_20260310`, and beside it the same with `_type` and `_landing`. */
function dayColumns({ titles }: Header<'keyword'>): DayColumn[] {
  return titles.flatMap((title, place) => {
    const [, site, year, month, day] = /^(.+)_(20\d\d)(\d\d)(\d\d)$/.exec(title) ?? []
    if (site === undefined) return []
    const beside = (part: string) => titles.indexOf(`${title}_${part}`)
    return [{ site, day: `${year}-${month}-${day}`, place, type: beside('type'), landing: beside('landing') }]
  })
}

function trackingOf(
  table: Table,
  header: Header<'keyword'>,
  days: readonly DayColumn[],
  said: Said,
): Reading {
  const sites = [...new Set(days.map(({ site }) => site))]
  const wanted = said.site?.toLowerCase()
  const site = sites.length === 1 && wanted === undefined ? sites[0] : sites.find((one) => one === wanted)
  if (site === undefined)
    throw new FileTrouble(
      `This file has the ranks of several sites: say which, --site ${sites.map((one) => `'${one}'`).join(' or ')}.`,
    )
  const device = requireSaid(said, 'device', 'desktop or mobile')
  const location = requireSaid(said, 'location', 'KR')
  return {
    table,
    headerLine: header.line,
    unknownColumns: header.unknown,
    notes: [`Read are the ranks of ${site}.`],
    read(row) {
      const trouble = troubleOf(row, table, header.titles.length)
      if (trouble) return trouble
      const keyword = header.cell(row, 'keyword')
      const cell = (at: number) => row.cells?.[at]?.trim() ?? ''
      const ranks: (Fields | string)[] = []
      for (const column of days.filter((one) => one.site === site)) {
        const text = cell(column.place)
        // The keyword was not tracked yet.
        if (text === '') continue
        if (!isOrganic(cell(column.type))) {
          ranks.push('not_organic')
          continue
        }
        const place = placeOf(text, notRanked, said.depth ?? usualDepth)
        if ('code' in place) ranks.push(place.code)
        else
          ranks.push({
            keyword,
            day: column.day,
            engine: 'google',
            device,
            location,
            ...place.fields,
            ...urlOf(place.fields, cell(column.landing)),
          })
      }
      return ranks
    },
  }
}

type PositionName = 'keyword' | 'position' | 'url' | 'timestamp' | 'type'

const positionColumns: Columns<PositionName> = {
  read: {
    keyword: ['Keyword'],
    position: ['Position'],
    url: ['URL'],
    timestamp: ['Timestamp'],
    type: ['Position Type'],
  },
  required: ['keyword', 'position', 'url', 'type'],
  ignored: [
    'Previous position',
    'Search Volume',
    'Keyword Difficulty',
    'CPC',
    'CPC (USD)',
    'Traffic',
    'Traffic (%)',
    'Traffic Cost',
    'Traffic Cost (%)',
    'Competition',
    'Number of Results',
    'Trends',
    'SERP Features by Keyword',
    'Keyword Intents',
  ],
}

function positionsOf(book: Workbook, table: Table, header: Header<PositionName>, said: Said): Reading {
  const device = requireSaid(said, 'device', 'desktop or mobile')
  const location = said.location ?? databaseIn(book.fileName) ?? requireSaid(said, 'location', 'KR')
  const dayOfRow = (row: Row) => /^20\d\d-\d\d-\d\d/.exec(header.cell(row, 'timestamp'))?.[0]
  const day = header.has('timestamp') && said.day === undefined ? undefined : dayOfFile(book, said)
  return {
    table,
    headerLine: header.line,
    unknownColumns: header.unknown,
    notes: [],
    ...bestPlaces((row) => {
      const trouble = troubleOf(row, table, header.titles.length)
      if (trouble) return trouble
      if (!isOrganic(header.cell(row, 'type'))) return 'not_organic'
      const place = placeOf(header.cell(row, 'position'), notRanked, said.depth ?? usualDepth)
      if ('code' in place) return place.code
      const onDay = day ?? dayOfRow(row)
      if (onDay === undefined) return 'day_missing'
      const keyword = header.cell(row, 'keyword')
      return {
        keyword,
        day: onDay,
        engine: 'google',
        device,
        location,
        ...place.fields,
        ...urlOf(place.fields, header.cell(row, 'url')),
      }
    }),
  }
}

/** `example.com-organic.Positions-kr-20260310.csv`: the database is a country. */
function databaseIn(fileName: string): string | undefined {
  return /positions-([a-z]{2})-/i.exec(fileName)?.[1]?.toUpperCase().replace(/^UK$/, 'GB')
}

/** Maps and boxes have places of their own. Where no type is told, the export had only one. */
function isOrganic(type: string): boolean {
  return type === '' || type === '-' || type.toLowerCase() === 'organic'
}

function urlOf({ status }: Fields, url: string): Fields {
  return status === 'ranked' && /^https?:/.test(url) ? { url } : {}
}

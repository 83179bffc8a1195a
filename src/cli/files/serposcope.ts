import {
  type Columns,
  type FileFormat,
  findTable,
  type Header,
  placeOf,
  type Said,
  troubleOf,
} from './format.ts'
import type { Row, Table } from './table.ts'

type Name = 'date' | 'rank' | 'url' | 'target' | 'keyword' | 'device' | 'country' | 'local'

const columns: Columns<Name> = {
  read: {
    date: ['date'],
    rank: ['rank'],
    url: ['url'],
    target: ['target'],
    keyword: ['keyword'],
    device: ['device'],
    country: ['country'],
    local: ['local'],
  },
  required: ['date', 'rank', 'url', 'target', 'keyword', 'device', 'country'],
  ignored: ['datacenter', 'custom'],
}

const devices: Readonly<Record<string, string>> = { D: 'desktop', M: 'mobile' }
const usualDepth = 100

/** What Serposcope exports: every check of every site. */
export const serposcope: FileFormat = {
  name: 'serposcope',
  title: 'Serposcope',
  tells: 'ranks',
  open(book, said) {
    const found = findTable(book, columns)
    return found && readingOf(found.table, found.header, said)
  },
}

function readingOf(table: Table, header: Header<Name>, said: Said) {
  const width = header.titles.length
  const first = table.head.find(({ line, raw }) => line > header.line && raw.trim() !== '')
  // Two sites have one place each for the same keyword; they are no one series.
  const site = said.site ?? (first && header.cell(withWholeUrl(first, header, width), 'target'))
  return {
    table,
    headerLine: header.line,
    unknownColumns: header.unknown,
    notes: [`Read are the ranks of ${site}; those of other targets are rejected.`],
    read(given: Row) {
      const row = withWholeUrl(given, header, width)
      const trouble = troubleOf(row, table, width)
      if (trouble) return trouble
      const cell = (name: Name) => header.cell(row, name)
      if (cell('target') !== site) return 'other_target'
      const device = said.device ?? devices[cell('device').toUpperCase()]
      if (device === undefined) return 'device_wrong_form'
      const country = cell('country').toUpperCase()
      const local = cell('local').replace(/\s+/g, '_')
      const series = {
        keyword: cell('keyword'),
        day: cell('date').slice(0, 10),
        engine: 'google',
        device,
        location: said.location ?? (local === '' ? country : `${country}:${local}`),
      }
      // Nobody looked: that is not the same as nothing found.
      if (cell('rank') === '') return [{ ...series, status: 'failed', reason: 'not_checked' }]
      const place = placeOf(cell('rank'), ['32767'], said.depth ?? usualDepth)
      if ('code' in place) return place.code
      const url = cell('url')
      return [
        {
          ...series,
          ...place.fields,
          ...(place.fields['status'] === 'ranked' && url !== '' && url !== 'null' && { url }),
        },
      ]
    },
  }
}

/** Addresses are not quoted, so that their commas look like the ends of cells. */
function withWholeUrl(row: Row, header: Header<Name>, width: number): Row {
  const extra = (row.cells?.length ?? 0) - width
  const at = header.titles.indexOf('url')
  if (!row.cells || extra <= 0) return row
  const url = row.cells.slice(at, at + extra + 1).join(',')
  if (!/^https?:/.test(url)) return row
  return { ...row, cells: [...row.cells.slice(0, at), url, ...row.cells.slice(at + extra + 1)] }
}

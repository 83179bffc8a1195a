import {
  bestPlaces,
  type Columns,
  dayOfFile,
  type FileFormat,
  findTable,
  placeOf,
  requireSaid,
  troubleOf,
} from './format.ts'

type Name = 'keyword' | 'position' | 'url' | 'country'

const columns: Columns<Name> = {
  read: {
    keyword: ['Keyword'],
    position: ['Current position'],
    url: ['Current URL'],
    country: ['Country', 'Country code'],
  },
  required: ['keyword', 'position'],
  ignored: [
    'Volume',
    'KD',
    'CPC',
    'SERP features',
    'Position change',
    'Traffic change',
    'Current organic traffic',
    'Current date',
    /^previous /,
    / kind$/,
    /^organic traffic/,
  ],
}

const usualDepth = 100

/** What Ahrefs exports as organic keywords of Site Explorer. An empty place is none among those it looked at. */
export const ahrefs: FileFormat = {
  name: 'ahrefs',
  title: 'Ahrefs',
  tells: 'ranks',
  open(book, said) {
    const found = findTable(book, columns)
    if (!found) return undefined
    const { table, header } = found
    const day = dayOfFile(book, said)
    const device = requireSaid(said, 'device', 'desktop or mobile')
    const everywhere = header.has('country') ? said.location : requireSaid(said, 'location', 'KR')
    return {
      table,
      headerLine: header.line,
      unknownColumns: header.unknown,
      notes: [`Ranks are stored under ${day}.`],
      ...bestPlaces((row) => {
        const trouble = troubleOf(row, table, header.titles.length)
        if (trouble) return trouble
        const country = header.cell(row, 'country')
        const location = everywhere ?? (/^[A-Za-z]{2}$/.test(country) ? country.toUpperCase() : undefined)
        if (location === undefined) return 'location_wrong_form'
        const place = placeOf(header.cell(row, 'position'), [''], said.depth ?? usualDepth)
        if ('code' in place) return place.code
        const url = header.cell(row, 'url')
        const isFound = place.fields['status'] === 'ranked' && url !== ''
        return {
          keyword: header.cell(row, 'keyword'),
          day,
          engine: 'google',
          device,
          location,
          ...place.fields,
          ...(isFound && { url }),
        }
      }),
    }
  },
}

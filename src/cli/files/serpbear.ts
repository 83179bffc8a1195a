import { dayOf, parseInstant } from '../../platform/time.ts'
import { type FileFormat, placeOf } from './format.ts'
import type { Row } from './table.ts'

const titles = ['id', 'keyword', 'position', 'url', 'country', 'city', 'device', 'updated', 'added', 'tags']

// Nothing is quoted, so that a comma in a keyword or a tag breaks the columns: a row is read from what cannot be mistaken, the
// address, the device and the times.
const shape =
  /^\d+, (?<keyword>.+), (?<position>-|\d+), (?<url>-|https?:\/\/\S*), (?<places>.*), (?<device>desktop|mobile), (?<updated>[^,]+), (?<added>[^,]+),(?<tags>.*)$/

// It reads the first page, unless it was told to read more; to say less than was read is true in any case.
const leastDepth = 10

/** What SerpBear exports: the newest place of each keyword. */
export const serpbear: FileFormat = {
  name: 'serpbear',
  title: 'SerpBear',
  tells: 'ranks',
  open({ tables }, said) {
    const countries = countryCodes()
    for (const table of tables) {
      const header = table.head.find(isHeader)
      if (!header) continue
      return {
        table,
        headerLine: header.line,
        unknownColumns: [],
        notes: ['The file holds the newest place of each keyword; older ones are not in it.'],
        read({ raw }) {
          const found = shape.exec(raw)?.groups
          if (!found) return 'wrong_number_of_cells'
          const updated = parseInstant(found['updated']!.trim())
          if (updated === undefined) return 'checked_at_wrong_form'
          const location = said.location ?? countryIn(found['places']!, countries)
          if (location === undefined) return 'location_wrong_form'
          const place = placeOf(found['position']!, ['-'], said.depth ?? leastDepth)
          if ('code' in place) return place.code
          const url = found['url']!
          return [
            {
              keyword: found['keyword']!.trim(),
              day: dayOf(updated, said.timeZone ?? 'UTC'),
              checked_at: updated.toISOString(),
              engine: 'google',
              device: said.device ?? found['device']!,
              location,
              ...place.fields,
              // One that is not found keeps an old address in the file.
              ...(place.fields['status'] === 'ranked' && url !== '-' && { url }),
            },
          ]
        },
      }
    }
    return undefined
  },
}

function isHeader({ raw }: Row): boolean {
  const names = raw.split(',').map((name) => name.trim().toLowerCase())
  return names.length === titles.length && names.every((name, at) => name === titles[at])
}

/** `Korea, Republic of, -`: the country by its name, which may hold a comma itself, then the city. */
function countryIn(places: string, countries: ReadonlyMap<string, string>): string | undefined {
  const parts = places.split(',')
  for (let length = parts.length - 1; length >= 1; length--) {
    const code = countries.get(parts.slice(0, length).join(',').trim().toLowerCase())
    if (code === undefined) continue
    const city = parts.slice(length).join(',').trim()
    return city === '-' || city === '' ? code : `${code}:${city.replace(/\s+/g, '_')}`
  }
  return undefined
}

function countryCodes(): ReadonlyMap<string, string> {
  const names = new Intl.DisplayNames('en', { type: 'region', fallback: 'none' })
  const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']
  const codes = letters.flatMap((first) => letters.map((second) => first + second))
  const known = codes.flatMap((code) => {
    const name = names.of(code)
    return name === undefined ? [] : [[name.toLowerCase(), code] as const]
  })
  return new Map([
    ...known,
    ['korea, republic of', 'KR'],
    ['south korea', 'KR'],
    ['united states of america', 'US'],
  ])
}

import { addDays } from '../../platform/time.ts'
import {
  type Columns,
  countOf,
  dayInName,
  type FileFormat,
  type Header,
  headerOf,
  type Said,
  troubleOf,
} from './format.ts'
import { FileTrouble, type Table, type Workbook } from './table.ts'

type Name = 'keyword' | 'pc' | 'mobile'

const columns: Columns<Name> = {
  read: { keyword: ['연관키워드'], pc: ['월간검색수(PC)'], mobile: ['월간검색수(모바일)'] },
  required: ['keyword', 'pc', 'mobile'],
  ignored: [
    '월평균클릭수(PC)',
    '월평균클릭수(모바일)',
    '월평균클릭률(PC)',
    '월평균클릭률(모바일)',
    '경쟁정도',
    '월평균노출 광고수',
    '월평균노출광고수',
  ],
}

/** What Naver's keyword tool downloads: searches of 30 days, by surface. The tool writes keywords without spaces. */
export const naver: FileFormat = {
  name: 'naver',
  title: 'Naver 키워드도구',
  tells: 'volumes',
  open(book, said) {
    for (const table of book.tables) {
      const header = findNaverHeader(table)
      if (!header) continue
      const day = windowEnd(book, said)
      return {
        table,
        headerLine: header.line,
        unknownColumns: header.unknown,
        notes: [`Volumes are those of the 30 days up to ${day}.`],
        read(row) {
          const trouble = troubleOf(row, table, header.titles.length)
          if (trouble) return trouble
          const [pc, mobile] = [countOf(header.cell(row, 'pc')), countOf(header.cell(row, 'mobile'))]
          if (!pc || !mobile) return 'volume_wrong_form'
          const sum = pc.count + mobile.count
          return [
            {
              keyword: header.cell(row, 'keyword'),
              source: 'naver_searchad',
              kind: 'rolling_30d',
              day,
              ...(pc.isBound || mobile.isBound ? { volume_max: sum } : { volume: sum }),
              ...(!pc.isBound && { pc: pc.count }),
              ...(!mobile.isBound && { mobile: mobile.count }),
            },
          ]
        },
      }
    }
    return undefined
  },
}

/** The header stands in one row, or in two: groups, and under them the surfaces. */
function findNaverHeader(table: Table): Header<Name> | undefined {
  for (const [at, { cells = [], line }] of table.head.entries()) {
    const one = headerOf(line, cells, columns)
    if (one) return one
    const below = table.head[at + 1]
    const two = below && headerOf(below.line, joined(cells, below.cells ?? []), columns)
    if (two) return two
  }
  return undefined
}

function joined(groups: readonly string[], surfaces: readonly string[]): string[] {
  let group = ''
  return Array.from({ length: Math.max(groups.length, surfaces.length) }, (_, at) => {
    group = groups[at]?.trim() || group
    const surface = surfaces[at]?.trim()
    return surface ? `${group}(${surface})` : (groups[at]?.trim() ?? '')
  })
}

/** The 30 days end the day before the download. */
function windowEnd({ fileName }: Workbook, said: Said): string {
  if (said.day !== undefined) return said.day
  const downloaded = dayInName(fileName)
  if (downloaded === undefined)
    throw new FileTrouble(
      'The name of this file does not say when it was downloaded: add --day YYYY-MM-DD, the last of its 30 days.',
    )
  return addDays(downloaded, -1)
}

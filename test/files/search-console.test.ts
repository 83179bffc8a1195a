import { expect, test } from 'vitest'
import { understood, writeSample, zipOf } from './sample-files.ts'

const queries =
  'Top queries,Clicks,Impressions,CTR,Position\nnike air,"1,204","15,002",8.03%,3.4\n"a, b",0,7,0%,61.2\n'

test('a zip is read by its queries, and dated by its filters', async () => {
  const path = writeSample(
    'site-Performance-on-Search.zip',
    zipOf({
      'Chart.csv': 'Date,Clicks,Impressions,CTR,Position\n2026-10-01,1,2,50%,3\n',
      'Queries.csv': queries,
      'Filters.csv': 'Filter,Value\nSearch type,Web\nDate,"Aug 1, 2026 - Oct 31, 2026"\n',
    }),
  )
  const told = await understood(path, 'ranks')
  const series = {
    engine: 'google_search_console',
    device: 'all',
    location: 'all',
    status: 'ranked',
    day: '2026-10-31',
  }
  expect(told).toMatchObject({
    format: 'gsc',
    unknownColumns: [],
    notes: ['Positions are means over 2026-08-01 to 2026-10-31, and stored under the last day.'],
    fields: [
      { ...series, keyword: 'nike air', position: 3 },
      { ...series, keyword: 'a, b', position: 61 },
    ],
  })
})

test('in Korean, with the day of the export where the filters name none', async () => {
  const path = writeSample(
    'https___example.com_-Performance-on-Search-2026-11-14.zip',
    zipOf({
      '쿼리.csv': '\ufeff인기 검색어,클릭수,노출,CTR,게재 순위,새 열\n나이키,1,2,50%,"1,5",x\n',
      '필터.csv': '필터,값\n날짜,지난 3개월\n',
    }),
  )
  expect(await understood(path, 'ranks')).toMatchObject({
    unknownColumns: ['새 열'],
    fields: [{ keyword: '나이키', day: '2026-11-14', position: 2 }],
  })
})

test('a mean is at least 1: anything else is rejected, not taken for "not ranked"', async () => {
  const path = writeSample('Queries 2026-11-14.csv', 'Query,Position\na,0\nb,\nc,-\nd,1.0\n')
  const told = await understood(path, 'ranks')
  expect(told?.rejected).toEqual([2, 3, 4].map((line) => [line, 'position_wrong_form']))
  expect(told?.fields).toMatchObject([{ keyword: 'd', position: 1 }])
})

test('an export without any day asks for one, and one of two periods is refused', async () => {
  const plain = writeSample('Queries.csv', queries)
  await expect(understood(plain, 'ranks')).rejects.toThrow('add --day')
  expect((await understood(plain, 'ranks', { said: { day: '2026-10-31' } }))?.fields).toHaveLength(2)
  const compared = writeSample(
    'compared.csv',
    'Top queries,Last 3 months Position,Previous 3 months Position\na,1,2\n',
  )
  await expect(understood(compared, 'ranks', { format: 'gsc' })).rejects.toThrow('compares two periods')
})

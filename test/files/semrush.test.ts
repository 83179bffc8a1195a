import { expect, test } from 'vitest'
import { understood, writeSample } from './sample-files.ts'

const site = '*.ex.com/*'
const series = { engine: 'google', device: 'mobile', location: 'KR' }

test('Position Tracking: a column per day, and "-" is not ranked', async () => {
  const day = (name: string) =>
    ['', '_type', '_landing', '_difference'].map((part) => `${site}_${name}${part}`)
  const text = [
    'Project,ex.com',
    '',
    ['Keyword', 'Tags', 'Intents', ...day('20260310'), ...day('20260311'), 'Search Volume', 'Extra'].join(
      ',',
    ),
    'shoes,,i,4,organic,https://ex.com/a,0,-,,,0,1000,x',
    'boots,,i,,,,,120,organic,https://ex.com/b,1,10,x',
    'maps,,i,1,local,https://ex.com/c,0,2,local,,0,10,x',
    'cut,,i,1,organic',
  ].join('\n')
  const path = writeSample('tracking.csv', text)
  await expect(understood(path, 'ranks')).rejects.toThrow('--device')
  const told = await understood(path, 'ranks', { said: { device: 'mobile', location: 'KR' } })
  expect(told).toMatchObject({ format: 'semrush', unknownColumns: ['extra'] })
  expect(told?.fields).toEqual([
    {
      ...series,
      keyword: 'shoes',
      day: '2026-03-10',
      status: 'ranked',
      position: 4,
      searched_depth: 100,
      url: 'https://ex.com/a',
    },
    { ...series, keyword: 'shoes', day: '2026-03-11', status: 'not_in_depth', searched_depth: 100 },
    {
      ...series,
      keyword: 'boots',
      day: '2026-03-11',
      status: 'ranked',
      position: 120,
      searched_depth: 120,
      url: 'https://ex.com/b',
    },
  ])
  expect(told?.rejected).toEqual([
    [6, 'not_organic'],
    [7, 'wrong_number_of_cells'],
  ])
})

test('a day on which another type of result was found is rejected, and its neighbours are read', async () => {
  const days = ['20260310', '20260311', '20260312', '20260313'].map(
    (day) => `${site}_${day},${site}_${day}_type`,
  )
  const text = [
    `Keyword,${days.join(',')}`,
    'shoes,4,organic,1,local,1,local,5,organic',
    'boots,4,organic,n/a,,6,organic,-,',
  ].join('\n')
  const said = { device: 'mobile', location: 'KR' }
  const told = await understood(writeSample('mixed.csv', text), 'ranks', { said })
  expect(told?.fields.map(({ keyword, day, position }) => [keyword, day, position])).toEqual([
    ['shoes', '2026-03-10', 4],
    ['shoes', '2026-03-13', 5],
    ['boots', '2026-03-10', 4],
    ['boots', '2026-03-12', 6],
    ['boots', '2026-03-13', undefined],
  ])
  // A row is told once for each reason.
  expect(told?.rejected).toEqual([
    [2, 'not_organic'],
    [3, 'position_wrong_form'],
  ])
})

test('of several sites one has to be named', async () => {
  const path = writeSample('two.csv', 'Keyword,a.com_20260310,b.com_20260310\nshoes,1,2\n')
  const said = { device: 'mobile', location: 'KR' }
  await expect(understood(path, 'ranks', { said })).rejects.toThrow("--site 'a.com' or 'b.com'")
  const told = await understood(path, 'ranks', { said: { ...said, site: 'b.com' } })
  expect(told?.fields).toMatchObject([{ position: 2 }])
})

test('Positions: country by the file name, day by the row', async () => {
  const text =
    'Keyword,Position,Previous position,Search Volume,URL,Timestamp,Position Type\nshoes,7,9,100,https://ex.com/a,2026-03-09,Organic\nboots,1,1,10,https://ex.com/b,2026-03-09,Local pack\n'
  const path = writeSample('ex.com-organic.Positions-kr-20260310-2026-03-10T10_00_00Z.csv', text)
  const told = await understood(path, 'ranks', { said: { device: 'mobile' } })
  expect(told?.fields).toMatchObject([{ ...series, keyword: 'shoes', day: '2026-03-09', position: 7 }])
  expect(told?.rejected).toEqual([[3, 'not_organic']])
})

test('Positions: of several pages of the site that are found for a keyword the best one is its rank', async () => {
  const header = 'Keyword,Position,URL,Timestamp,Position Type'
  const rows = [
    'shoes,3,https://ex.com/a,2026-03-09,Organic',
    'shoes,8,https://ex.com/b,2026-03-09,Organic',
    'boots,9,https://ex.com/c,2026-03-09,Organic',
    'Boots,2,https://ex.com/d,2026-03-09,Organic',
    'shoes,5,https://ex.com/b,2026-03-08,Organic',
  ]
  const path = writeSample('ex.com-organic.Positions-kr-20260310.csv', [header, ...rows].join('\n'))
  const said = { device: 'mobile' }
  const told = await understood(path, 'ranks', { said })
  expect(told?.fields.map(({ keyword, day, url }) => [keyword, day, url])).toEqual([
    ['shoes', '2026-03-09', 'https://ex.com/a'],
    ['Boots', '2026-03-09', 'https://ex.com/d'],
    ['shoes', '2026-03-08', 'https://ex.com/b'],
  ])
  expect(told?.rejected).toEqual([
    [3, 'not_best_place'],
    [4, 'not_best_place'],
  ])
  // Also where an import goes on behind the best one.
  const rest = await understood(path, 'ranks', { said, from: { bytes: 0, lines: 2 } })
  expect(rest?.fields.map(({ keyword, url }) => [keyword, url])).toEqual([
    ['Boots', 'https://ex.com/d'],
    ['shoes', 'https://ex.com/b'],
  ])
})

import { expect, test } from 'vitest'
import { cp949, understood, workbookOf, writeSample } from './sample-files.ts'

const source = { source: 'naver_searchad', kind: 'rolling_30d' }
const expected = [
  { ...source, keyword: '나이키운동화', day: '2025-03-10', volume: 4450, pc: 1200, mobile: 3250 },
  { ...source, keyword: 'NIKE', day: '2025-03-10', volume_max: 1209, pc: 1200 },
]

test('a workbook with one row of titles, dated by its name; its 30 days end the day before', async () => {
  const titles = ['연관키워드', '월간검색수(PC)', '월간검색수(모바일)', '월평균클릭수(PC)', '경쟁정도']
  const rows = [
    titles,
    ['나이키운동화', '1,200', '3,250', 0.6, '높음'],
    ['NIKE', 1200, '< 10', '', '낮음'],
    ['-', '-', 1],
  ]
  const path = writeSample('연관키워드 20250311 1634.xlsx', workbookOf(rows))
  const told = await understood(path, 'volumes')
  expect(told).toMatchObject({ format: 'naver', unknownColumns: [] })
  expect(told?.fields).toEqual(expected)
  expect(told?.rejected).toEqual([[4, 'volume_wrong_form']])
})

test('two rows of titles, also as CSV in CP949', async () => {
  const text =
    '연관키워드,월간검색수,,월평균클릭수,,경쟁정도\n,PC,모바일,PC,모바일,\n나이키운동화,"1,200","3,250",1,2,높음\nNIKE,1200,< 10,1,2,낮음\n'
  const path = writeSample('연관키워드 20250311.csv', cp949(text))
  expect((await understood(path, 'volumes'))?.fields).toEqual(expected)
})

test('a name without a day asks for one', async () => {
  const path = writeSample('keywords.csv', '연관키워드,월간검색수(PC),월간검색수(모바일)\nA,1,2\n')
  await expect(understood(path, 'volumes')).rejects.toThrow('--day')
  const { fields } = (await understood(path, 'volumes', { said: { day: '2026-11-01' } }))!
  expect(fields).toMatchObject([{ day: '2026-11-01', volume: 3 }])
})

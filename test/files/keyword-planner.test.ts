import { expect, test } from 'vitest'
import { understood, utf16, writeSample } from './sample-files.ts'

const titles = 'Keyword\tCurrency\tSegmentation\tAvg. monthly searches\tCompetition'
const source = { source: 'google_keyword_planner', kind: 'month' }

test('months are read from their columns, below two lines of title, in UTF-16', async () => {
  const text = [
    'Keyword Stats 2026-11-14 at 10_00_00',
    '"October 1, 2025 - September 30, 2026"',
    `${titles}\tSearches: Aug 2026\tSearches: Sep 2026\tShiny new column`,
    'nike air\tKRW\t\t1000\tHigh\t"1,300"\t880\tx',
    '\tKRW\tMobile\t700\tHigh\t900\t600\tx',
    'rare\tKRW\t\t10\tLow\t\t< 10\tx',
    'none\tKRW\t\t\t\t\t\tx',
    'odd\tKRW\t\t1\tLow\tmany\t1\tx',
  ].join('\r\n')
  const told = await understood(writeSample('Keyword Stats.csv', utf16(text, 'le')), 'volumes')
  expect(told).toMatchObject({ format: 'keyword-planner', unknownColumns: ['shiny new column'] })
  expect(told?.fields).toEqual([
    { ...source, keyword: 'nike air', day: '2026-08-01', volume: 1300 },
    { ...source, keyword: 'nike air', day: '2026-09-01', volume: 880 },
    { ...source, keyword: 'rare', day: '2026-09-01', volume_max: 9 },
    // A month that makes no sense is rejected, and the others of its row are read.
    { ...source, keyword: 'odd', day: '2026-09-01', volume: 1 },
  ])
  expect(told?.rejected).toEqual([
    [7, 'volume_missing'],
    [8, 'volume_wrong_form'],
  ])
})

test('averages stand for a month only if the range is one, or the operator says so; a range is a bound', async () => {
  const file = (range: string) =>
    writeSample(
      'averages.csv',
      `Keyword Stats\n${range}\n${titles}\nnike\tKRW\t\t1K – 10K\tHigh\nair\tKRW\t\t50\tLow\n`,
    )
  const year = file('October 1, 2025 - September 30, 2026')
  await expect(understood(year, 'volumes')).rejects.toThrow('averages over several months')
  expect((await understood(year, 'volumes', { said: { day: '2026-09-15' } }))?.fields).toEqual([
    { ...source, keyword: 'nike', day: '2026-09-15', volume_max: 10_000 },
    { ...source, keyword: 'air', day: '2026-09-15', volume: 50 },
  ])
  const month = file('September 1, 2026 - September 30, 2026')
  expect((await understood(month, 'volumes'))?.fields[1]).toMatchObject({ day: '2026-09-01', volume: 50 })
})

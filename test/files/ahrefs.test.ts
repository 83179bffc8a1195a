import { expect, test } from 'vitest'
import { understood, utf16, writeSample } from './sample-files.ts'

test('an empty place is none; the day stands in the name', async () => {
  const text =
    'Keyword\tVolume\tKD\tCPC\tPrevious position\tCurrent position\tPosition change\tCurrent URL\tPrevious URL\tMystery\n' +
    'shoes\t1000\t3\t0.1\t5\t4\t1\thttps://ex.com/a\thttps://ex.com/a\t?\n' +
    'boots\t10\t3\t\t5\t\t\t\thttps://ex.com/b\t?\n' +
    'odd\t10\t3\t\t5\t0\t\t\t\t?\n'
  const path = writeSample('ex.com-organic-keywords_2026-11-14_10-00-00.csv', utf16(text, 'le'))
  await expect(understood(path, 'ranks', { said: { device: 'desktop' } })).rejects.toThrow('--location')
  const told = await understood(path, 'ranks', { said: { device: 'desktop', location: 'KR', depth: 50 } })
  const series = {
    day: '2026-11-14',
    engine: 'google',
    device: 'desktop',
    location: 'KR',
    searched_depth: 50,
  }
  expect(told).toMatchObject({ format: 'ahrefs', unknownColumns: ['mystery'] })
  expect(told?.fields).toEqual([
    { ...series, keyword: 'shoes', status: 'ranked', position: 4, url: 'https://ex.com/a' },
    { ...series, keyword: 'boots', status: 'not_in_depth' },
  ])
  expect(told?.rejected).toEqual([[4, 'position_wrong_form']])
})

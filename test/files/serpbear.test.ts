import { expect, test } from 'vitest'
import { understood, writeSample } from './sample-files.ts'

const header = 'ID,Keyword,Position,URL,Country,City,Device,Updated,Added,Tags'

test('rows are read although commas are not quoted; "-" is not found within the page it reads', async () => {
  const times = '2026-03-07T00:00:12.345Z, 2026-01-01T00:00:00.000Z'
  const path = writeSample(
    'serpbear.csv',
    [
      header,
      `1, nike air, 4, https://ex.com/a, South Korea, -, mobile, ${times}, shoes,brand`,
      `2, shoes, boots, and more, 12, https://ex.com/?a=1,2, Korea, Republic of, Seoul, desktop, ${times}, `,
      `3, say "hello", -, https://ex.com/old, United States, -, mobile, ${times}, `,
      `4, lost, -, -, Atlantis, -, mobile, ${times}, `,
      '5, broken',
    ].join('\r\n'),
  )
  const told = await understood(path, 'ranks')
  expect(told?.format).toBe('serpbear')
  const row = { engine: 'google', day: '2026-03-07', checked_at: '2026-03-07T00:00:12.345Z' }
  expect(told?.fields).toEqual([
    {
      ...row,
      keyword: 'nike air',
      device: 'mobile',
      location: 'KR',
      status: 'ranked',
      position: 4,
      searched_depth: 10,
      url: 'https://ex.com/a',
    },
    {
      ...row,
      keyword: 'shoes, boots, and more',
      device: 'desktop',
      location: 'KR:Seoul',
      status: 'ranked',
      position: 12,
      searched_depth: 12,
      url: 'https://ex.com/?a=1,2',
    },
    {
      ...row,
      keyword: 'say "hello"',
      device: 'mobile',
      location: 'US',
      status: 'not_in_depth',
      searched_depth: 10,
    },
  ])
  const inSantiago = await understood(path, 'ranks', { said: { timeZone: 'America/Santiago' } })
  expect(inSantiago?.fields).toEqual(told?.fields.map((fields) => ({ ...fields, day: '2026-03-06' })))
  expect(told?.rejected).toEqual([
    [5, 'location_wrong_form'],
    [6, 'wrong_number_of_cells'],
  ])
})

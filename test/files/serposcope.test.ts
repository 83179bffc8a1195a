import { expect, test } from 'vitest'
import { understood, writeSample } from './sample-files.ts'

const header = 'date,rank,url,target,keyword,device,country,datacenter,local,custom'

test('32767 is not ranked, an empty rank was not checked, and one site is read', async () => {
  const path = writeSample(
    'serposcope.csv',
    [
      header,
      '2026-03-07,4,https://ex.com/?a=1,2,ex.com,nike air,D,kr,,,',
      '2026-03-07,32767,null,ex.com,"boots, warm",M,KR,,New York,',
      '2026-03-07,,null,ex.com,shoes,D,KR,,,',
      '2026-03-07,1,https://other.com/,other.com,shoes,D,KR,,,',
      '2026-03-07,1,https://ex.com/,ex.com,shoes,X,KR,,,',
    ].join('\n'),
  )
  const told = await understood(path, 'ranks')
  expect(told?.format).toBe('serposcope')
  const row = { day: '2026-03-07', engine: 'google' }
  expect(told?.fields).toEqual([
    {
      ...row,
      keyword: 'nike air',
      device: 'desktop',
      location: 'KR',
      status: 'ranked',
      position: 4,
      searched_depth: 100,
      url: 'https://ex.com/?a=1,2',
    },
    {
      ...row,
      keyword: 'boots, warm',
      device: 'mobile',
      location: 'KR:New_York',
      status: 'not_in_depth',
      searched_depth: 100,
    },
    { ...row, keyword: 'shoes', device: 'desktop', location: 'KR', status: 'failed', reason: 'not_checked' },
  ])
  expect(told?.rejected).toEqual([
    [5, 'other_target'],
    [6, 'device_wrong_form'],
  ])
  const other = await understood(path, 'ranks', { said: { site: 'other.com' } })
  expect(other?.fields).toMatchObject([{ keyword: 'shoes', position: 1 }])
})

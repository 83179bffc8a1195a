import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { importFile } from '../../src/cli/import.ts'
import { runCommand } from '../billing/run-command.ts'
import { openSerpapiWorld, type SerpapiWorld } from './serpapi-world.ts'

let stage: SerpapiWorld
let world: SerpapiWorld['world']
let folder: string
let files = 0

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rankledger-import-'))
  stage = await openSerpapiWorld('ws', ['shoes', 'boots'])
  world = stage.world
})
afterAll(async () => {
  await stage.close()
  rmSync(folder, { recursive: true, force: true })
})

async function importLines(lines: readonly string[], timeZone = 'UTC') {
  const path = join(folder, `file-${++files}.csv`)
  writeFileSync(path, lines.join('\r\n'))
  const environment = { ...world.environment, TZ_DEFAULT: timeZone }
  const { code, output, error } = await runCommand(
    importFile,
    ['ranks', path, '--workspace', 'ws', '--json'],
    environment,
  )
  if (code !== 0) throw new Error(error)
  return JSON.parse(output)
}
const serpbear = (keyword: string, position: string, updated: string) => [
  'ID,Keyword,Position,URL,Country,City,Device,Updated,Added,Tags',
  `1, ${keyword}, ${position}, https://ex.com/a, South Korea, -, mobile, ${updated}, 2029-01-01T00:00:00.000Z, `,
]
const serposcope = (keyword: string, day: string, rank: number) => [
  'date,rank,url,target,keyword,device,country,datacenter,local,custom',
  `${day},${rank},https://ex.com/,ex.com,${keyword},M,KR,,,`,
]
const placesOf = async (keyword: string) =>
  (
    await world.get(`/api/batch/ranks/${keyword}?workspace_id=ws&from=2030-01-10&to=2030-01-20`)
  ).body.data.ranks.map(({ day, status, position }: Record<string, unknown>) => [day, status, position])

test('what a tracker has measured of a day stays when files of other tools tell that day too', async () => {
  await stage.turnTo('2030-01-15T06:00:00Z')
  await stage.collect()
  await stage.turnTo('2030-01-15T09:00:00Z')
  await stage.collect()
  const measured = await placesOf('shoes')
  expect(measured).toHaveLength(1)

  const later = '2030-01-15T23:00:00.000Z'
  expect(await importLines(serpbear('shoes', '77', later))).toMatchObject({ updated: 0, unchanged: 1 })
  expect(await importLines(serposcope('shoes', '2030-01-15', 78))).toMatchObject({ unchanged: 1 })
  expect(await placesOf('shoes')).toEqual(measured)
})

test('days that nothing was measured on are filled, and corrected by another import', async () => {
  expect(await importLines(serposcope('boots', '2030-01-12', 30))).toMatchObject({ inserted: 1 })
  expect(await importLines(serposcope('boots', '2030-01-12', 31))).toMatchObject({ updated: 1 })
  await world.query(
    `update batch.rank set status = 'failed', position = null, url = null, reason = 'timeout' where day = '2030-01-15'`,
  )
  expect(await importLines(serposcope('boots', '2030-01-15', 32))).toMatchObject({ updated: 1 })
  expect(await placesOf('boots')).toEqual([
    ['2030-01-12', 'ranked', 31],
    ['2030-01-15', 'ranked', 32],
  ])
})

test('the instants in a file tell days of the service’s zone', async () => {
  const updated = '2030-01-13T16:30:00.000Z'
  await importLines(serpbear('boots', '40', updated), 'Asia/Seoul')
  expect(await placesOf('boots')).toContainEqual(['2030-01-14', 'ranked', 40])
  await importLines(serpbear('boots', '41', updated), 'America/Santiago')
  expect(await placesOf('boots')).toContainEqual(['2030-01-13', 'ranked', 41])
})

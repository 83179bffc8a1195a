import { afterAll, beforeAll, expect, test } from 'vitest'
import { collectVolumes } from '../../src/batch/tracking/volumes/collect-volumes.ts'
import { type KeywordPlace, listDueKeywords } from '../../src/batch/tracking/volumes/volume-check-rows.ts'
import type { World } from '../world.ts'
import { type DatalabWorld, openDatalabWorld } from './datalab-world.ts'

let opened: DatalabWorld
let world: World
const words = Array.from({ length: 12 }, (_, n) => `word ${String(n).padStart(2, '0')}`)
const budget = 4

beforeAll(async () => {
  opened = await openDatalabWorld(words, budget)
  world = opened.world
  await world.post('/api/batch/keywords', { workspace_id: 'other', keywords: words.slice(0, 5) })
})
afterAll(() => opened.close())

test('where a month’s budget does not reach all, another part of the keywords is asked for every month', async () => {
  const asked = new Set<string>()
  for (let month = 1; month <= 18; month++) {
    await world.app.clock.moveTo(new Date(Date.UTC(2030, month, 15, 12)))
    await world.query(`delete from batch.run where task = 'collect_volumes'`)
    const started = await world.post('/api/batch/trigger', { task: 'collect_volumes' })
    await collectVolumes(world.app.batch, { runId: started.body.data.run_id })
    const ofMonth = await world.query<{ key: string }>(
      `select key from batch.volume_check where month = $1 and status = 'done'`,
      [new Date(Date.UTC(2030, month, 1)).toISOString().slice(0, 10)],
    )
    expect(ofMonth).toHaveLength(budget)
    for (const { key } of ofMonth) asked.add(key)
  }
  expect([...asked].sort()).toEqual(words)
})

test('read in pages, every keyword comes once, whatever the order', async () => {
  const pages: string[] = []
  let after: KeywordPlace | undefined
  for (;;) {
    const page = await listDueKeywords(world.app.batch.db, 'naver_datalab', '2040-01-01', { after, limit: 5 })
    if (page.length === 0) break
    pages.push(...page.map(({ key }) => key))
    after = page.at(-1)
  }
  expect([...pages].sort()).toEqual(words)
  expect(pages).not.toEqual(words)
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { size } from '../size.ts'
import { createDatabase, dropDatabase } from '../world.ts'
import { runCampaign } from './campaign.ts'
import { openService, type Service } from './service.ts'

let service: Service
let url: string
beforeAll(async () => {
  url = await createDatabase()
  service = await openService(url)
})
afterAll(async () => {
  await service.close()
  await dropDatabase(url)
})

test('no malformed request is answered with a fault of ours, left hanging or leaves a trace', async () => {
  const wanted = size(1_400, 3_000)
  const { violations, unreached, requests } = await runCampaign(service, {
    seed: 20261115,
    requests: wanted,
    soundRounds: size(6, 12),
  })
  expect(violations).toEqual([])
  expect(unreached).toEqual([])
  expect(requests).toBe(wanted)
})

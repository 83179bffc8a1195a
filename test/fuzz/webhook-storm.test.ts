import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, dropDatabase } from '../world.ts'
import { openService, type Service } from './service.ts'
import { runStorm } from './storm.ts'

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

test('notifications that come many times, shuffled and among forgeries have their effect once', async () => {
  const storm = await runStorm(service, { seed: 20261115, deliveries: 1_000, forged: 300, customers: 60 })
  expect(storm.faults).toEqual([])
  expect(storm.statuses).toEqual({ '200': 1_000, 'forged 401': 300 })
  expect(storm.events).toBeGreaterThan(80)
  expect(storm.settledByNotification).toBeGreaterThan(0)
})

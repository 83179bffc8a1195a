import { afterAll, beforeAll, expect, test } from 'vitest'
import { releasingOnce } from '../../src/platform/queue/queue-worker.ts'
import { openPatientPool } from '../patience.ts'
import { createDatabase, dropDatabase } from '../world.ts'

let url: string
beforeAll(async () => {
  url = await createDatabase()
})
afterAll(() => dropDatabase(url))

const open = () => releasingOnce(openPatientPool(url, 1, 'releasing once'))

/** The library's own way of asking for a connection. */
type Release = ((reason?: Error | boolean) => void) | undefined
const connect = (pool: ReturnType<typeof open>) =>
  new Promise<{ error: Error | undefined; release: Release }>((resolve) =>
    pool.connect((error, _client, release) => resolve({ error, release: release as Release })),
  )

test('a connection that is given back twice is given back once', async () => {
  const pool = open()
  const { release } = await connect(pool)
  release!()
  release!()
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  await pool.end()
})

test('where there is no connection there is nothing to give back', async () => {
  const pool = open()
  await pool.end()
  const { error, release } = await connect(pool)
  expect(error).toBeInstanceOf(Error)
  expect(() => release?.()).not.toThrow()
})

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { oneAtATime } from '../../src/platform/database/one-at-a-time.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const attempt = (name: string, work: () => Promise<void> = async () => {}) =>
  oneAtATime(world.databaseUrl, name, async () => {
    await work()
    return { done: true }
  })

test('of two that would do the same at once only the first does it, and who comes later may again', async () => {
  let [second, other]: unknown[] = []
  const first = await attempt('thing', async () => {
    second = await attempt('thing')
    other = await attempt('another thing')
  })
  expect([first, second, other]).toEqual([{ done: true }, undefined, { done: true }])
  for (let time = 0; time < 20; time++) expect(await attempt('thing')).toEqual({ done: true })
})

test('work that fails leaves the way free', async () => {
  const failing = attempt('thing', () => Promise.reject(new Error('no room')))
  await expect(failing).rejects.toThrow('no room')
  expect(await attempt('thing')).toEqual({ done: true })
})

test('work may take longer than the server lets a transaction rest', async () => {
  const { pathname } = new URL(world.databaseUrl)
  const setting = `alter database ${pathname.slice(1)} set idle_in_transaction_session_timeout`
  await world.query(`${setting} = '100ms'`)
  let second: unknown
  await attempt('thing', async () => {
    await sleep(500)
    second = await attempt('thing')
  })
  await world.query(`${setting} to default`)
  expect(second).toBeUndefined()
})

test('who waits for its work holds no snapshot and no rows', async () => {
  await attempt('thing', async () => {
    const held = await world.query(
      `select backend_xid, backend_xmin from pg_stat_activity where application_name = 'rankledger thing'`,
    )
    expect(held).toEqual([{ backend_xid: null, backend_xmin: null }])
  })
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWireObjects } from '../../src/sandbox/wire-objects.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const day = 86_400_000
const now = new Date('2026-11-15T00:00:00Z')

test('a key is taken once, tells its first answer, and past its window is as good as new', async () => {
  const objects = openWireObjects(world.app.pool, 'stripe')
  const claim = (at: Date) => objects.claimKey('key-1', 'one request', at, day)
  expect(await claim(now)).toBe('taken')
  expect(await claim(now)).toBe('running')
  const first = { status: 402, headers: { 'request-id': 'req_1' }, body: '{}' }
  await objects.answerKey('key-1', first)
  expect(await claim(new Date(now.getTime() + day - 1))).toMatchObject({
    ...first,
    fingerprint: 'one request',
  })
  expect(await claim(new Date(now.getTime() + day))).toBe('taken')
  await objects.freeKey('key-1')
  expect(await claim(now)).toBe('taken')
  expect(await openWireObjects(world.app.pool, 'toss').claimKey('key-1', 'x', now, day)).toBe('taken')
})

test('an object is found by its id and by what it holds', async () => {
  const objects = openWireObjects(world.app.pool, 'stripe')
  await objects.put('customer', 'cus_1', { id: 'cus_1', metadata: { account_id: 'a' } }, now)
  expect(await objects.get('customer', 'cus_1')).toMatchObject({ id: 'cus_1' })
  expect(await objects.find('customer', { metadata: { account_id: 'a' } })).toHaveLength(1)
  expect(await objects.find('customer', { metadata: { account_id: 'b' } })).toEqual([])
  expect([await objects.remove('customer', 'cus_1'), await objects.remove('customer', 'cus_1')]).toEqual([
    true,
    false,
  ])
})

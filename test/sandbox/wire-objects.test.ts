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

test('an object is found by its id, by its reference, and among its customer’s', async () => {
  const objects = openWireObjects(world.app.pool, 'stripe')
  await objects.put('customer', 'cus_1', { id: 'cus_1', metadata: { account_id: 'a' } }, now)
  expect(await objects.get('customer', 'cus_1')).toMatchObject({ id: 'cus_1' })
  expect(await objects.newest('customer', 10)).toHaveLength(1)
  const later = new Date(now.getTime() + 1)
  for (const [id, at] of [['pi_1', now] as const, ['pi_2', later] as const])
    await objects.put('payment_intent', id, { id, reference: 'order-1' }, at)
  expect(await objects.allOfReference('payment_intent', 'order-1')).toMatchObject([
    { id: 'pi_2' },
    { id: 'pi_1' },
  ])
  expect(await objects.allOfReference('payment_intent', 'order')).toEqual([])
  await objects.put('payment_method', 'pm_1', { id: 'pm_1', customer: 'cus_1' }, now)
  expect(await objects.cardsOf('cus_1')).toMatchObject([{ id: 'pm_1' }])
  expect(await objects.cardsOf('cus_2')).toEqual([])
  expect([await objects.remove('customer', 'cus_1'), await objects.remove('customer', 'cus_1')]).toEqual([
    true,
    false,
  ])
})

test('of many claims at once, also through two servers, each key is taken by one of them', async () => {
  const servers = [openWireObjects(world.app.pool, 'stripe'), openWireObjects(world.app.pool, 'stripe')]
  const keys = Array.from({ length: 40 }, (_, at) => `wave-${(at * 7) % 20}`)
  const claims = await Promise.all(
    servers.flatMap((server, at) =>
      (at === 0 ? keys : keys.toReversed()).map(async (key) => ({
        key,
        claim: await server.claimKey(key, key, now, day),
      })),
    ),
  )
  for (const key of new Set(keys)) {
    const of = claims.filter((one) => one.key === key).map(({ claim }) => claim)
    expect(of.toSorted()).toEqual(['running', 'running', 'running', 'taken'])
  }
  await Promise.all(
    keys.map((key) => servers[0]!.answerKey(key, { status: 200, headers: {}, body: `of ${key}` })),
  )
  const again = await Promise.all(keys.map((key) => servers[1]!.claimKey(key, key, now, day)))
  expect(again).toEqual(keys.map((key) => expect.objectContaining({ fingerprint: key, body: `of ${key}` })))
})

test('many objects at once, and the first that was made for a reference', async () => {
  const objects = openWireObjects(world.app.pool, 'portone')
  const made = Array.from({ length: 30 }, (_, at) => ({ id: `o-${at}`, reference: `r-${at % 10}` }))
  for (const [at, one] of made.entries())
    await objects.put('thing', one.id, one, new Date(now.getTime() + at))
  const asked = [...made, { id: 'o-none', reference: 'r-none' }]
  expect(await Promise.all(asked.map(({ id }) => objects.get('thing', id)))).toEqual([...made, undefined])
  expect(await Promise.all(asked.map(({ reference }) => objects.ofReference('thing', reference)))).toEqual([
    ...asked.slice(0, 30).map(({ reference }) => made.find((one) => one.reference === reference)),
    undefined,
  ])
})

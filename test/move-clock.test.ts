import type pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { beginMove, isMoving, moveClock } from '../src/move-clock.ts'
import { openWorld, type World } from './world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

test('the clock stands free after a move, also when a renewal of its lease arrives late', async () => {
  const { app } = world
  const target = new Date(app.clock().getTime() + 3_600_000)
  expect(await beginMove(app, target)).toBe(true)
  // The move waits here for so long that its lease is renewed.
  const blocker = await app.pool.connect()
  await blocker.query('begin')
  await blocker.query('select from platform.clock for update')

  const late = holdRenewals(app.pool)
  const moving = moveClock({ ...app, pool: late.pool }, target)
  await late.asked
  await blocker.query('rollback')
  blocker.release()
  await moving
  late.release()
  await late.arrived

  expect(await isMoving(app)).toBe(false)
  expect(await beginMove(app, new Date(target.getTime() + 1_000))).toBe(true)
}, 30_000)

/** A pool on which renewals of the mover's lease stay on their way until they are released. */
function holdRenewals(pool: pg.Pool) {
  const [asked, released, arrived] = [signal(), signal(), signal()]
  const query = async (text: string, values: unknown[]) => {
    if (!text.startsWith('update platform.clock set moving_until')) return pool.query(text, values)
    asked.give()
    await released.given
    const answer = await pool.query(text, values)
    arrived.give()
    return answer
  }
  const held = Object.create(pool, { query: { value: query } }) as pg.Pool
  return { pool: held, asked: asked.given, release: released.give, arrived: arrived.given }
}

function signal(): { given: Promise<void>; give: () => void } {
  let give = () => {}
  const given = new Promise<void>((resolve) => {
    give = resolve
  })
  return { given, give: () => give() }
}

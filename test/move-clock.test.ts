import type pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { claimMove, isMoving } from '../src/installation/clock-move-rows.ts'
import { moveClock } from '../src/installation/move-clock.ts'
import { openProviderWorld } from './sandbox/open-provider.ts'
import { openWorld, type World } from './world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

test('the clock stands free after a move, also when a renewal of its lease arrives late', async () => {
  const { app } = world
  const target = new Date(app.clock().getTime() + 3_600_000)
  expect(await claimMove(app.pool, target)).toBe(true)
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

  expect(await isMoving(app.pool)).toBe(false)
  expect(await claimMove(app.pool, new Date(target.getTime() + 1_000))).toBe(true)
})

test('beside a provider that keeps its own time the clock is fixed', async () => {
  const fixed = await openWorld({
    environment: {
      PAYMENT_PROVIDER: 'stripe',
      STRIPE_SECRET_KEY: 'sk_test_any',
      STRIPE_WEBHOOK_SECRETS: 'whsec_any',
    },
  })
  try {
    expect(await fixed.advanceBy('P1D')).toMatchObject({
      status: 409,
      body: { error: { code: 'clock_fixed' } },
    })
    expect(Math.abs(fixed.app.clock().getTime() - Date.now())).toBeLessThan(60_000)
    expect((await fixed.get('/api/sandbox/clock')).body.data).toMatchObject({ moving: false })
  } finally {
    await fixed.close()
  }
})

test('a simulator with a clock of its own is turned along, so that both tell the same time of a charge', async () => {
  const provider = await openProviderWorld()
  const own = await openWorld({
    environment: { PROVIDER_BASE_URL: provider.sandbox.url, PROVIDER_SECRET_KEY: 'sk_test_any' },
  })
  try {
    const subscribed = await own.post('/api/billing/subscribe', {
      account_id: 'acct',
      plan_id: 'starter-monthly',
      payment_method: { billing_key: 'bk_test_ok' },
    })
    expect(subscribed.status).toBe(201)
    const due = Date.parse(subscribed.body.data.next_billing_at)
    expect((await own.advanceBy('P40D')).status).toBe(200)
    const { payments } = (await own.get('/api/sandbox/provider/payments')).body.data
    expect(payments).toHaveLength(2)
    expect(Math.abs(Date.parse(payments[0].created_at) - due)).toBeLessThan(60_000)
    const { now } = (await provider.ask('GET', '/__sandbox/clock')).body
    expect(Math.abs(Date.parse(now) - own.app.clock().getTime())).toBeLessThan(60_000)

    // One that does not answer keeps nobody from turning ours.
    await provider.sandbox.close()
    expect((await own.advanceBy('P1D')).status).toBe(200)
  } finally {
    await own.close()
    await provider.close()
  }
})

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

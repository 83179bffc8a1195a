import { afterEach, beforeEach, expect, test } from 'vitest'
import { makeDue } from '../stored-subscriptions.ts'
import { openWorld, type World } from '../world.ts'
import { runCommand, type ServiceProcess, startService } from './service-process.ts'

let world: World
let restored: ServiceProcess | undefined
beforeEach(async () => {
  world = await openWorld()
})
afterEach(async () => {
  restored?.child.kill('SIGKILL')
  restored = undefined
  await world.close()
})

test.each<{ how: string; words: string[]; environment: Record<string, string> }>([
  { how: 'serve, by its flag', words: ['serve', '--charging-stopped'], environment: {} },
  { how: 'work, by its flag', words: ['work', '--charging-stopped'], environment: {} },
  { how: 'serve, by the environment', words: ['serve'], environment: { CHARGING: 'stopped' } },
])('a restored database is started with charging stopped: $how', async ({ words, environment }) => {
  await world.post('/api/billing/subscribe', {
    account_id: 'acct',
    plan_id: 'starter-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  })
  await makeDue(world.app.pool, 'acct', new Date(Date.now() - 60_000))
  await storeOldNotification('old_1')
  restored = startService(words, { ...world.environment, ...environment })
  await restored.event('service.started')
  // Two rounds of the sweeps: what needs no charge is done.
  await expect.poll(keptBodies).toBe(0)
  await storeOldNotification('old_2')
  await expect.poll(keptBodies).toBe(0)
  expect(await invoices()).toEqual(['paid'])
  expect(await stop()).toMatchObject({ provider: '*', cause: 'started_stopped' })

  expect((await runCommand(['db', 'resume-charging'], world.environment)).code).toBe(0)
  await expect.poll(invoices).toEqual(['paid', 'paid'])
  expect(await stop()).toBeNull()
  expect(await restored.stop()).toBe(0)
})

/** One whose body is old enough to be erased, which every round of the sweeps does. */
async function storeOldNotification(id: string): Promise<void> {
  await world.query(
    `insert into billing.webhook (provider, event_id, body_hash, sealed, type, reference, status, received_at, next_lookup_at)
     values ('sandbox', $1, '', '\\x00', 'x', 'none', 'done', now() - interval '100 days', now())`,
    [id],
  )
}

async function keptBodies(): Promise<number> {
  return (await world.query("select from billing.webhook where event_id like 'old%' and sealed is not null"))
    .length
}

/** A renewal that was begun would show as an open one. */
async function invoices(): Promise<string[]> {
  const found = await world.query<{ status: string }>('select status from billing.invoice order by id')
  return found.map(({ status }) => status)
}

async function stop(): Promise<unknown> {
  const { output } = await runCommand(['db', 'status', '--json'], {
    ...world.environment,
    LOG_LEVEL: 'silent',
  })
  return JSON.parse(output).charging_stopped
}

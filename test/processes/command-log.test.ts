import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'
import { startService } from './service-process.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2026-03-05T09:00:00+09:00' })
})
afterAll(() => world.close())

/** Runs a command and tells its two outputs apart. */
async function run(args: string[]) {
  const { child } = startService(args, world.environment)
  const said = { stdout: '', stderr: '' }
  child.stdout!.on('data', (data) => (said.stdout += data))
  child.stderr!.on('data', (data) => (said.stderr += data))
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { code, ...said }
}

test('what a command logs goes to standard error, so that its result stays one JSON document', async () => {
  const body = { account_id: 'a', plan_id: 'pro-monthly', payment_method: { billing_key: 'bk_test_ok' } }
  expect((await world.post('/api/billing/subscribe', body)).status).toBe(201)
  await world.query(
    `update billing.payment set status = 'unknown', captured = 0, settled_at = null, next_lookup_at = now() + interval '1 hour'`,
  )
  await world.query(`create function public.refuse() returns trigger language plpgsql as $$
    begin raise exception 'broken row' using errcode = 'P0001'; end $$`)
  await world.query(
    'create trigger refuse_one before update on billing.payment for each row execute function public.refuse()',
  )
  const { code, stdout, stderr } = await run([
    'reconcile',
    '--from',
    '2026-01-01',
    '--to',
    '2027-01-01',
    '--json',
  ])
  expect(stderr).toMatch(/^\{"level":"error",.*"event":"reconcile\.failed"/m)
  expect(JSON.parse(stdout)).toMatchObject({ differences: [{ kind: expect.any(String) }] })
  expect(code).toBe(1)
})

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sendUnsentPayments } from '../../src/billing/collection/resolve-open-payments.ts'
import { backlog } from '../../src/cli/backlog.ts'
import type { Command } from '../../src/cli/command.ts'
import { reconcile } from '../../src/cli/reconcile.ts'
import { replayWebhook } from '../../src/cli/replay-webhook.ts'
import { portoneWire } from '../../src/sandbox/portone/portone-wire.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'
import { signStandardWebhook } from '../sign-webhook.ts'
import { openWorld, type World } from '../world.ts'
import { runCommand } from './run-command.ts'

// A shell or a cron job has an environment of its own, and that of the service may well be right.

const month = ['--from', '2026-01-01', '--to', '2027-01-01']

async function subscribe(world: World): Promise<void> {
  const answer = await world.post('/api/billing/subscribe', {
    account_id: 'acct_1',
    plan_id: 'starter-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  })
  expect(answer.status).toBe(201)
}

async function nobodyIsStopped(world: World): Promise<void> {
  expect(await world.query('select provider from billing.charging_stop')).toEqual([])
  expect(await world.query('select kind from platform.alarm')).toEqual([])
}

test('a key that is missing in a shell raises no alarm about the service', async () => {
  const world = await openWorld({ now: '2026-03-05T09:00:00+09:00' })
  try {
    await subscribe(world)
    await world.query(`update billing.payment set provider = 'elsewhere'`)
    const { code, error } = await runCommand(reconcile, month, world.environment)
    expect([code, error]).toEqual([1, expect.stringMatching(/no key of elsewhere.*this command/i)])
    await nobodyIsStopped(world)
  } finally {
    await world.close()
  }
})

describe('a key that the provider refuses', () => {
  let world: World
  beforeAll(async () => {
    world = await openWorld({ now: '2026-03-05T09:00:00+09:00' })
    await subscribe(world)
  })
  afterAll(() => world.close())
  const run = (command: Command, args: readonly string[]) =>
    runCommand(command, args, {
      ...world.environment,
      PROVIDER_SECRET_KEY: 'sk_test_of_another_day',
      PROVIDER_BASE_URL: world.app.sandboxUrl!,
    })
  const said = /^sandbox refuses the key in the environment of this command\./

  test('stops nobody but the reconciliation that brought it', async () => {
    const { code, error } = await run(reconcile, month)
    expect([code, error]).toEqual([1, expect.stringMatching(said)])
    await nobodyIsStopped(world)
  })

  test('leaves an event that is replayed with it waiting', async () => {
    const [payment] = await world.query<{ reference: string }>(
      'select provider_reference as reference from billing.payment',
    )
    const raw = Buffer.from(JSON.stringify({ type: 'payment.paid', data: payment }))
    const headers = signStandardWebhook(world.environment['WEBHOOK_SECRETS']!, 'evt_1', raw, new Date())
    await world.ask('POST', '/api/billing/webhook', { raw, headers, token: null })
    await world.query(`update billing.webhook set status = 'failed'`)
    const { code, output, error } = await run(replayWebhook, ['evt_1', '--json'])
    expect(JSON.parse(output)).toEqual({ requeued: 1, done: 0, waiting: 1 })
    expect([code, error]).toEqual([1, expect.stringMatching(said)])
    await nobodyIsStopped(world)
  })

  test('is no decline of the held invoice that is charged with it: the service sends it with its own', async () => {
    await world.query(
      `insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency,
         period_start, period_end, issued_at, status, hold)
       select 'inv_held', 'acct_1', id, 2, 'Starter', 9900, 'KRW', now(), now() + interval '1 day', now(), 'open', 'missed'
       from billing.subscription`,
    )
    await world.query(`update billing.account set invoice_count = 2 where id = 'acct_1'`)
    const { code, output, error } = await run(backlog, ['charge', 'inv_held', '--json'])
    expect(JSON.parse(output).invoices).toEqual([{ invoice_id: 'inv_held', outcome: 'pending' }])
    expect([code, error]).toEqual([1, expect.stringMatching(said)])
    await nobodyIsStopped(world)
    expect(await world.query('select status from billing.subscription')).toEqual([{ status: 'active' }])
    // The wait between two looks is real time.
    await world.query(
      `update billing.payment set next_lookup_at = clock_timestamp() where status <> 'succeeded'`,
    )
    await sendUnsentPayments(world.app.billing)
    expect(await world.query(`select status from billing.invoice where id = 'inv_held'`)).toEqual([
      { status: 'paid' },
    ])
    expect(await world.query('select status from billing.subscription')).toEqual([{ status: 'active' }])
  })
})

test('live payments that a command sees in sandbox mode stop nobody but the command', async () => {
  const there: ProviderWorld = await openProviderWorld({ wire: portoneWire })
  const world = await openWorld({
    environment: {
      PAYMENT_PROVIDER: 'portone',
      PORTONE_API_SECRET: 'test_secret_of_the_service',
      PORTONE_BASE_URL: there.sandbox.url,
      PORTONE_WEBHOOK_SECRETS: `whsec_${Buffer.alloc(24, 7).toString('base64')}`,
    },
  })
  try {
    await subscribe(world)
    const now = world.app.clock().getTime()
    const near = [
      '--from',
      new Date(now - 86_400_000).toISOString(),
      '--to',
      new Date(now + 60_000).toISOString(),
    ]
    const { code, error } = await runCommand(reconcile, near, {
      ...world.environment,
      // The simulator takes such a secret for one of a live channel.
      PORTONE_API_SECRET: 'live_secret_of_the_shell',
    })
    expect([code, error]).toEqual([
      1,
      expect.stringMatching(/^portone shows payments of real money .*MODE=live/),
    ])
    await nobodyIsStopped(world)
    expect((await runCommand(reconcile, near, world.environment)).code).toBe(0)
  } finally {
    await world.close()
    await there.close()
  }
})

import { expect, test } from 'vitest'
import { demo } from '../../src/cli/demo.ts'
import { demoCustomers } from '../../src/demo/demo-customers.ts'
import { openWorld } from '../world.ts'
import { runCommand } from './run-command.ts'

test('fifty customers live through a year, and both books agree at its end', async () => {
  const world = await openWorld({ now: '2026-03-05T09:00:00+09:00', worker: true, webhooks: true })
  try {
    const environment = { ...world.environment, PORT: new URL(world.url).port, BOOTSTRAP_TOKEN: world.token }
    const { code, output, error } = await runCommand(demo, ['--billing'], environment)
    expect(error).toMatch(/Steps of a year: \d+ of 73/)
    expect([code, output]).toEqual([0, expect.stringMatching(/both books agree/)])
    expect(output).toMatch(/50 accounts/)
    expect(output).not.toContain(world.token)

    const count = async (text: string) =>
      (await world.query<{ n: number }>(`select count(*)::int as n ${text}`))[0]!.n
    expect(await count('from billing.trial_grant')).toBe(10)
    expect(
      await count(`from billing.invoice where status in ('paid', 'partially_refunded', 'refunded')`),
    ).toBeGreaterThan(250)
    expect(await count(`from billing.refund where status = 'succeeded'`)).toBeGreaterThanOrEqual(5)
    for (const reason of ['requested', 'payment_failed', 'payment_declined', 'trial_ended']) {
      expect(
        await count(`from billing.subscription where cancel_code = '${reason}'`),
        reason,
      ).toBeGreaterThan(0)
    }
    expect(await count(`from billing.event where type = 'subscription.recovered'`)).toBeGreaterThan(0)
    expect(await count(`from billing.event where type = 'payment_method.changed'`)).toBeGreaterThan(0)
  } finally {
    await world.close()
  }
})

test('the batch half fills a workspace and needs no running service', async () => {
  const world = await openWorld({ now: '2026-03-05T09:00:00+09:00' })
  try {
    const { code, output } = await runCommand(demo, ['--batch'], world.environment)
    expect([code, output]).toEqual([
      0,
      expect.stringMatching(/Workspace demo: \d+ keywords, \d+ ranks, \d+ volume observations/),
    ])
    expect(
      (await world.query<{ n: number }>('select count(*)::int as n from batch.keyword'))[0]!.n,
    ).toBeGreaterThan(0)
  } finally {
    await world.close()
  }
})

test('what it says to do next can be pasted as it stands', async () => {
  const world = await openWorld({ now: '2026-03-05T09:00:00+09:00' })
  try {
    const { output } = await runCommand(demo, ['--batch'], {
      ...world.environment,
      PORT: '8123',
      RANKLEDGER_DATA: '/srv/its data',
    })
    const [, next] = output.split('Next:\n')
    expect(next).toMatch(
      /^ {2}export BASE='http:\/\/127\.0\.0\.1:8123' TOKEN="\$\(cat '\/srv\/its data\/token'\)"\n/,
    )
    expect(next).toContain('\n  npx rankledger check-model\n')
    expect(new Set(next!.match(/\$[A-Z]+/g))).toEqual(new Set(['$TOKEN', '$BASE']))
  } finally {
    await world.close()
  }
})

test('without a service it says what to start', async () => {
  const { code, error } = await runCommand(demo, ['--billing'], {
    PORT: '9',
    RANKLEDGER_DATA: '/nonexistent',
  })
  expect(error).toMatch(/No service answers at http:\/\/127\.0\.0\.1:9\. Start one .*npm start/)
  expect(code).toBe(1)
})

test('it refuses to touch real money', async () => {
  const live = {
    MODE: 'live',
    DATABASE_URL: 'postgres://localhost:9/x',
    VAULT_KEYS: `1:${Buffer.alloc(32).toString('base64')}`,
    WEBHOOK_SECRETS: `whsec_${Buffer.alloc(32).toString('base64')}`,
    PAYMENT_PROVIDER: 'stripe',
    PROVIDER_SECRET_KEY: 'sk_live_abc',
    SELLER_NAME: 'Example Ltd',
  }
  const { code, error } = await runCommand(demo, [], live)
  expect(error).toMatch(/refuses MODE=live/)
  expect(code).toBe(1)
})

test('no two of the customers share an account, and each begins in the first months', () => {
  const customers = demoCustomers('demo-x-')
  expect(new Set(customers.map(({ accountId }) => accountId)).size).toBe(50)
  for (const { deeds } of customers) expect(Math.min(...deeds.map(({ month }) => month))).toBeLessThan(4)
})

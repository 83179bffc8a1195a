import { startNotifier } from '../src/app.ts'
import { seedPlans } from '../src/billing/plans/seed-plans.ts'
import { movableClock } from '../src/platform/clock.ts'
import { openPool } from '../src/platform/database/db.ts'
import { openSandbox } from '../src/sandbox/sandbox.ts'
import { wires } from '../src/sandbox/wires.ts'
import { freePort } from '../test/free-port.ts'
import { openService } from './open-service.ts'
import { renewOnRequest } from './renew-on-request.ts'

/**
 * Like the renewal process, with the provider that its argument names: the sandbox as the service opens it itself, or a
 * simulator in the same process, on the same database, with a pool of its own.
 */
const [name = 'sandbox'] = process.argv.slice(2)
const wire = wires.find((one) => one.name === name)!
const keys: Readonly<Record<string, Record<string, string>>> = {
  stripe: { STRIPE_SECRET_KEY: 'sk_test_bench' },
  toss: { TOSS_SECRET_KEY: 'test_sk_bench', HINT_SECRET: 'hint-secret-of-the-bench-of-adapters' },
  portone: {
    PORTONE_API_SECRET: 'bench',
    PORTONE_STORE_ID: 'store-bench',
    PORTONE_CHANNEL_KEY: 'channel-key-bench',
  },
}
const paths: Readonly<Record<string, string>> = {
  toss: '/api/billing/hints/hint-secret-of-the-bench-of-adapters',
}

const pool = openPool({ url: process.env['DATABASE_URL']!, max: 20, name: 'simulator', onError: () => {} })
const clock = await movableClock(pool)
// Either has to know beforehand where the other one listens.
const servicePort = await freePort()
const url = `http://127.0.0.1:${servicePort}`
if (name !== 'sandbox') {
  const simulator = await openSandbox({
    pool,
    clock,
    wire,
    keys: ['bench'],
    webhook: {
      url: url + (paths[name] ?? `/api/billing/webhook/${name}`),
      secrets: () => [process.env['WEBHOOK_SECRETS']!],
    },
  })
  Object.assign(process.env, { PAYMENT_PROVIDER: name, PROVIDER_BASE_URL: simulator.url, ...keys[name] })
}
const { app, token, port } = await openService(servicePort)
await seedPlans(app.billing)
if (name === 'sandbox') startNotifier(app, url)

renewOnRequest(app)
process.send!({ port, token })

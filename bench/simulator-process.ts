import { movableClock } from '../src/platform/clock.ts'
import { openPool } from '../src/platform/database/db.ts'
import { openSandbox } from '../src/sandbox/sandbox.ts'
import { wires } from '../src/sandbox/wires.ts'

/** A simulator alone in its process: of which provider, and where its notifications go, if anywhere. */
const [name, webhookUrl] = process.argv.slice(2)
const pool = openPool({ url: process.env['DATABASE_URL']!, max: 20, name: 'simulator', onError: () => {} })
const { url } = await openSandbox({
  pool,
  clock: await movableClock(pool),
  wire: wires.find((one) => one.name === name)!,
  keys: ['bench'],
  webhook: { url: webhookUrl, secrets: () => [process.env['WEBHOOK_SECRETS']!] },
})
process.send!({ port: Number(new URL(url).port) })

import { startNotifier } from '../src/app.ts'
import { runDue } from '../src/billing/due.ts'
import { seedPlans } from '../src/billing/plans/seed-plans.ts'
import { openService } from './open-service.ts'

/**
 * The whole service in one process, the sandbox provider over HTTP and its notifications on. Told a number, it makes that
 * many stored subscriptions due, renews them, and says how many it did in a second.
 */
const { app, token, port } = await openService()
await seedPlans(app.billing)
startNotifier(app, `http://127.0.0.1:${port}`)

process.on('message', async (count: number) => {
  const due = await app.pool.query(
    // Its next period began a second ago; a period follows from the anchor alone.
    `update billing.subscription
     set next_billing_at = now() - interval '1 second',
         anchor = now() - interval '1 second' - (last_k + 1) * interval '1 month'
     where id in (select id from billing.subscription where id like 'sub_stored_%' and status = 'active' and next_billing_at > now()
                  order by id limit $1)`,
    [count],
  )
  const startedAt = performance.now()
  const { renewals } = await runDue(app.billing)
  const seconds = (performance.now() - startedAt) / 1000
  if (renewals !== count || due.rowCount !== count) throw new Error(`${renewals} of ${count} were renewed`)
  process.send!(renewals / seconds)
})
process.send!({ port, token, sandboxUrl: app.sandboxUrl, sandboxKey: app.sandboxKey })

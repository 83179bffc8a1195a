import type { App } from '../src/app.ts'
import { runDue } from '../src/billing/due.ts'

/** Makes as many stored subscriptions due as the parent says, renews them, and tells how many it were a second. */
export function renewOnRequest({ pool, billing }: App): void {
  process.on('message', async (count: number) => {
    const due = await pool.query(
      // Its next period began a second ago; a period follows from the anchor alone.
      `update billing.subscription
       set next_billing_at = now() - interval '1 second',
           anchor = now() - interval '1 second' - (last_k + 1) * interval '1 month'
       where id in (select id from billing.subscription where id like 'sub_stored_%' and status = 'active' and next_billing_at > now()
                    order by id limit $1)`,
      [count],
    )
    const startedAt = performance.now()
    const { renewals } = await runDue(billing)
    const seconds = (performance.now() - startedAt) / 1000
    if (renewals !== count || due.rowCount !== count) throw new Error(`${renewals} of ${count} were renewed`)
    process.send!(renewals / seconds)
  })
}

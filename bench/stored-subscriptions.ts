import { storeSubscriptions as storeCopies } from '../test/stored-subscriptions.ts'
import type { Stage } from './stage.ts'

/** Starts one subscription by the API and stores many more like it, each of its own account, none of them due. */
export async function storeSubscriptions(
  stage: Stage,
  api: { port: number; token?: string },
  count: number,
): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${api.port}/api/billing/subscribe`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      account_id: 'model',
      plan_id: 'pro-monthly',
      payment_method: { billing_key: 'bk_test_ok' },
    }),
  })
  if (answer.status !== 201) throw new Error(`The model subscription answered ${answer.status}`)
  await storeCopies(stage.db, 'model', count)
  // Only what was filled: a ledger counted while it is one page long is read whole until it is counted again.
  await stage.db.query('vacuum analyze billing.account, billing.subscription')
}

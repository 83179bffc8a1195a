import { sql } from 'kysely'
import type { BillingApp } from '../app.ts'
import { settleFromProvider } from '../collection/settle-from-provider.ts'
import { keepBusy } from '../keep-busy.ts'
import { disputeLookupAfter } from '../payments/record-dispute.ts'
import { workIsolated } from '../sweep-failures.ts'

const mostInHand = 8
// Charges in doubt share this turn; they wait for no more than these.
const mostAtOnce = 100
const retryMs = 3_600_000

type OpenDispute = { readonly id: string; readonly reference: string }

/** Looks open disputes up once a day, because nobody promises to tell us of their end. Says how many it was. */
export async function followDisputes(app: BillingApp): Promise<number> {
  let left = mostAtOnce
  return keepBusy({
    most: mostInHand,
    stopping: app.stopping,
    claim: async (limit) => {
      const claimed = left === 0 ? [] : await claimOpen(app, Math.min(limit, left))
      left -= claimed.length
      // What falls due meanwhile can wait for the next sweep: they are looked up once a day.
      return claimed.length === 0 ? 'over' : claimed
    },
    work: (dispute) => workIsolated(app, 'disputes', dispute.id, () => follow(app, dispute)),
  })
}

/** Whoever dies over it, or gets no answer, leaves it to the next hour. */
async function claimOpen(app: BillingApp, limit: number): Promise<OpenDispute[]> {
  const now = app.clock()
  const claimed = await sql<OpenDispute>`
    update billing.payment p set dispute_lookup_at = ${new Date(now.getTime() + retryMs)}
    from (
      select id from billing.payment where dispute_status = 'open' and dispute_lookup_at <= ${now}
      order by dispute_lookup_at limit ${limit} for update skip locked
    ) due
    where p.id = due.id
    returning p.id, p.provider_reference as reference`.execute(app.db)
  return claimed.rows
}

async function follow(app: BillingApp, { id, reference }: OpenDispute): Promise<void> {
  const verdict = await settleFromProvider(app, reference)
  if (verdict === 'not_known') return
  await app.db
    .updateTable('billing.payment')
    .set({ dispute_lookup_at: disputeLookupAfter(app.clock()) })
    .where('id', '=', id)
    .where('dispute_status', '=', 'open')
    .execute()
}

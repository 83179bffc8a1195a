import type { BillingApp } from '../app.ts'
import { settleFromProvider } from '../collection/settle-from-provider.ts'
import { claimOpenDisputes, type OpenDispute, setDisputeLookup } from '../payments/dispute-rows.ts'
import { disputeLookupAfter } from '../payments/record-dispute.ts'
import { keepBusy } from '../sweeps/keep-busy.ts'
import { workIsolated } from '../sweeps/sweep-failures.ts'

const mostInHand = 8
// Charges in doubt share this turn; they wait for no more than these.
const mostAtOnce = 100
const retryMs = 3_600_000

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
  return claimOpenDisputes(app.db, now, new Date(now.getTime() + retryMs), limit)
}

async function follow(app: BillingApp, { id, reference }: OpenDispute): Promise<void> {
  const verdict = await settleFromProvider(app, reference)
  if (verdict === 'not_known') return
  await setDisputeLookup(app.db, id, disputeLookupAfter(app.clock()))
}

import { invariant } from '../../../platform/invariant.ts'
import type { BatchApp, BatchTx } from '../../app.ts'
import type { RunInHand } from '../../runs/work-run.ts'
import type { OrderAnswer, RankSource, SourceFailure } from '../../sources/port.ts'
import type { Tally } from '../breaker.ts'
import { claimDue } from '../claim-checks.ts'
import type { Drain, Made } from '../drain.ts'
import { openPacer } from '../pacer.ts'
import { settle } from '../settle-checks.ts'
import { deleteOrders, insertOrders, type NewOrder, nameOrders } from './order-rows.ts'

export type QueueDrain = Drain<Extract<RankSource, { queue: object }>>

/**
 * Orders the searches of all checks that are due. Each order is a row before it leaves, and from then on nobody orders
 * the same again until it is known what became of it.
 */
export async function placeOrders(app: BatchApp, run: RunInHand, drain: QueueDrain): Promise<void> {
  const { source, ranks, inRun, collected } = drain
  const pacer = openPacer(app.db, ranks.name, source.settings.ratePerSecond)
  while (!run.signal.aborted) {
    const now = app.clock()
    const orders = await inRun(async (tx) =>
      insertOrders(tx, ranks.name, await claimDue(tx, drain, ranks.queue.mostPerOrder, now), now),
    )
    if (orders.length === 0) return
    for (const engine of new Set(orders.map((order) => order.engine))) {
      const ofEngine = orders.filter((order) => order.engine === engine)
      await pacer.turn()
      const answer = await ranks.queue.order(ofEngine)
      const made = await inRun((tx) => settleOrders(tx, drain, ofEngine, answer, app.clock()))
      collected.ordered += made.filter(({ outcome }) => outcome.kind === 'ordered').length
      collected.failed += made.filter(({ outcome }) => outcome.kind === 'failed').length
      collected.calls += made.reduce((sum, { outcome }) => sum + outcome.calls, 0)
    }
  }
}

/** Stores what was taken and what it cost. What was surely not taken leaves no order behind. */
async function settleOrders(
  tx: BatchTx,
  drain: QueueDrain,
  orders: readonly NewOrder[],
  answer: readonly OrderAnswer[] | SourceFailure,
  now: Date,
): Promise<readonly Made<NewOrder>[]> {
  const answers = 'kind' in answer ? orders.map(() => answer) : answer
  invariant(answers.length === orders.length, 'every order has an answer')
  const made = orders.map((check, at): Made<NewOrder> => ({ check, outcome: outcomeOf(answers[at]!) }))
  await settle(tx, drain, made, now, tallyOf(answer))
  await deleteOrders(
    tx,
    drain.ranks.name,
    made.flatMap(({ check, outcome }) => (outcome.kind === 'failed' ? [check] : [])),
  )
  await nameOrders(
    tx,
    drain.ranks.name,
    orders.flatMap(({ tag }, at) => {
      const one = answers[at]!
      return one.kind === 'ordered' ? [{ tag, id: one.id }] : []
    }),
  )
  return made
}

/** What may have been taken counts as paid for. */
function outcomeOf(answer: OrderAnswer): Made['outcome'] {
  if (answer.kind === 'failed') return { ...answer, calls: answer.paid ? 1 : 0 }
  return { kind: 'ordered', reason: null, calls: 1 }
}

/** One call that fails is one failure, however many orders it carried. */
function tallyOf(answer: readonly OrderAnswer[] | SourceFailure): Tally {
  if ('kind' in answer) return { good: 0, failures: [answer] }
  const unsure = answer.find((one) => one.kind === 'unsure')
  return {
    good: answer.filter(({ kind }) => kind === 'ordered').length,
    failures: [
      ...answer.filter((one) => one.kind === 'failed'),
      ...(unsure ? [{ reason: unsure.reason, of: 'answer' as const }] : []),
    ],
  }
}

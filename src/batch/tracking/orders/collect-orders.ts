import { setTimeout as sleep } from 'node:timers/promises'
import type { BatchApp, BatchTx } from '../../app.ts'
import type { RunInHand } from '../../runs/work-run.ts'
import type { OrderedResults, SourceFailure } from '../../sources/port.ts'
import { awake, type Tally } from '../breaker.ts'
import { type Made, workThrough } from '../drain.ts'
import { type CheckOutcome, findIn } from '../make-check.ts'
import { settle } from '../settle-checks.ts'
import type { SiteMatcher } from '../site.ts'
import { lockSource, takeLookupPlace } from '../source-rows.ts'
import {
  claimReady,
  endOrders,
  listEnginesDue,
  markReady,
  putOffLookups,
  putOffOrders,
  type ReadyOrder,
} from './order-rows.ts'
import type { QueueDrain } from './place-orders.ts'

const mostFailedLookups = 3

/** Asks which orders are ready and collects them, until the list names none of ours any more. */
export async function collectOrders(app: BatchApp, run: RunInHand, drain: QueueDrain): Promise<void> {
  while (!run.signal.aborted) {
    const engines = await drain.inRun((tx) => enginesDue(tx, drain.ranks.name, app.clock()))
    if (!engines) return
    for (const engine of engines) await lookUpReady(app, run, drain, engine)
    await collectReady(app, run, drain)
    if (engines.length === 0) return
  }
}

/** Undefined while the source is left alone; but what is paid for is collected also when nothing more can be ordered. */
async function enginesDue(tx: BatchTx, source: string, now: Date): Promise<string[] | undefined> {
  const state = await lockSource(tx, source)
  const isOnlySpent = state.state === 'resting' && state.lastError === 'quota_exhausted'
  return awake(state, now) || isOnlySpent ? listEnginesDue(tx, source, now) : undefined
}

/** Reads the list of what is ready once, or up to three times while that fails. What it does not name is put off. */
async function lookUpReady(app: BatchApp, run: RunInHand, drain: QueueDrain, engine: string): Promise<void> {
  const { ranks, inRun, collected } = drain
  const putOff = (tx: BatchTx, isWhole: boolean) =>
    putOffLookups(tx, { source: ranks.name, engine, now: app.clock(), isWhole })
  for (let failed = 0; failed < mostFailedLookups && !run.signal.aborted; failed++) {
    await sleep(await takeLookupPlace(app.db, ranks.name))
    const list = await ranks.queue.listReady(engine)
    if (list.kind === 'ready') {
      collected.lost += await inRun(async (tx) => {
        const ours = await markReady(tx, ranks.name, list.orders, app.clock())
        // A full list shows more once these are collected.
        return !list.isWhole && ours > 0 ? 0 : putOff(tx, list.isWhole)
      })
      return
    }
    await inRun((tx) => settle(tx, drain, [], app.clock(), { good: 0, failures: [list] }))
  }
  await inRun((tx) => putOff(tx, false))
}

async function collectReady(app: BatchApp, run: RunInHand, drain: QueueDrain): Promise<void> {
  const { ranks, by } = drain
  const source = ranks.name
  const answers = new Map<ReadyOrder, OrderedResults | SourceFailure>()
  await workThrough<ReadyOrder>(app, run, drain, {
    claim: (tx, most) => claimReady(tx, { source, by, now: app.clock(), most }),
    async make(order, matches, pacer) {
      await pacer.turn()
      const { orderId: id, engine, device } = order
      const answer = await ranks.queue.collect({ id, engine, device })
      answers.set(order, answer)
      return outcomeOf(order, answer, matches, app.clock())
    },
    async settle(tx, batch) {
      const tally = tallyOf(batch.map(({ check }) => answers.get(check)!))
      await settle(tx, drain, batch, app.clock(), tally)
      await endOrders(
        tx,
        ordersOf(batch, (outcome) => outcome.kind !== 'ordered'),
      )
      await putOffOrders(
        tx,
        ordersOf(batch, (outcome) => outcome.kind === 'ordered').map((order) => ({
          ...order,
          isQueued: answers.get(order)?.kind === 'queued',
        })),
        app.clock(),
      )
      for (const { check } of batch) answers.delete(check)
    },
  })
}

function ordersOf(batch: readonly Made<ReadyOrder>[], has: (outcome: CheckOutcome) => boolean): ReadyOrder[] {
  return batch.filter(({ outcome }) => has(outcome)).map(({ check }) => check)
}

/** What an order found. It was paid for when it was ordered, and one that could not be collected still waits. */
function outcomeOf(
  { orderedAt, closesAt, depth }: ReadyOrder,
  answer: OrderedResults | SourceFailure,
  matches: SiteMatcher,
  now: Date,
): CheckOutcome {
  if (answer.kind === 'failed') return { ...answer, calls: 0 }
  if (answer.kind === 'queued') return { kind: 'ordered', reason: null, calls: 0 }
  if (answer.kind === 'not_collected') return { kind: 'ordered', reason: answer.failure.reason, calls: 0 }
  const said = answer.readAt ?? now
  const readAt = said < orderedAt ? orderedAt : said > now ? now : said
  // It belongs to another day than the one it was ordered for.
  if (readAt >= closesAt) return { kind: 'ordered', reason: null, calls: 0 }
  return { ...findIn(answer.urls, depth, matches), readAt, calls: 0 }
}

/** An order that is still in the queue says nothing about how its source fares. */
function tallyOf(answers: readonly (OrderedResults | SourceFailure)[]): Tally {
  return {
    good: answers.filter(({ kind }) => kind === 'results').length,
    failures: answers.flatMap((answer) =>
      answer.kind === 'failed' ? [answer] : answer.kind === 'not_collected' ? [answer.failure] : [],
    ),
  }
}

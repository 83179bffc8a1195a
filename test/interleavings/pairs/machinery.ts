import type { EventEmitter } from 'node:events'
import { resolveOpenPayment } from '../../../src/billing/collection/resolve-open-payments.ts'
import { openRateLimiter, quota, type Verdict } from '../../../src/platform/access/rate-limit.ts'
import { freeDeadWorkers } from '../../../src/platform/queue/queue-schema.ts'
import { openLease, StaleWorker, type WorkerLease } from '../../../src/platform/queue/worker-lease.ts'
import { answerOf, type Pair, unless } from '../pair.ts'
import type { Run } from '../run-order.ts'
import type { Actor, Stage } from '../stage.ts'
import { committingLate } from '../stepper.ts'

export const jobLease: Pair = {
  name: 'job-lease',
  fact: 'a worker that was taken for dead settles nothing any more, and its job is done once',
  async open(stage) {
    const accountId = stage.newAccount()
    const { paymentId } = await stage.subscribeInDoubt(accountId, false)
    await stage.passTime()
    const lease = await leaseFor(stage, `worker_${accountId}`)
    return {
      accountId,
      A: ({ app }) => resolveOpenPayment({ ...app, fence: lease.fence }, paymentId),
      B: async ({ app, side }) => {
        await freeDeadWorkers(side.pool)
        await stage.passTime()
        await resolveOpenPayment(app, paymentId)
      },
      check: async (run, facts) => {
        await lease.end()
        answerOf(run.results.B)
        return [
          ...fenceHolds(run),
          ...unless(facts.provider.length === 1, `${facts.provider.length} charges`),
          ...unless(facts.subscriptions[0]!.status === 'active', `it is ${facts.subscriptions[0]!.status}`),
        ]
      },
    }
  },
}

/** A worker whose session lock is gone in the eyes of the others, while it goes on working. */
async function leaseFor(stage: Stage, workerId: string): Promise<WorkerLease> {
  const lease = await openLease(stage.url)
  ;(lease.events as EventEmitter).emit('pool:create', { workerPool: { id: workerId } })
  await lease.confirm()
  await stage.app.pool.query('update platform.worker set lock_key = 0 where id = $1', [workerId])
  return lease
}

/** What a worker sends after it is off the list is refused; what it had fenced before holds the reaper up. */
function fenceHolds({ trace, results: { A } }: Run): string[] {
  const of = (side: string) => trace.filter((step) => step.side === side)
  const takenAt = of('B').find(({ label }) => label === 'delete worker')!.completedAt
  const fence = of('A').find(({ label }) => label.endsWith(' worker'))
  const lateCommit = of('A').some(({ kind, releasedAt }) => kind === 'commit' && releasedAt > takenAt)
  const isStale = A.status === 'rejected' && A.reason instanceof StaleWorker
  if (A.status === 'rejected' && !isStale) throw A.reason
  return [
    ...unless(!lateCommit, 'a worker settled after it was taken for dead'),
    ...unless(
      isStale === (fence !== undefined && fence.releasedAt > takenAt),
      'the fence let the wrong one pass',
    ),
  ]
}

const decisions = 2

export const limiterLimiter: Pair = {
  name: 'limiter-limiter',
  fact: 'two processes at one bucket let exactly the quota in',
  async open(stage) {
    const accountId = stage.newAccount()
    const bucket = `workspace:${accountId}`
    // Two places are left for four who ask.
    const before = openRateLimiter(stage.app.pool)
    await Promise.all(Array.from({ length: quota - 2 }, () => before.admit(bucket)))
    return limiterCase(stage, accountId, bucket, 2)
  },
}

export const limiterFirst: Pair = {
  name: 'limiter-first',
  fact: 'two processes that open a bucket at once count together',
  isVariant: true,
  async open(stage) {
    const accountId = stage.newAccount()
    return limiterCase(stage, accountId, `workspace:${accountId}`, 2 * decisions)
  },
}

function limiterCase(stage: Stage, accountId: string, bucket: string, places: number) {
  const ask = async ({ side }: Actor) => {
    const limiter = openRateLimiter(committingLate(side.pool))
    const verdicts: Verdict[] = []
    for (let n = 0; n < decisions; n++) verdicts.push(await limiter.admit(bucket))
    return verdicts
  }
  return {
    accountId,
    A: ask,
    B: ask,
    check: async ({ results }: Run) => {
      const verdicts = [results.A, results.B].flatMap((result) => {
        const answer = answerOf<Verdict[]>(result)
        return 'value' in answer ? answer.value : []
      })
      const { rows } = await stage.app.pool.query(
        'select cardinality(hits) as hits from platform.rate_window where bucket = $1',
        [bucket],
      )
      const admitted = verdicts.filter((one) => one.admitted)
      const told = admitted.map(({ remaining }) => remaining).sort((a, b) => b - a)
      const left = rows[0].hits - admitted.length
      return [
        ...unless(admitted.length === places, `${admitted.length} got in where ${places} fit`),
        ...unless(rows[0].hits <= quota, `${rows[0].hits} are counted`),
        ...unless(
          told.every((remaining, at) => remaining === quota - left - at - 1),
          `they were told that ${told} remain`,
        ),
      ]
    },
  }
}

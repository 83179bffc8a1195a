import { resolveOpenPayments } from '../../../src/billing/collection/resolve-open-payments.ts'
import { openRateLimiter, quota, type Verdict } from '../../../src/platform/access/rate-limit.ts'
import { answerOf, type Pair, unless } from '../pair.ts'
import type { Run } from '../run-order.ts'
import type { Actor, Stage } from '../stage.ts'
import { committingLate } from '../stepper.ts'

export const lateSweep: Pair = {
  name: 'late-sweep',
  fact: 'a sweep that slept through its lease settles nothing a second time, whoever settled it meanwhile',
  async open(stage) {
    const accountId = stage.newAccount()
    const { paymentId } = await stage.subscribeInDoubt(accountId, false)
    await stage.passTime()
    return {
      accountId,
      A: ({ app }) => resolveOpenPayments(app),
      B: async ({ app }) => {
        // By now the lease of whoever sleeps is over, and its attempt is anybody's.
        await stage.passTime()
        return resolveOpenPayments(app)
      },
      check: async (run, facts) => {
        for (const result of [run.results.A, run.results.B]) answerOf<number>(result)
        return [
          ...(await stumbled(stage, paymentId)),
          ...unless(facts.provider.length === 1, `${facts.provider.length} charges`),
          ...unless(facts.subscriptions[0]!.status === 'active', `it is ${facts.subscriptions[0]!.status}`),
        ]
      },
    }
  },
}

/** A sweep keeps the failure of a row to itself, so what it noted is asked for. */
async function stumbled(stage: Stage, paymentId: string): Promise<string[]> {
  const { rows } = await stage.app.pool.query<{ reason: string }>(
    'delete from billing.sweep_failure where subject = $1 returning reason',
    [paymentId],
  )
  return rows.map(({ reason }) => `a sweep stumbled over it: ${reason}`)
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

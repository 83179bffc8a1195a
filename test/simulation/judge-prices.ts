import { dataOf, type Facts, lastStepOf, mayHaveWorked, type Subscription } from './facts.ts'
import type { RequestEntry } from './history.ts'

/** A price is the one that the plan had when it was agreed on, and stays, whatever becomes of the plan. */
export function pricesAreAsAgreed(facts: Facts): string[] {
  return facts.subscriptions.flatMap((subscription) => {
    const told = facts.requests.filter((entry) => isAgreement(entry, subscription))
    const [first] = told
    if (!first) return []
    const agreed = dataOf(first)
    // Its own trial may have begun before, in a request that nobody heard the answer to; subscribing keeps that price.
    const unheard = facts.requests.filter(
      (entry) =>
        entry.answer === null && entry.step < first.step && asksFor(entry, subscription, agreed.plan_id),
    )
    const fair = [first, ...unheard].flatMap((entry) => pricesAt(facts, agreed.plan_id, entry))
    const ofPlan = told.filter((entry) => dataOf(entry).plan_id === agreed.plan_id)
    const anew = ofPlan.filter((entry) => isAgreedAnew(facts, subscription, first, entry))
    const others = ofPlan.filter((entry) => dataOf(entry).amount !== agreed.amount && !anew.includes(entry))
    const { amount } = dataOf(anew.at(-1) ?? first)
    const changed = subscription.plan_id === agreed.plan_id && subscription.amount !== BigInt(amount)
    return [
      ...(fair.includes(BigInt(agreed.amount))
        ? []
        : [
            `${subscription.id} was agreed on at ${agreed.amount}, when ${agreed.plan_id} cost ${fair.join(' or ')}`,
          ]),
      ...others.map(
        ({ step }) => `${subscription.id} was told another price in #${step} than in #${first.step}`,
      ),
      ...(changed ? [`${subscription.id} costs ${subscription.amount}, and ${amount} was agreed on`] : []),
      ...otherPlanCostsMore(facts, subscription, agreed.plan_id),
    ]
  })
}

/** A trial may go on with another plan: at what that cost when it was asked for, however long the answer took. */
function otherPlanCostsMore(facts: Facts, subscription: Subscription, agreedPlan: string): string[] {
  const { id, plan_id, amount } = subscription
  if (plan_id === agreedPlan) return []
  const asked = facts.allRequests.filter(
    (entry) => mayHaveWorked(entry) && asksFor(entry, subscription, plan_id),
  )
  // A restore may have taken back what a plan was set to, or what asked for it.
  const all = { ...facts, requests: facts.allRequests }
  const fair = asked.flatMap((entry) => [
    ...pricesAt(facts, plan_id, entry),
    ...pricesAt(all, plan_id, entry),
  ])
  return fair.includes(amount)
    ? []
    : [`${id} costs ${amount}, and ${plan_id} was asked for at ${fair.join(' or ')}`]
}

/** Another plan may have come in between; whoever comes back agrees to what the plan costs by then. */
function isAgreedAnew(
  facts: Facts,
  { account_id }: Subscription,
  first: RequestEntry,
  entry: RequestEntry,
): boolean {
  const { plan_id, amount } = dataOf(entry)
  // What a restore forgot may have been brought back from the exported history.
  const leaves = facts.allRequests.some((one) => {
    const asked = one.body as { account_id?: string; plan_id?: string } | undefined
    const isBetween = one.step > first.step && one.step < entry.step && mayHaveWorked(one)
    return isBetween && isSale(one.path) && asked?.account_id === account_id && asked.plan_id !== plan_id
  })
  return leaves && pricesAt(facts, plan_id, entry).includes(BigInt(amount))
}

function asksFor({ path, body }: RequestEntry, { account_id }: Subscription, planId: string): boolean {
  const asked = body as { account_id?: string; plan_id?: string } | undefined
  return isSale(path) && asked?.account_id === account_id && asked.plan_id === planId
}

function isSale(path: string): boolean {
  return path === '/api/billing/subscribe' || path === '/api/billing/trial'
}

function isAgreement(entry: RequestEntry, { id }: Subscription): boolean {
  return isSale(entry.path) && dataOf(entry)?.subscription_id === id && !entry.answer!.replayed
}

/** What a plan may have cost while a request was answered: what was set last for certain, or may have been set since. */
function pricesAt({ requests, prices }: Facts, planId: string, asked: RequestEntry): bigint[] {
  const sets = requests.filter(
    ({ method, path }) => method === 'PUT' && path === `/api/billing/plans/${planId}`,
  )
  const amountOf = ({ body }: RequestEntry) => BigInt((body as { amount: number }).amount)
  const base = sets.findLast((one) => one.answer?.status === 200 && lastStepOf(one) < asked.step)
  const since = sets.filter(
    (one) => mayHaveWorked(one) && one.step <= lastStepOf(asked) && lastStepOf(one) >= (base?.step ?? 0),
  )
  return [base ? amountOf(base) : prices.get(planId)![0]!, ...since.map(amountOf)]
}

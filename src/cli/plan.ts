import { formatMoney, fromJson, isCurrency, toJson } from '../billing/money.ts'
import { type IntervalUnit, intervalUnits } from '../billing/plans/interval.ts'
import { findPlan, highestPrice, listPlans, type Plan } from '../billing/plans/plan-rows.ts'
import { savePlan } from '../billing/plans/save-plan.ts'
import { callerIdPattern } from '../platform/id.ts'
import {
  type Command,
  parseFlags,
  parseOnlyFlags,
  print,
  printJson,
  printTable,
  UsageError,
  withFoundation,
} from './command.ts'
import { readLine } from './read-line.ts'

export const plan: Command = {
  summary: 'List and change what is on offer',
  usage: `rankledger plan list [--json]
rankledger plan put PLAN_ID --name TEXT --amount N --currency CODE --interval day|week|month|year
                    [--interval-count N] [--trial-days N] [--inactive] [--json]

--amount counts the currency's smallest unit: 9900 is ₩9,900 in KRW and $99.00 in USD. Running subscriptions keep the terms
they started with; --inactive takes a plan off offer and nothing else.`,

  async run([verb, ...args]) {
    if (verb === 'list') return list(args)
    if (verb === 'put') return put(args)
    throw new UsageError('Say what to do with plans: list or put.')
  },
}

async function list(args: string[]): Promise<number> {
  const { values } = parseOnlyFlags(args, { json: { type: 'boolean', default: false } })
  return withFoundation('plan', async ({ billing }) => {
    const plans: Plan[] = []
    let cursor: string | undefined
    do {
      const page = await listPlans(billing.db, { limit: 100, ...(cursor !== undefined && { cursor }) })
      plans.push(...page.items)
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    if (values.json) printJson({ plans: plans.map(viewOf) })
    else {
      printTable(
        ['PLAN', 'NAME', 'PRICE', 'EVERY', 'TRIAL', 'STATE'],
        plans.map((one) => [
          one.planId,
          one.name,
          formatMoney(one.price),
          one.intervalCount === 1 ? one.interval : `${one.intervalCount} ${one.interval}s`,
          `${one.trialDays} days`,
          one.active ? 'on offer' : 'inactive',
        ]),
      )
    }
    return 0
  })
}

async function put(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, {
    name: { type: 'string' },
    amount: { type: 'string' },
    currency: { type: 'string' },
    interval: { type: 'string' },
    'interval-count': { type: 'string', default: '1' },
    'trial-days': { type: 'string', default: '0' },
    inactive: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  })
  const [planId, ...more] = positionals
  if (!planId || more.length > 0 || !callerIdPattern.test(planId)) {
    throw new UsageError('Name one plan: 1 to 64 of A-Za-z0-9_.:-')
  }
  const name = readLine('--name', values.name ?? '', 200)
  if (!isCurrency(values.currency)) throw new UsageError('--currency takes a code of ISO 4217 such as KRW.')
  const wanted: Plan = {
    planId,
    name,
    price: fromJson({
      amount: readInteger('--amount', values.amount, 1, highestPrice),
      currency: values.currency,
    })!,
    interval: readInterval(values.interval),
    intervalCount: readInteger('--interval-count', values['interval-count'], 1, 1000),
    trialDays: readInteger('--trial-days', values['trial-days'], 0, 3650),
    active: !values.inactive,
  }
  return withFoundation('plan', async ({ billing }) => {
    const known = await findPlan(billing.db, planId)
    const saved = await savePlan(billing, wanted, 'operator')
    if (values.json) printJson(viewOf(saved))
    else print(`Plan ${planId} is ${known ? 'changed' : 'made'}${saved.active ? '' : ' and off offer'}.`)
    return 0
  })
}

function readInterval(text: string | undefined): IntervalUnit {
  const interval = intervalUnits.find((one) => one === text)
  if (!interval) throw new UsageError(`--interval takes one of ${intervalUnits.join(', ')}.`)
  return interval
}

function readInteger(flag: string, text: string | undefined, least: number, largest: number): number {
  const value = /^\d{1,12}$/.test(text ?? '') ? Number(text) : Number.NaN
  if (value >= least && value <= largest) return value
  throw new UsageError(`${flag} takes a whole number from ${least} to ${largest}.`)
}

function viewOf(one: Plan) {
  return {
    plan_id: one.planId,
    name: one.name,
    ...toJson(one.price),
    interval: one.interval,
    interval_count: one.intervalCount,
    trial_days: one.trialDays,
    active: one.active,
  }
}

import type { BillingApp } from '../app.ts'
import { addPlan, type Plan } from './plan-rows.ts'

/** Gives the sandbox something to sell. */
export async function seedPlans(app: BillingApp): Promise<void> {
  if (!app.terms.sandbox) return
  const now = app.clock()
  for (const plan of sandboxPlans) await addPlan(app.db, plan, now)
}

const common = { intervalCount: 1, trialDays: 14, active: true } as const

const sandboxPlans: readonly Plan[] = [
  {
    ...common,
    planId: 'starter-monthly',
    name: 'Starter, monthly',
    price: { minor: 9900n, currency: 'KRW' },
    interval: 'month',
  },
  {
    ...common,
    planId: 'pro-monthly',
    name: 'Pro, monthly',
    price: { minor: 29_000n, currency: 'KRW' },
    interval: 'month',
  },
  {
    ...common,
    planId: 'pro-yearly',
    name: 'Pro, yearly',
    price: { minor: 290_000n, currency: 'KRW' },
    interval: 'year',
  },
  {
    ...common,
    planId: 'global-monthly',
    name: 'Global, monthly',
    price: { minor: 1900n, currency: 'USD' },
    interval: 'month',
  },
]

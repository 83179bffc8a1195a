import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** What an operator watches of billing: the provider, what is in doubt, unmatched or overdue. */
export function openBillingMetrics(registry: Registry) {
  const registers = [registry]
  return {
    providerCircuit: new Gauge({
      name: 'rankledger_provider_circuit',
      help: 'The circuit to the payment provider: 0 closed, 1 half open, 2 open',
      labelNames: ['provider'] as const,
      registers,
    }),
    providerCalls: new Gauge({
      name: 'rankledger_provider_calls',
      help: 'Calls to the payment provider, in flight and waiting for a place',
      labelNames: ['provider', 'state'] as const,
      registers,
    }),
    sweepFailures: new Gauge({
      name: 'rankledger_sweep_failures',
      help: 'Rows that a sweep cannot work on, by sweep, while it works on the others; alert above 0',
      labelNames: ['sweep'] as const,
      registers,
    }),
    providerAnswers: new Counter({
      name: 'rankledger_provider_answers_total',
      help: 'Calls to the payment provider by what came of them',
      labelNames: ['provider', 'call', 'outcome'] as const,
      registers,
    }),
    providerSeconds: new Histogram({
      name: 'rankledger_provider_seconds',
      help: 'Time the payment provider took to answer',
      labelNames: ['provider', 'call'] as const,
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    }),
    unknownPayments: new Gauge({
      name: 'rankledger_payments_unknown',
      help: 'Charges that got no clear answer so far',
      registers,
    }),
    unknownPaymentAge: new Gauge({
      name: 'rankledger_payments_unknown_age_seconds',
      help: 'Age of the oldest charge without a clear answer',
      registers,
    }),
    unknownRefunds: new Gauge({
      name: 'rankledger_refunds_unknown',
      help: 'Refunds that got no clear answer so far',
      registers,
    }),
    unknownRefundAge: new Gauge({
      name: 'rankledger_refunds_unknown_age_seconds',
      help: 'Age of the oldest refund without a clear answer',
      registers,
    }),
    webhooks: new Gauge({
      name: 'rankledger_webhooks',
      help: 'Stored notifications that had no effect so far, by state',
      labelNames: ['state'] as const,
      registers,
    }),
    webhookLag: new Gauge({
      name: 'rankledger_webhook_lag_seconds',
      help: 'Age of the oldest notification that waits',
      registers,
    }),
    chargingStopped: new Gauge({
      name: 'rankledger_charging_stopped',
      help: '1 while charging is stopped, at one provider or at all, until an operator has looked',
      registers,
    }),
    unmatchedPayments: new Gauge({
      name: 'rankledger_unmatched_payments',
      help: 'Payments that pay for nothing and are not given back in full',
      labelNames: ['currency'] as const,
      registers,
    }),
    unmatchedAmount: new Gauge({
      name: 'rankledger_unmatched_amount',
      help: 'What of them is still to be given back, in minor units',
      labelNames: ['currency'] as const,
      registers,
    }),
    unmatchedMoney: new Gauge({
      name: 'rankledger_unmatched_money',
      help: 'Payments whose money pays for nothing and did not go back, by reason; alert above 0',
      labelNames: ['reason'] as const,
      registers,
    }),
    unmatchedMoneyAge: new Gauge({
      name: 'rankledger_unmatched_money_oldest_seconds',
      help: 'Age of the oldest money that pays for nothing and did not go back',
      registers,
    }),
    overdue: new Gauge({
      name: 'rankledger_overdue_seconds',
      help: 'Age of the oldest work that is due and not done, by kind; alert above 900',
      labelNames: ['kind'] as const,
      registers,
    }),
  }
}

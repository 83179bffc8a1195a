import type { Stage } from './stage.ts'

/** All that both books say of one account. */
export type Facts = {
  readonly subscriptions: readonly {
    id: string
    status: string
    cancel_code: string | null
    payment_method_id: string | null
    trial_ends_at: string | null
  }[]
  readonly periods: readonly { subscription_id: string; k: number; invoice_id: string }[]
  readonly invoices: readonly {
    id: string
    number: number
    status: string
    amount_due: number
    amount_paid: number
    amount_refunded: number
  }[]
  readonly payments: readonly {
    id: string
    provider_reference: string
    invoice_id: string
    payment_method_id: string
    status: string
    captured: number
    refunded: number
    refund_pending: number
    unmatched: boolean
  }[]
  readonly refunds: readonly {
    id: string
    payment_id: string
    amount: number
    status: string
    origin: string
  }[]
  readonly methods: readonly { id: string; state: string }[]
  readonly events: readonly { type: string; data: Readonly<Record<string, unknown>> }[]
  readonly entries: readonly { cause: string; book: string; amount: number }[]
  readonly grants: number
  readonly webhooks: readonly { event_id: string; status: string }[]
  /** The provider's own book. */
  readonly provider: readonly { reference: string; paid: boolean; amount: number; refunded: number }[]
}

export async function readFacts(stage: Stage, accountId: string): Promise<Facts> {
  const list = (what: string, from: string) =>
    `(select coalesce(json_agg(row_to_json(x)), '[]') from (select ${what} ${from}) x)`
  const own = 'account_id = $1'
  const { rows } = await stage.app.pool.query(
    {
      name: 'interleaving-facts',
      text: `select json_build_object(
        'subscriptions', ${list('id, status, cancel_code, payment_method_id, trial_ends_at', `from billing.subscription where ${own} order by id`)},
        'periods', ${list('p.subscription_id, p.k, p.invoice_id', `from billing.period p join billing.subscription s on s.id = p.subscription_id where s.${own} order by p.k`)},
        'invoices', ${list('id, number, status, amount_due, amount_paid, amount_refunded', `from billing.invoice where ${own} order by number`)},
        'payments', ${list('id, provider_reference, invoice_id, payment_method_id, status, captured, refunded, refund_pending, unmatched', `from billing.payment where ${own} order by id`)},
        'refunds', ${list('id, payment_id, amount, status, origin', `from billing.refund where ${own} order by id`)},
        'methods', ${list('id, state', `from billing.payment_method where ${own} order by id`)},
        'events', ${list('type, data', `from billing.event where ${own} order by id`)},
        'entries', ${list('t.cause, e.book, e.amount', `from billing.ledger_entry e join billing.ledger_transfer t on t.id = e.transfer_id where t.${own}`)},
        'grants', (select count(*) from billing.trial_grant where ${own}),
        'webhooks', ${list('w.event_id, w.status', `from billing.webhook w join billing.payment p on p.provider_reference = w.reference where p.${own}`)}
      ) as facts`,
    },
    [accountId],
  )
  const provider = [...stage.script.book.values()]
    .filter((record) => record.accountId === accountId)
    .map((record) => ({
      reference: record.reference,
      paid: record.status === 'paid',
      amount: Number(record.amount.minor),
      refunded: record.refunds.reduce(
        (sum, { status, amount }) => (status === 'succeeded' ? sum + Number(amount.minor) : sum),
        0,
      ),
    }))
  return { ...rows[0].facts, provider }
}

/** What holds of every account once the dust has settled, whatever was done to it and in which order. */
export function violations(facts: Facts): string[] {
  const rules: [boolean, string][] = [
    ...periodsChargedOnce(facts),
    ...moneyAgrees(facts),
    ...ledgerAgrees(facts),
    ...effectsHappenOnce(facts),
    [facts.grants <= 1, 'an account has one trial'],
    [
      facts.subscriptions.filter(({ trial_ends_at }) => trial_ends_at !== null).length === facts.grants,
      'a trial has its grant',
    ],
    [
      facts.subscriptions.filter(({ status }) => status !== 'canceled').length <= 1,
      'an account has one live subscription',
    ],
    [
      facts.invoices.every(({ number }, at) => number === at + 1),
      'invoices are numbered from 1 without a gap',
    ],
    [
      facts.payments.every(({ status }) => status === 'succeeded' || status === 'failed'),
      'no charge stays in doubt once the provider answers',
    ],
    [facts.refunds.every(({ status }) => status !== 'pending'), 'no refund stays pending'],
    [facts.methods.every(({ state }) => state !== 'pending'), 'no offered card is forgotten'],
    [facts.webhooks.every(({ status }) => status === 'done'), 'every notification is acted on'],
  ]
  return rules.filter(([holds]) => !holds).map(([, rule]) => `broken: ${rule}`)
}

/** By the provider's book, which knows what was really taken. */
function periodsChargedOnce(facts: Facts): [boolean, string][] {
  const charges = facts.provider.filter(({ paid }) => paid)
  return [
    [
      charges.every(({ reference }) =>
        facts.payments.some(({ provider_reference }) => provider_reference === reference),
      ),
      'the provider takes nothing that we do not know of',
    ],
    ...facts.periods.map(({ subscription_id, k, invoice_id }): [boolean, string] => {
      const attempts = facts.payments.filter((payment) => payment.invoice_id === invoice_id)
      const taken = charges.filter(({ reference }) =>
        attempts.some(({ provider_reference }) => provider_reference === reference),
      )
      return [taken.length <= 1, `period ${k} of ${subscription_id} is charged at most once`]
    }),
    [
      new Set(facts.periods.map(({ subscription_id, k }) => `${subscription_id} ${k}`)).size ===
        facts.periods.length && facts.periods.length === facts.invoices.length,
      'a period has one invoice',
    ],
  ]
}

function moneyAgrees(facts: Facts): [boolean, string][] {
  return [
    ...facts.provider.map(({ reference, amount, refunded }): [boolean, string] => [
      refunded <= amount,
      `the provider gives back no more of ${reference} than it took`,
    ]),
    ...facts.payments.flatMap((payment): [boolean, string][] => {
      const record = facts.provider.find(({ reference }) => reference === payment.provider_reference)
      const refunds = facts.refunds.filter(
        ({ payment_id, status }) => payment_id === payment.id && status === 'succeeded',
      )
      return [
        [payment.refunded <= payment.captured, `no more of ${payment.id} is refunded than captured`],
        [
          payment.captured === (record?.paid ? record.amount : 0),
          `${payment.id} is captured as the provider says`,
        ],
        [payment.refunded === (record?.refunded ?? 0), `${payment.id} is refunded as the provider says`],
        [payment.refunded === total(refunds), `the refunds of ${payment.id} add up`],
        [payment.refund_pending === 0, `nothing of ${payment.id} is left set aside`],
        [
          !payment.unmatched || payment.refunded === payment.captured,
          `unmatched money ${payment.id} goes back in full`,
        ],
      ]
    }),
    ...facts.invoices.map((invoice): [boolean, string] => {
      const paying = facts.payments.filter(
        ({ invoice_id, status, unmatched }) =>
          invoice_id === invoice.id && status === 'succeeded' && !unmatched,
      )
      const captured = paying.reduce((sum, payment) => sum + payment.captured, 0)
      const refunded = paying.reduce((sum, payment) => sum + payment.refunded, 0)
      return [
        invoice.amount_paid === captured && invoice.amount_refunded === refunded,
        `the totals of invoice ${invoice.number} are those of its payment`,
      ]
    }),
  ]
}

function ledgerAgrees(facts: Facts): [boolean, string][] {
  const kept = facts.provider.reduce(
    (sum, { paid, amount, refunded }) => (paid ? sum + amount - refunded : sum),
    0,
  )
  const causes = [...new Set(facts.entries.map(({ cause }) => cause))]
  return [
    ...causes.map((cause): [boolean, string] => [
      total(facts.entries.filter((entry) => entry.cause === cause)) === 0,
      `transfer ${cause} balances`,
    ]),
    [
      total(facts.entries.filter(({ book }) => book === 'provider')) === kept,
      "our ledger holds what the provider's book holds",
    ],
    [total(facts.entries.filter(({ book }) => book === 'unclaimed')) === 0, 'nothing is left unclaimed'],
  ]
}

function effectsHappenOnce(facts: Facts): [boolean, string][] {
  const once = ['invoice.paid', 'invoice.voided', 'refund.succeeded', 'payment.failed', 'payment.found_later']
  const seen = facts.events
    .filter(({ type }) => once.includes(type))
    .map(({ type, data }) => `${type} ${data['refund_id'] ?? data['payment_id'] ?? data['invoice_id']}`)
  return [[new Set(seen).size === seen.length, 'a fact is told once']]
}

function total(entries: readonly { amount: number }[]): number {
  return entries.reduce((sum, { amount }) => sum + amount, 0)
}

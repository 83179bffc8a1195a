import { type ChargedHeld, chargeHeldInvoice } from '../billing/collection/charge-held-invoice.ts'
import { type HeldInvoice, listHeld } from '../billing/collection/held-invoice-rows.ts'
import { type VoidedHeld, voidHeldInvoice } from '../billing/collection/void-held-invoice.ts'
import { formatMoney, toJson } from '../billing/money.ts'
import type { Foundation } from '../foundation.ts'
import { renderInstant } from '../platform/time.ts'
import {
  type Command,
  CommandFailed,
  parseFlags,
  print,
  printJson,
  printTable,
  UsageError,
  withApp,
  withFoundation,
} from './command.ts'
import { openProgress } from './progress.ts'
import { unmatched } from './unmatched.ts'

export const backlog: Command = {
  summary: 'Charge or waive invoices that an outage left behind',
  usage: `rankledger backlog list [--json]
rankledger backlog charge INVOICE_ID… | --all [--json]
rankledger backlog void INVOICE_ID… | --all [--json]
rankledger backlog unmatched list [--json]
rankledger backlog unmatched retry PAYMENT_ID… | --all [--json]
rankledger backlog unmatched settle PAYMENT_ID --note TEXT [--json]

After an outage the newest missed periods are charged by themselves and older ones are held, because nobody likes three
charges in one minute. \`charge\` collects them now; one that is declined stays held and starts no dunning. \`void\` waives
them. Exit 1 if any of them could not be charged or voided.

Unmatched money was taken and pays for nothing, and its refund was declined, disputed or came back. \`unmatched retry\` asks
the provider once more to give it back; \`unmatched settle\` books it as put right by hand, once you have done that.`,

  async run([verb, ...args]) {
    if (verb === 'unmatched') return unmatched(args)
    const { values, positionals } = parseFlags(args, {
      all: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    })
    if (verb === 'list') {
      if (values.all || positionals.length > 0) throw new UsageError('backlog list takes no flag but --json.')
      return withFoundation('backlog', (app) => list(app, values.json))
    }
    if (verb !== 'charge' && verb !== 'void')
      throw new UsageError('Say what to do: list, charge, void or unmatched.')
    if (values.all === positionals.length > 0)
      throw new UsageError(`Name the invoices to ${verb}, or give --all.`)
    const idsOf = async ({ billing }: Foundation) =>
      values.all ? (await listHeld(billing.db, most)).map((one) => one.invoiceId) : positionals
    return verb === 'charge'
      ? withApp('backlog', async (app) =>
          decide('Charged', await idsOf(app), values.json, (id) => chargeHeldInvoice(app.billing, id, actor)),
        )
      : withFoundation('backlog', async (app) =>
          decide('Voided', await idsOf(app), values.json, (id) => voidHeldInvoice(app.billing, id, actor)),
        )
  },
}

const most = 10_000

async function list(app: Foundation, asJson: boolean): Promise<number> {
  const held = await listHeld(app.billing.db, most)
  if (asJson) {
    printJson({ invoices: held.map(viewOf) })
    return 0
  }
  if (held.length === 0) {
    print('No invoice is held.')
    return 0
  }
  printTable(
    ['INVOICE', 'NUMBER', 'ACCOUNT', 'AMOUNT', 'PERIOD FROM', 'TO'],
    held.map((one) => [
      one.invoiceId,
      one.number,
      one.accountId,
      formatMoney(one.due),
      renderInstant(one.periodStart, one.timeZone),
      renderInstant(one.periodEnd, one.timeZone),
    ]),
  )
  return 0
}

function viewOf(one: HeldInvoice) {
  const { amount, currency } = toJson(one.due)
  return {
    invoice_id: one.invoiceId,
    number: one.number,
    account_id: one.accountId,
    subscription_id: one.subscriptionId,
    amount_due: amount,
    currency,
    period_start: renderInstant(one.periodStart, one.timeZone),
    period_end: renderInstant(one.periodEnd, one.timeZone),
  }
}

type Outcome = ChargedHeld | VoidedHeld

const sentences: Readonly<Record<Outcome, string>> = {
  paid: 'paid',
  declined: 'declined; it stays held',
  pending: 'a charge of it is under way and settles by itself',
  not_held: 'not held (unknown, or somebody else was first)',
  no_card: 'there is no payment method to charge; void it, or let the customer add one',
  void: 'void',
}

async function decide(
  done: 'Charged' | 'Voided',
  ids: readonly string[],
  asJson: boolean,
  decideOne: (id: string) => Promise<Outcome>,
): Promise<number> {
  if (ids.length === 0) throw new CommandFailed('No invoice is held.')
  const progress = openProgress(done, ids.length)
  const outcomes: { invoice_id: string; outcome: Outcome }[] = []
  for (const id of ids) {
    outcomes.push({ invoice_id: id, outcome: await decideOne(id) })
    progress.show(outcomes.length)
  }
  progress.end()
  if (asJson) printJson({ invoices: outcomes })
  else for (const { invoice_id, outcome } of outcomes) print(`${invoice_id}  ${sentences[outcome]}`)
  return outcomes.every(
    ({ outcome }) =>
      outcome === 'paid' || outcome === 'void' || (done === 'Charged' && outcome === 'pending'),
  )
    ? 0
    : 1
}

const actor = 'operator'

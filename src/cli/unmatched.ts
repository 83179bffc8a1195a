import type { App } from '../app.ts'
import { formatMoney, toJson } from '../billing/money.ts'
import {
  type RetriedUnmatched,
  retryUnmatched,
  settleUnmatched,
} from '../billing/refunds/settle-unmatched.ts'
import { listUnmatched } from '../billing/refunds/unmatched-rows.ts'
import type { Foundation } from '../foundation.ts'
import { renderInstant } from '../platform/time.ts'
import {
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

const most = 10_000
const actor = 'operator'

/** `rankledger backlog unmatched`: money that pays for nothing and did not go back by itself. */
export async function unmatched([verb, ...args]: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, {
    all: { type: 'boolean', default: false },
    note: { type: 'string' },
    json: { type: 'boolean', default: false },
  })
  if (verb === 'list' && positionals.length === 0)
    return withFoundation('backlog', (app) => list(app, values.json))
  if (verb === 'retry') {
    if (values.all === positionals.length > 0)
      throw new UsageError('Name the payments to retry, or give --all.')
    return withApp('backlog', (app) => retry(app, values.all ? undefined : positionals, values.json))
  }
  if (verb === 'settle') {
    const { note } = values
    if (positionals.length !== 1 || note === undefined || note.trim() === '' || note.length > 500)
      throw new UsageError('settle takes one payment and --note, which says how it was put right.')
    return withFoundation('backlog', (app) => settle(app, positionals[0]!, note, values.json))
  }
  throw new UsageError('Say what to do with unmatched money: list, retry or settle.')
}

async function list(app: Foundation, asJson: boolean): Promise<number> {
  const found = await listUnmatched(app.billing.db, most)
  const since = (at: Date) => renderInstant(at, app.config.timeZone)
  if (asJson) {
    printJson({
      payments: found.map((one) => ({
        payment_id: one.paymentId,
        account_id: one.accountId,
        subscription_id: one.subscriptionId,
        invoice_id: one.invoiceId,
        provider: one.provider,
        provider_id: one.providerId,
        ...toJson(one.left),
        reason: one.reason,
        since: since(one.since),
      })),
    })
    return 0
  }
  if (found.length === 0) {
    print('No money is unmatched.')
    return 0
  }
  printTable(
    ['PAYMENT', 'ACCOUNT', 'PROVIDER', 'PROVIDER ID', 'LEFT', 'REASON', 'SINCE'],
    found.map((one) => [
      one.paymentId,
      one.accountId,
      one.provider,
      one.providerId ?? '-',
      formatMoney(one.left),
      one.reason,
      since(one.since),
    ]),
  )
  return 0
}

const sentences: Readonly<Record<RetriedUnmatched, string>> = {
  refunded: 'given back',
  pending: 'on its way; it settles by itself',
  declined: 'declined again; give it back by other means, then settle it',
  disputed: 'disputed; the bank decides, and if it decides for us it goes back by itself',
  not_unmatched: 'nothing of it is unmatched',
}

async function retry(app: App, ids: readonly string[] | undefined, asJson: boolean): Promise<number> {
  const paymentIds = ids ?? (await listUnmatched(app.billing.db, most)).map(({ paymentId }) => paymentId)
  if (paymentIds.length === 0) throw new CommandFailed('No money is unmatched.')
  const progress = openProgress('Retried', paymentIds.length)
  const outcomes: { payment_id: string; outcome: RetriedUnmatched }[] = []
  for (const payment_id of paymentIds) {
    outcomes.push({ payment_id, outcome: await retryUnmatched(app.billing, payment_id, actor) })
    progress.show(outcomes.length)
  }
  progress.end()
  if (asJson) printJson({ payments: outcomes })
  else for (const { payment_id, outcome } of outcomes) print(`${payment_id}  ${sentences[outcome]}`)
  return outcomes.every(({ outcome }) => outcome === 'refunded' || outcome === 'pending') ? 0 : 1
}

async function settle(app: Foundation, paymentId: string, note: string, asJson: boolean): Promise<number> {
  if (!(await settleUnmatched(app.billing, paymentId, note, actor)))
    throw new CommandFailed(
      'Nothing of that payment is unmatched; `rankledger backlog unmatched list` tells what is.',
    )
  if (asJson) printJson({ payment_id: paymentId, outcome: 'settled' })
  else print(`${paymentId} is settled.`)
  return 0
}

import type { App } from '../app.ts'
import { formatMoney, type Money, toJson } from '../billing/money.ts'
import { type Adoption, adoptPayments, ChargingNotStopped } from '../billing/reconciliation/adopt-payments.ts'
import type { Difference, PlacedDifference } from '../billing/reconciliation/compare.ts'
import { findPlace } from '../billing/reconciliation/our-payment-rows.ts'
import { BookUnreadable } from '../billing/reconciliation/read-book.ts'
import { type Reconciliation, reconcilePayments } from '../billing/reconciliation/reconcile-payments.ts'
import { parseDay, parseInstant } from '../platform/time.ts'
import {
  type Command,
  CommandFailed,
  parseOnlyFlags,
  print,
  printJson,
  printTable,
  UsageError,
  withApp,
} from './command.ts'
import { printFailed } from './print-failed.ts'
import { openProgress } from './progress.ts'

export const reconcile: Command = {
  summary: "Compare the provider's book with ours, and repair what can be",
  usage: `rankledger reconcile --from INSTANT --to INSTANT [--adopt] [--after REFERENCE] [--json]

INSTANT is ISO 8601 with an offset (2026-11-01T00:00:00+09:00) or a day (2026-11-01, which begins at midnight UTC). What
the provider knows and we missed is recorded, also what happened in that time to older payments: refunds made by hand,
disputes, refunds that came back. What still differs is listed, and so is money that pays for nothing and did not go back, and a
second payment under one reference (duplicate); the exit code is then 1. Where the provider cannot list by change, older
payments are looked up one by one; --after goes on where such a run was stopped.

--adopt is for a database restored from a backup, while charging is stopped: it first takes over what the provider took
since then, under the numbers it had. References that fit no subscription are listed and left alone. A subscription that
cannot be worked on is listed and keeps no other waiting; the exit code is then 1.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, {
      from: { type: 'string' },
      to: { type: 'string' },
      after: { type: 'string' },
      adopt: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    })
    const [from, to] = [readInstant('--from', values.from), readInstant('--to', values.to)]
    if (from >= to) throw new UsageError('--from must be before --to.')
    return withApp('reconcile', async (app) => {
      // Mistyped, it would silently begin from the start.
      if (values.after !== undefined && !(await findPlace(app.billing.db, values.after)))
        throw new CommandFailed(
          'No payment has the reference given with --after; copy it from the last progress line.',
        )
      const adopted = values.adopt ? await adopt(app, from, to) : undefined
      const progress = openProgress('Payments compared', null)
      const found = await reconcilePayments(app.billing, from, to, {
        ...(values.after !== undefined && { after: values.after }),
        onProgress: (done, last) => progress.show(done, `at ${last}`),
      }).catch(explain)
      progress.end()
      if (values.json)
        printJson({
          ...(adopted && { adopted: adopted.adopted, adoption_failed: adopted.failed }),
          ...jsonOf(found),
        })
      else {
        if (adopted) reportAdoption(adopted)
        report(found)
      }
      return found.differences.length === 0 && !adopted?.failed.length ? 0 : 1
    })
  },
}

async function adopt(app: App, from: Date, to: Date): Promise<Adoption> {
  const progress = openProgress('Payments taken over', null)
  const done = await adoptPayments(app.billing, from, to, (count) => progress.show(count)).catch(explain)
  progress.end()
  return done
}

function explain(error: unknown): never {
  if (error instanceof ChargingNotStopped) throw new CommandFailed(error.message)
  if (!(error instanceof BookUnreadable)) throw error
  throw new CommandFailed(
    `${error.message} Nothing can be said about it; run this again once the provider answers.`,
  )
}

function readInstant(flag: string, text: string | undefined): Date {
  if (text === undefined) throw new UsageError(`${flag} is missing.`)
  const instant = parseInstant(text) ?? (parseDay(text) ? new Date(`${text}T00:00:00Z`) : undefined)
  if (!instant) throw new UsageError(`${flag} takes an instant with an offset, or a day.`)
  return instant
}

function jsonOf({ compared, repaired, differences }: Reconciliation) {
  return { compared, repaired: repaired.map(viewOf), differences: differences.map(viewOf) }
}

function viewOf(difference: PlacedDifference) {
  const { kind, reference, provider, providerId, paymentId, accountId, ours, theirs, reason } = difference
  const side = (one: Difference['ours']) =>
    one && { status: one.status, ...toJson(one.amount), amount_refunded: toJson(one.refunded).amount }
  return {
    kind,
    reference,
    payment_id: paymentId,
    account_id: accountId,
    provider_name: provider,
    provider_id: providerId,
    ours: side(ours),
    provider: side(theirs),
    ...(reason !== undefined && { reason }),
  }
}

function reportAdoption({ adopted, subscriptions, failed }: Adoption): void {
  print(`${adopted} payments of ${subscriptions} subscriptions taken over.`)
  printFailed(failed, 'subscriptions could not be taken over as a whole')
}

function report({ compared, repaired, differences }: Reconciliation): void {
  print(`${compared} payments compared, ${repaired.length} repaired, ${differences.length} differ.`)
  const rows = [
    ...repaired.map((one) => ['repaired', ...cellsOf(one)]),
    ...differences.map((one) => ['differs', ...cellsOf(one)]),
  ]
  if (rows.length > 0)
    printTable(
      ['', 'WHAT', 'REFERENCE', 'PAYMENT', 'ACCOUNT', 'PROVIDER', 'PROVIDER ID', 'OURS', 'THEIRS'],
      rows,
    )
}

function cellsOf(difference: PlacedDifference): string[] {
  const { kind, reference, provider, providerId, paymentId, accountId, ours, theirs, reason } = difference
  const side = (one: Difference['ours']) =>
    one ? `${one.status} ${netOf(one.amount, one.refunded)}` : 'none'
  return [
    reason === undefined ? kind : `${kind} (${reason})`,
    reference,
    paymentId ?? '-',
    accountId ?? '-',
    provider,
    providerId ?? '-',
    side(ours),
    side(theirs),
  ]
}

function netOf(amount: Money, refunded: Money): string {
  return refunded.minor === 0n ? formatMoney(amount) : `${formatMoney(amount)} - ${formatMoney(refunded)}`
}

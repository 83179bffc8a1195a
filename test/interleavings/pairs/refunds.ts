import { settleFromProvider } from '../../../src/billing/collection/settle-from-provider.ts'
import { sendingLeaseMs } from '../../../src/billing/payments/payment-rows.ts'
import { requestRefund } from '../../../src/billing/refunds/request-refund.ts'
import { type Sent, sendRefund } from '../../../src/billing/refunds/send-refund.ts'
import { processWebhooks } from '../../../src/billing/webhooks/process-webhook.ts'
import { endsOf, type Pair, unless } from '../pair.ts'
import type { Actor } from '../stage.ts'
import type { Step } from '../stepper.ts'

/** What the refund route does; one that finds another on its way is sent by the sweep. */
async function refund(
  { app }: Pick<Actor, 'app'>,
  invoiceId: string,
  amount: number | undefined,
): Promise<Sent> {
  const asked = { invoiceId, amount, reason: null, note: null, actor: 'test', mayTouch: () => true }
  const leaseMs = sendingLeaseMs(app.terms)
  const refundId = await app.db.transaction().execute((tx) => requestRefund(tx, app.clock(), asked, leaseMs))
  return sendRefund(app, refundId)
}

export const refundRefund: Pair = {
  name: 'refund-refund',
  fact: 'of two refunds of all that remains one gets it and the other is told that nothing is left',
  async open(stage) {
    const accountId = stage.newAccount()
    const { invoiceId } = await stage.subscribe(accountId)
    const all = (actor: Actor) => refund(actor, invoiceId, undefined)
    return {
      accountId,
      A: all,
      B: all,
      check: (run, facts) => {
        const ends = endsOf<Sent>(run, String).sort().join(' ')
        return [
          ...unless(ends === 'nothing_to_refund settled', `the two ended ${ends}`),
          ...unless(facts.refunds.length === 1, `${facts.refunds.length} refunds`),
          ...unless(facts.payments[0]!.refunded === 9900, `${facts.payments[0]!.refunded} went back`),
        ]
      },
    }
  },
}

export const refundParts: Pair = {
  name: 'refund-parts',
  fact: 'two partial refunds both go back, one after the other',
  isVariant: true,
  async open(stage) {
    const accountId = stage.newAccount()
    const { invoiceId } = await stage.subscribe(accountId)
    return {
      accountId,
      A: (actor) => refund(actor, invoiceId, 4000),
      B: (actor) => refund(actor, invoiceId, 3000),
      check: (run, facts) => {
        const ends = endsOf<Sent>(run, String)
        const onTheirWay = mostOnTheirWay(run.trace)
        return [
          ...unless(
            ends.every((end) => end === 'settled' || end === 'waits'),
            `the two ended ${ends}`,
          ),
          ...unless(onTheirWay <= 1, 'two refunds of a payment were on their way at once'),
          ...unless(facts.payments[0]!.refunded === 7000, `${facts.payments[0]!.refunded} went back`),
        ]
      },
    }
  },
}

/** A refund is on its way from the call to the provider until its outcome is committed. */
function mostOnTheirWay(trace: readonly Step[]): number {
  const sent = new Set<string>()
  let most = 0
  for (const { side, kind } of trace) {
    if (kind === 'provider') sent.add(side)
    if (kind === 'commit') sent.delete(side)
    most = Math.max(most, sent.size)
  }
  return most
}

export const refundWebhook: Pair = {
  name: 'refund-webhook',
  fact: 'a notification about our own refund does not count it twice',
  async open(stage) {
    const accountId = stage.newAccount()
    const { invoiceId, reference } = await stage.subscribe(accountId)
    await stage.storeWebhook(`evt_${accountId}`, reference, 'refund.succeeded')
    return {
      accountId,
      A: (actor) => refund(actor, invoiceId, 4000),
      B: ({ app }) => processWebhooks(app),
      check: (run, facts) => {
        const [sent] = endsOf<Sent | number>(run, String)
        return [
          ...unless(sent === 'settled', `the refund ended ${sent}`),
          ...unless(facts.refunds.length === 1, `${facts.refunds.length} refunds`),
          ...unless(facts.payments[0]!.refunded === 4000, `${facts.payments[0]!.refunded} went back`),
        ]
      },
    }
  },
}

export const refundElsewhere: Pair = {
  name: 'refund-elsewhere',
  fact: "a refund made at the provider's desk and one of ours are both counted, each once",
  isVariant: true,
  async open(stage) {
    const accountId = stage.newAccount()
    const { invoiceId, reference } = await stage.subscribe(accountId)
    const amount = { minor: 3000n, currency: 'KRW' as const }
    stage.script.book.get(reference)!.refunds.push({ reference: 'desk', amount, status: 'succeeded' })
    await stage.storeWebhook(`evt_${accountId}`, reference, 'refund.succeeded')
    return {
      accountId,
      A: (actor) => refund(actor, invoiceId, 4000),
      B: ({ app }) => processWebhooks(app),
      check: (run, facts) => {
        const [sent] = endsOf<Sent | number>(run, String)
        return [
          ...unless(sent === 'settled', `the refund ended ${sent}`),
          ...unless(facts.refunds.length === 2, `${facts.refunds.length} refunds`),
        ]
      },
    }
  },
}

export const refundBounces: Pair = {
  name: 'refund-bounces',
  fact: 'a refund that bounces between two lookups has not gone back, whichever of them comes home first',
  isVariant: true,
  async open(stage) {
    const accountId = stage.newAccount()
    const { invoiceId, reference } = await stage.subscribe(accountId)
    await refund(stage, invoiceId, 900)
    const [sent] = stage.script.book.get(reference)!.refunds
    return {
      accountId,
      A: ({ app }) => settleFromProvider(app, reference),
      B: async ({ app }) => {
        // A call of its own, so that it bounces at some point of A's way.
        await app.providers.named(stage.script.provider.name).findPayment(reference, null)
        sent!.status = 'failed'
        return settleFromProvider(app, reference)
      },
      check: (_, facts) => [
        ...unless(facts.refunds.length === 1, `${facts.refunds.length} refunds`),
        ...unless(facts.payments[0]!.refunded === 0, `${facts.payments[0]!.refunded} went back`),
      ],
    }
  },
}

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these texts are source code

/** A mistake of one line that somebody could make. The text stands once in its file. */
export type PlantedBug = {
  readonly name: string
  readonly file: string
  readonly from: string
  readonly to: string
  /** The test that finds it, where no simulated run can. */
  readonly story?: string
}

/** Mistakes that the campaign must find, each on its own. */
export const plantedBugs: readonly PlantedBug[] = [
  {
    name: 'every send has a key of its own',
    file: 'src/billing/payments/charge-payment.ts',
    from: 'key: paymentId,',
    to: 'key: `${paymentId}${Math.random()}`,',
  },
  {
    name: 'a charge in doubt is not looked up',
    file: 'src/billing/subscriptions/take-up-payments.ts',
    from: "if (lookup.kind !== 'none') return settle(app, attempt, newsOfLookup(lookup))",
    to: '',
  },
  {
    name: 'an unknown charge counts as failed',
    file: 'src/billing/payments/payment.ts',
    from: "return lookup.kind === 'found' ? newsOfPayment(lookup.payment) : { kind: 'unknown' }",
    to: "return lookup.kind === 'found' ? newsOfPayment(lookup.payment) : { kind: 'failed', code: 'provider_error' }",
  },
  {
    name: 'a pending payment counts as declined',
    file: 'src/billing/payments/payment.ts',
    from: "if (payment.status === 'declined') return",
    to: "if (payment.status !== 'paid') return",
  },
  {
    name: 'a key is used after the provider forgot it',
    file: 'src/billing/payments/doubt.ts',
    from: 'if (now.getTime() < doubt.sentAt.getTime() + keyWindowMs) return',
    to: 'if (now.getTime() < doubt.sentAt.getTime() + 3 * keyWindowMs) return',
  },
  {
    name: 'one lookup is enough to give a charge up',
    file: 'src/billing/payments/doubt.ts',
    from: 'if (noneCount >= enoughLookups && now.getTime() >= anHourAfter) return',
    to: 'if (noneCount >= 1) return',
  },
  {
    name: 'a withdrawn invoice is sent again',
    file: 'src/billing/subscriptions/take-up-payments.ts',
    from: 'if (attempt.invoiceOpen) return resend(app, attempt)',
    to: 'if (attempt) return resend(app, attempt)',
  },
  {
    name: 'the sweep finds only what service time makes due',
    file: 'src/billing/payments/payment-rows.ts',
    from: '(look_at <= statement_timestamp() or check_at <= ${which.dueBy})',
    to: '(check_at <= ${which.dueBy})',
  },
  {
    name: 'a request changes a subscription without its lock',
    file: 'src/billing/subscriptions/subscription-rows.ts',
    from: ".where('s.id', '=', subscriptionId)\n    .forUpdate('s')",
    to: ".where('s.id', '=', subscriptionId)",
  },
  {
    name: 'a settlement reads without the lock',
    file: 'src/billing/subscriptions/subscription-rows.ts',
    from: 'order by id\n    for update`',
    to: 'order by id`',
  },
  {
    name: 'a renewal does not lock what it renews',
    file: 'src/billing/subscriptions/renew-due-subscriptions.ts',
    from: 'for update of s skip locked`',
    to: '`',
  },
  {
    name: 'a refund does not lock its payment',
    file: 'src/billing/refunds/refund-rows.ts',
    from: ".where('stray', '=', false)\n    .forUpdate()",
    to: ".where('stray', '=', false)",
  },
  {
    name: 'nothing keeps an account to one live subscription',
    file: 'migrations/20261115T1000-billing.sql',
    from: 'create unique index subscription_one_live',
    to: 'create index subscription_one_live',
  },
  {
    name: 'nothing keeps an account to one trial',
    file: 'migrations/20261115T1000-billing.sql',
    from: 'create table billing.trial_grant (\n  account_id       text primary key,',
    to: 'create table billing.trial_grant (\n  account_id       text not null,',
  },
  {
    name: 'nothing keeps a key to one use',
    file: 'migrations/20261115T0900-platform.sql',
    from: '  primary key (scope, key)\n);\ncreate index idempotency_key_age',
    to: '  check (true)\n);\ncreate index idempotency_key_age',
  },
  {
    name: 'a used trial is granted again',
    file: 'src/billing/subscriptions/grant-trial.ts',
    from: "if (!granted) throw refuse('trial_already_used')",
    to: '',
  },
  {
    name: 'a trial is anchored where it began',
    file: 'src/billing/subscriptions/grant-trial.ts',
    from: 'anchor: endsAt,',
    to: 'anchor: now,',
  },
  {
    name: 'a trial with a card goes on for ever',
    file: 'src/billing/subscriptions/renew-due-subscriptions.ts',
    from: "where s.status in ('active', 'trialing') and s.next_billing_at",
    to: "where s.status in ('active') and s.next_billing_at",
  },
  {
    name: 'a month has thirty days',
    file: 'src/billing/subscriptions/period.ts',
    from: 'const due = local.add({ [`${unit}s`]: amount }',
    to: "const due = local.add(unit === 'month' ? { days: 30 * amount } : { [`${unit}s`]: amount }",
  },
  {
    name: 'a renewal is billed again at once',
    file: 'src/billing/subscriptions/renew-due-subscriptions.ts',
    from: 'next_billing_at = g.end_at',
    to: 'next_billing_at = g.start_at',
  },
  {
    name: 'every missed period is charged',
    file: 'src/billing/subscriptions/catch-up.ts',
    from: 'held: newest - k >= catchUpPeriods }',
    to: 'held: newest - k > catchUpPeriods }',
  },
  {
    name: 'missed periods share an invoice number',
    file: 'src/billing/subscriptions/period-rows.ts',
    from: 'c.used + row_number() over (partition by g.account_id order by g.k),',
    to: 'c.used + 1,',
  },
  {
    name: 'invoice numbers begin at two',
    file: 'src/billing/subscriptions/period-rows.ts',
    from: 'a.invoice_count - wanted.n as used',
    to: 'a.invoice_count as used',
  },
  {
    name: 'a cancellation ends after the billing date',
    file: 'src/billing/subscriptions/subscription.ts',
    from: 'nextBillingAt.getTime() - leadSeconds * 1000',
    to: 'nextBillingAt.getTime() + leadSeconds * 1000',
  },
  {
    name: 'a cancellation leaves what is owed open',
    file: 'src/billing/subscriptions/cancel-subscription.ts',
    from: "if (status !== 'past_due' && status !== 'incomplete') return",
    to: 'if (status) return',
  },
  {
    name: 'a resumed subscription still ends',
    file: 'src/billing/subscriptions/resume-subscription.ts',
    from: '.set({ status: statusAfterResume(subscription), cancel_at: null, cancel_code: null, cancel_note: null })',
    to: '.set({ cancel_code: null, cancel_note: null })',
  },
  {
    name: 'a failed first charge leads to dunning',
    file: 'src/billing/subscriptions/subscription.ts',
    from: "if (status === 'incomplete') return { kind: 'ends'",
    to: "if (status === 'trialing') return { kind: 'ends'",
  },
  {
    name: 'a stolen card is tried again',
    file: 'src/billing/subscriptions/subscription.ts',
    from: 'const hard = failure.ownCard ? isHardFailure(code) :',
    to: 'const hard = failure.ownCard ? false :',
  },
  {
    name: 'a retry is due again at once',
    file: 'src/billing/invoices/dunning.ts',
    from: 'const next = days.find((at) => at > now)',
    to: 'const next = days.find((at) => at >= now)',
  },
  {
    name: 'a paid invoice does not end dunning',
    file: 'src/billing/subscriptions/subscription.ts',
    from: "if (status === 'past_due') return owesMore ? 'past_due' : 'active'",
    to: "if (status === 'past_due') return 'past_due'",
  },
  {
    name: 'money for a withdrawn invoice is kept',
    file: 'src/billing/subscriptions/settle-payments.ts',
    from: "} else if (isOpen && standing.invoiceStatus === 'open') {",
    to: '} else if (isOpen) {',
  },
  {
    name: 'money that pays for nothing counts as earned',
    file: 'src/billing/subscriptions/settle-payments.ts',
    from: "amount, from: 'unclaimed', to: 'provider' }",
    to: "amount, from: 'revenue', to: 'provider' }",
  },
  {
    name: 'a card that did not pay stays pending',
    file: 'src/billing/subscriptions/settle-payments.ts',
    from: 'if (standing.methodPending) await dropMethod(tx, standing.methodId, code)',
    to: '',
  },
  {
    name: 'a replaced card stays in use',
    file: 'src/billing/subscriptions/use-card.ts',
    from: '.set({ payment_method_id: methodId })',
    to: '.set({ payment_method_id: subscription.methodId })',
  },
  {
    name: 'a card of a dead request is forgotten',
    file: 'src/billing/payments/payment-method-rows.ts',
    from: "where state = 'pending' and look_at <= statement_timestamp()",
    to: "where state = 'pending' and look_at <= statement_timestamp() - interval '1 year'",
  },
  {
    name: 'every send of a refund has a key of its own',
    file: 'src/billing/refunds/send-refund.ts',
    from: 'key: refund.refundId,',
    to: 'key: `${refund.refundId}${Math.random()}`,',
  },
  {
    name: 'a refund without an answer counts as declined',
    file: 'src/billing/refunds/send-refund.ts',
    from: "return found.kind === 'none' ? outcome : found",
    to: "return found.kind === 'none' ? { kind: 'declined' } : found",
  },
  {
    name: 'pending refunds do not count against the remainder',
    file: 'src/billing/refunds/refund.ts',
    from: 'return payment.captured - payment.refunded - payment.pending',
    to: 'return payment.captured - payment.refunded',
  },
  {
    name: 'an invoice shows only its last refund',
    file: 'src/billing/refunds/book-refund.ts',
    from: 'setRefunded(tx, refund.invoiceId, refund.refunded)',
    to: 'setRefunded(tx, refund.invoiceId, refund.amount.minor)',
  },
  {
    name: 'refunds of a dead process are left alone',
    file: 'src/billing/refunds/refund-rows.ts',
    from: "where status = 'pending' and (look_at <= statement_timestamp() or check_at <= ${now})",
    to: "where status = 'pending' and check_at <= ${now}",
  },
  {
    name: 'money refunded by hand is not noticed',
    file: 'src/billing/subscriptions/settle-from-provider.ts',
    from: 'if (foreign > 0n) {',
    to: 'if (foreign > 1_000_000n) {',
  },
  {
    name: 'a refund that bounced stays done',
    file: 'src/billing/subscriptions/settle-from-provider.ts',
    from: "if (status !== 'failed' || reference === null) continue",
    to: "if (status !== 'pending' || reference === null) continue",
  },
  {
    name: 'any signature is good',
    file: 'src/billing/providers/standard-webhooks.ts',
    from: 'return authentic ? { eventId: id } : undefined',
    to: 'return { eventId: id }',
  },
  {
    name: 'a notification is acknowledged before it is stored',
    file: 'src/billing/webhooks/inbox-rows.ts',
    from: 'waiting.push({ webhook, resolve, reject })',
    to: 'resolve(waiting.push({ webhook, resolve, reject }) > 0)',
  },
  {
    name: 'a notification is done before it took effect',
    file: 'src/billing/webhooks/inbox-rows.ts',
    from: 'set tries = tries + 1, look_at = clock_timestamp()',
    to: "set status = 'done', tries = tries + 1, look_at = clock_timestamp()",
  },
  {
    name: 'an answer is sent before it is kept',
    file: 'src/platform/http/answer-once.ts',
    from: 'return { answer, kept: await keepAnswer(db, vault, use, intent, answer) }',
    to: "void keepAnswer(db, vault, use, intent, answer).catch(() => {})\n  return { answer, kept: { kind: 'own' } }",
    // Whoever comes again is told the same, worked out anew: what is at stake is a moment that no run can catch.
    story: 'test/billing/races.test.ts',
  },
  {
    name: 'a refusal of the card is not kept',
    file: 'src/platform/idempotency.ts',
    from: 'status === 200 || status === 201 || status === 402\n',
    to: 'status === 200 || status === 201\n',
  },
  {
    name: 'a key is free again after 202',
    file: 'src/platform/idempotency.ts',
    from: ': status === 202\n',
    to: ': status === 203\n',
  },
  {
    name: 'a key in use counts as forgotten',
    file: 'src/platform/idempotency.ts',
    from: 'where k.created_at < ${oldest(now)}',
    to: 'where true',
  },
  {
    name: 'a key fits any request',
    file: 'src/platform/idempotency.ts',
    from: "throw refuse('idempotency_key_reused')",
    to: "void refuse('idempotency_key_reused')",
  },
  {
    name: 'keys are forgotten after three days',
    file: 'src/platform/idempotency.ts',
    from: 'now.getTime() - 30 * 86_400_000',
    to: 'now.getTime() - 3 * 86_400_000',
  },
  {
    name: 'what follows a 202 frees the key',
    file: 'src/platform/idempotency.ts',
    from: 'set leased_until = null, promised = true where',
    to: 'set leased_until = null where',
  },
  {
    name: 'whoever finishes second answers in its own words',
    file: 'src/platform/http/answer-once.ts',
    from: "kept.kind === 'other' ? kept.answer : answer))",
    to: 'answer))',
    story: 'test/platform/idempotency.test.ts',
  },
  {
    name: 'fingerprints are made with the vault key',
    file: 'src/billing/once-context.ts',
    from: 'fingerprintKey: app.fingerprintKey,',
    // A sealed value begins with the number of its key.
    to: "fingerprintKey: app.quietVault.seal('', 'x').subarray(0, 5),",
  },
  {
    name: 'every purpose has the same key',
    file: 'src/platform/vault.ts',
    from: '`rankledger vault ${purpose}`',
    to: "'rankledger vault'",
  },
  {
    name: 'sealing anew undoes what changed meanwhile',
    file: 'src/billing/reseal.ts',
    from: ' and t.sealed = g.stale',
    to: '',
    // Only one place of many between two statements shows it; all orders have it for certain.
    story: 'test/interleavings/keys.test.ts',
  },
  {
    name: 'answers are not sealed anew',
    file: 'src/billing/reseal.ts',
    from: "  { table: 'platform.idempotency_key', keys: ['scope', 'key'], word: 'answer' },\n",
    to: '',
  },
  {
    name: 'any vault key is let in',
    file: 'src/platform/vault-keys.ts',
    from: 'if (!opens(vault, rows[0]!.probe, place)) throw',
    to: 'if (!opens(vault, rows[0]!.probe, place) && keys.length === 0) throw',
    story: 'test/billing/key-rotation.test.ts',
  },
  {
    name: 'erasing an account leaves the answers',
    file: 'src/billing/subscriptions/erase-account.ts',
    from: 'await eraseAnswers(tx, await listAnswered(tx, accountId), now)',
    to: 'await listAnswered(tx, accountId)',
  },
  {
    name: 'an answer that comes after the erasure is kept',
    file: 'src/platform/idempotency.ts',
    from: 'sealed = case when k.erased then null else ${vault.seal',
    to: 'erased = false, sealed = case when false then null else ${vault.seal',
    story: 'test/billing/kept-answers.test.ts',
  },
  {
    name: 'a replay is not marked',
    file: 'src/platform/http/answer-once.ts',
    from: "if (claim.kind === 'replay') {\n    reply.header('idempotent-replayed', 'true')",
    to: "if (claim.kind === 'replay') {",
  },
  {
    name: 'the window forgets a moment too early',
    file: 'migrations/20261115T0900-platform.sql',
    from: 'hits[expired + 1] < moment - span',
    to: 'hits[expired + 1] <= moment - span',
  },
  {
    name: 'the window holds one too many',
    file: 'migrations/20261115T0900-platform.sql',
    from: 'admitted := least(wanted, quota - cardinality(kept));',
    to: 'admitted := least(wanted, quota + 1 - cardinality(kept));',
  },
  {
    name: 'a fault tells its message',
    file: 'src/platform/http/answers.ts',
    from: "message: 'The service failed to answer; quote the request id when you ask about it.',",
    to: 'message: String(error),',
  },
  {
    name: 'the log masks no names',
    file: 'src/platform/log/log.ts',
    from: 'const named = on.maskNames ? maskNames(admitted) : admitted',
    to: 'const named = maskNames.length > 9 ? maskNames(admitted) : admitted',
  },
  {
    name: 'the log masks no values',
    file: 'src/platform/log/log.ts',
    from: 'return (on.maskValues ? maskValues(named) : named) as PlainRecord',
    to: 'return (maskValues.length > 9 ? maskValues(named) : named) as PlainRecord',
  },
  {
    name: 'the log covers no held secret',
    file: 'src/platform/log/log.ts',
    from: 'write: on.guardBytes ? guarded :',
    to: 'write: guarded.length > 9 ? guarded :',
  },
]

import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { chargeHeldInvoice } from '../../src/billing/collection/charge-held-invoice.ts'
import { listHeld } from '../../src/billing/collection/held-invoice-rows.ts'
import { voidHeldInvoice } from '../../src/billing/collection/void-held-invoice.ts'
import { audit } from '../../src/cli/audit.ts'
import { backlog } from '../../src/cli/backlog.ts'
import { checkLedger } from '../../src/cli/check-ledger.ts'
import type { Command } from '../../src/cli/command.ts'
import { db } from '../../src/cli/db.ts'
import { migrate } from '../../src/cli/migrate.ts'
import { plan } from '../../src/cli/plan.ts'
import { reconcile } from '../../src/cli/reconcile.ts'
import { replayWebhook } from '../../src/cli/replay-webhook.ts'
import { serve } from '../../src/cli/serve.ts'
import { work } from '../../src/cli/work.ts'
import { raiseAlarm } from '../../src/platform/alarm.ts'
import { openDb } from '../../src/platform/database/db.ts'
import { openVault } from '../../src/platform/vault/vault.ts'
import { signStandardWebhook } from '../sign-webhook.ts'
import { openWorld, type World } from '../world.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'
import { runCommand } from './run-command.ts'

test.each([
  ['serve', serve],
  ['work', work],
  ['migrate', migrate],
  ['check-ledger', checkLedger],
])('%s refuses a word that it does not take, and does not say it back', async (_name, command) => {
  const answer = await runCommand(command, ['rl_test_somebody_pasted_this'], {})
  expect(answer).toMatchObject({ code: 2, output: '' })
  expect(answer.error).toContain('takes options only')
  expect(answer.error).not.toContain('pasted')
})

describe('invoices that an outage left behind', () => {
  let world: BillingWorld
  beforeEach(async () => {
    world = await openBillingWorld()
    await world.subscribe('acct')
    world.skipTo('2026-06-20T09:00:00+09:00')
    await world.runDue()
  })
  afterEach(() => world.close())
  const held = () => listHeld(world.app.db, 100)
  const charge = (id: string) => chargeHeldInvoice(world.app, id, 'operator')

  test('are listed oldest first, and charged or waived at an operator’s word', async () => {
    const [april, may] = await held()
    expect((await held()).map(({ number }) => number)).toEqual(['acct-000002', 'acct-000003'])
    expect(await charge(april!.invoiceId)).toBe('paid')
    expect(await voidHeldInvoice(world.app, may!.invoiceId, 'operator')).toBe('void')
    expect(await held()).toEqual([])
    expect((await world.invoices('acct')).map((one: { status: string }) => one.status)).toEqual([
      'paid',
      'void',
      'paid',
      'paid',
    ])
    expect(await charge(april!.invoiceId)).toBe('not_held')
    expect(await charge(may!.invoiceId)).toBe('not_held')
    expect(await charge('inv_unknown')).toBe('not_held')
    expect(await voidHeldInvoice(world.app, april!.invoiceId, 'operator')).toBe('not_held')
    const audit = await world.rows(`select action from platform.audit where actor = 'operator' order by id`)
    expect(audit).toEqual([{ action: 'invoice.charge_held' }, { action: 'invoice.void_held' }])
  })

  test('ten operators who charge the same one at once take its money once', async () => {
    const [first] = await held()
    const before = world.script.balance('KRW')
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => charge(first!.invoiceId)))
    expect(outcomes.filter((one) => one === 'paid')).toHaveLength(1)
    expect(world.script.balance('KRW') - before).toBe(9900n)
  })

  test('a decline leaves it held without dunning, and an unknown answer settles by itself before anything else', async () => {
    const [april, may] = await held()
    world.script.nextCharges({ kind: 'lost_answer' })
    const { findPayment } = world.script.provider
    world.script.hooks.afterCharge = async () => {
      world.script.provider.findPayment = async () => ({ kind: 'unknown' })
    }
    expect(await charge(april!.invoiceId)).toBe('pending')
    expect(await charge(april!.invoiceId)).toBe('pending')
    expect(await voidHeldInvoice(world.app, april!.invoiceId, 'operator')).toBe('pending')
    world.script.hooks.afterCharge = async () => {}
    world.script.provider.findPayment = findPayment
    await world.forgetLeases()
    await world.runDue()
    expect((await world.get(`/invoices/${april!.invoiceId}`)).data.status).toBe('paid')

    world.script.nextCharges({ kind: 'decline', code: 'insufficient_funds' })
    expect(await charge(may!.invoiceId)).toBe('declined')
    const [subscription] = await world.rows('select status from billing.subscription')
    expect(subscription).toEqual({ status: 'active' })
    expect((await held()).map(({ invoiceId }) => invoiceId)).toEqual([may!.invoiceId])
    expect(await charge(may!.invoiceId)).toBe('paid')
  })
})

describe('the commands themselves', () => {
  let world: World
  beforeAll(async () => {
    world = await openWorld({ now: '2026-03-05T09:00:00+09:00' })
    await world.post('/api/billing/subscribe', {
      account_id: 'acct_1',
      plan_id: 'starter-monthly',
      payment_method: { billing_key: 'bk_test_ok' },
      customer: { name: '홍길동', email: 'hong@example.com' },
    })
  })
  afterAll(() => world.close())
  const run = (command: Command, args: string[], more: Record<string, string> = {}) =>
    runCommand(command, args, { ...world.environment, ...more })

  test.each<[string, Command, string, RegExp]>([
    ['reconcile', reconcile, '--from 2026-01-01', /--to is missing/],
    ['reconcile', reconcile, '--from yesterday --to 2026-01-01', /takes an instant/],
    ['reconcile', reconcile, '--from 2026-02-01 --to 2026-01-01', /before/],
    ['backlog', backlog, '', /list, charge, void or unmatched/],
    ['backlog', backlog, 'unmatched', /list, retry or settle/],
    ['backlog', backlog, 'unmatched retry', /--all/],
    ['backlog', backlog, 'unmatched settle pay_1', /--note/],
    ['backlog', backlog, 'charge', /--all/],
    ['backlog', backlog, 'void inv_1 --all', /--all/],
    ['replay-webhook', replayWebhook, '', /one event/],
    ['plan', plan, 'put p --name P --amount 0 --currency KRW --interval month', /--amount/],
    ['plan', plan, 'put p --name P --amount 1000000000000 --currency IDR --interval month', /--amount/],
    ['plan', plan, 'put p --name P --amount 1.5 --currency KRW --interval month', /--amount/],
    ['plan', plan, 'put p --name P --amount 9 --currency XXX --interval month', /--currency/],
    ['plan', plan, 'put p --name P --amount 9 --currency KRW --interval fortnight', /--interval/],
    ['db', db, 'vacuum', /status, alarms/],
    ['db', db, 'retry-job', /exactly one/],
    ['check-ledger', checkLedger, '--fast', /--fast/],
  ])('rankledger %s, called wrongly, says how: %#', async (_name, command, args, said) => {
    const { code, error } = await run(command, args === '' ? [] : args.split(' '))
    expect(error).toMatch(said)
    expect(code).toBe(2)
  })

  test('a plan that is put is on offer at once, and off offer when inactive', async () => {
    const terms = [
      '--name',
      '팀, 분기',
      '--amount',
      '79000',
      '--currency',
      'KRW',
      '--interval',
      'month',
      '--interval-count',
      '3',
      '--trial-days',
      '7',
    ]
    const put = await run(plan, ['put', 'team', ...terms, '--json'])
    const expected = {
      plan_id: 'team',
      name: '팀, 분기',
      amount: 79000,
      currency: 'KRW',
      interval: 'month',
      interval_count: 3,
      trial_days: 7,
      active: true,
    }
    expect([put.code, JSON.parse(put.output)]).toEqual([0, expected])
    expect((await world.get('/api/billing/plans/team')).body.data).toEqual(expected)
    expect((await run(plan, ['put', 'team', ...terms, '--inactive'])).code).toBe(0)
    const listed = JSON.parse((await run(plan, ['list', '--json'])).output).plans
    expect(listed.find((one: { plan_id: string }) => one.plan_id === 'team')).toEqual({
      ...expected,
      active: false,
    })
  })

  test('a plan may cost as much as over the API, and no more', async () => {
    const terms = (amount: number) => ({ name: 'Dear', amount, currency: 'IDR', interval: 'month' })
    const put = (amount: number) =>
      run(plan, [
        'put',
        'dear',
        ...Object.entries(terms(amount)).flatMap(([name, value]) => [`--${name}`, `${value}`]),
      ])
    const ask = async (amount: number) =>
      (await world.ask('PUT', '/api/billing/plans/dear', { body: terms(amount) })).status
    const most = 999_999_999_999
    expect([await ask(most), (await put(most)).code]).toEqual([200, 0])
    expect((await world.get('/api/billing/plans/dear')).body.data).toMatchObject(terms(most))
    expect([await ask(most + 1), (await put(most + 1)).code]).toEqual([400, 2])
  })

  test('books that agree exit with 0; one strange payment at the provider makes it 1', async () => {
    const args = ['--from', '2026-01-01', '--to', '2027-01-01', '--json']
    // A mistyped place would silently be taken for the start.
    expect((await run(reconcile, [...args, '--after', 'rl_mistyped'])).error).toMatch(
      /^No payment has the reference given with --after/,
    )
    const peace = await run(reconcile, args)
    expect([peace.code, JSON.parse(peace.output)]).toEqual([
      0,
      { compared: 1, repaired: [], differences: [] },
    ])
    const stranger = await fetch(`${world.app.sandboxUrl}/v1/charges`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${world.app.sandboxKey}`,
        'content-type': 'application/json',
        'idempotency-key': '"pay_stranger"',
      },
      body: JSON.stringify({
        reference: 'pay_stranger',
        billing_key: 'bk_test_ok',
        account_id: 'x',
        amount: 5,
        currency: 'KRW',
        description: 'x',
      }),
    })
    expect(stranger.status).toBe(200)
    const strife = await run(reconcile, args)
    expect(strife.code).toBe(1)
    expect(JSON.parse(strife.output).differences).toMatchObject([
      { kind: 'unknown_here', reference: 'pay_stranger', provider_name: 'sandbox', provider: { amount: 5 } },
    ])
    const [{ provider_id }] = JSON.parse(strife.output).differences
    expect(provider_id).toMatch(/./)
    const told = (
      await run(
        reconcile,
        args.filter((one) => one !== '--json'),
      )
    ).output
    expect(told).toMatch(new RegExp(`differs .* sandbox +${provider_id}`))
  })

  test('a ledger that adds up exits with 0, one that does not with 1 and the list', async () => {
    expect((await run(checkLedger, [])).output).toMatch(/everything adds up/)
    await world.query(`update billing.account set invoice_count = 7 where id = 'acct_1'`)
    const broken = await run(checkLedger, ['--json'])
    expect(broken.code).toBe(1)
    expect(JSON.parse(broken.output).faults).toEqual([
      { check: 'invoice_numbers_gapless', subject: 'acct_1', expected: '7', actual: '1' },
    ])
    await world.query(`update billing.account set invoice_count = 1 where id = 'acct_1'`)
  })

  test('the state of the database is told, and a dead job is listed and revived', async () => {
    await world.query(`select graphile_worker.add_job('billing.send-refund', '{"refundId":"ref_1"}')`)
    await world.query(
      `update graphile_worker._private_jobs set attempts = max_attempts, last_error = 'TypeError'`,
    )
    const status = JSON.parse((await run(db, ['status', '--json'])).output)
    expect(status).toMatchObject({
      jobs: { waiting: 0, dead: 1 },
      webhooks: { waiting: 0, failed: 0 },
      unsettled: 0,
      charging_stopped: null,
    })
    const { jobs } = JSON.parse((await run(db, ['jobs', '--json'])).output)
    expect(jobs).toMatchObject([{ name: 'billing.send-refund', last_error: 'TypeError' }])
    const revived = await run(db, ['retry-job', jobs[0].id, '--json'])
    expect([revived.code, JSON.parse(revived.output)]).toEqual([0, { job_id: jobs[0].id, outcome: 'queued' }])
    expect((await run(db, ['retry-job', jobs[0].id])).code).toBe(1)
    expect(JSON.parse((await run(db, ['jobs', '--json'])).output).jobs).toEqual([])
  })

  test('what an operator decides at the machine stands in the audit, as what is decided over the API does', async () => {
    await world.query(`select graphile_worker.add_job('billing.send-refund', '{"refundId":"ref_1"}')`)
    const kill = 'update graphile_worker._private_jobs set attempts = max_attempts returning id::text'
    const [job] = await world.query<{ id: string }>(kill)
    await raiseAlarm(
      openDb(world.app.pool),
      { kind: 'amount_differs', subject: 'pay_1', note: '' },
      new Date(),
    )
    for (const words of [
      `retry-job ${job!.id}`,
      'clear-alarm amount_differs pay_1',
      'stop-charging --cause trial',
      'resume-charging',
    ])
      expect((await run(db, words.split(' '))).code).toBe(0)
    await world.query(kill)
    expect((await run(db, ['discard-job', job!.id])).code).toBe(0)
    for (const words of [`retry-job ${job!.id}`, 'clear-alarm amount_differs pay_1', 'resume-charging'])
      expect((await run(db, words.split(' '))).code).toBe(1)
    const { entries } = JSON.parse((await run(audit, ['list', '--actor', 'operator', '--json'])).output)
    const told = entries.map((one: { action: string; target: string }) => `${one.action} ${one.target}`)
    expect(
      told
        .filter((one: string) => /^(job|alarm|charging)[.]/.test(one))
        .slice(0, 5)
        .reverse(),
    ).toEqual([
      `job.retry job:${job!.id}`,
      'alarm.clear amount_differs:pay_1',
      'charging.stop charging',
      'charging.resume charging',
      `job.discard job:${job!.id}`,
    ])
  })

  test('held invoices are listed, and charged or waived all at once', async () => {
    expect((await run(backlog, ['list'])).output).toBe('No invoice is held.\n')
    expect((await run(backlog, ['charge', '--all'])).code).toBe(1)
    const [subscription] = await world.query<{ id: string }>('select id from billing.subscription')
    const { rows } = await world.app.pool.query<{ id: string }>(
      `with made as (
         insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency,
           period_start, period_end, issued_at, status, hold)
         select 'inv_held_' || n, 'acct_1', $1, n, 'Starter', 9900, 'KRW', now(), now() + interval '1 day', now(), 'open', 'missed'
         from generate_series(2, 3) n returning id, account_id)
       select id from made`,
      [subscription!.id],
    )
    await world.query(`update billing.account set invoice_count = 3 where id = 'acct_1'`)
    const listed = JSON.parse((await run(backlog, ['list', '--json'])).output).invoices
    expect(listed.map((one: { invoice_id: string }) => one.invoice_id)).toEqual(rows.map(({ id }) => id))
    expect(listed[0]).toMatchObject({ number: 'acct_1-000002', amount_due: 9900, currency: 'KRW' })

    const charged = await run(backlog, ['charge', 'inv_held_2', 'inv_nobody', '--json'])
    expect(charged.code).toBe(1)
    expect(JSON.parse(charged.output).invoices).toEqual([
      { invoice_id: 'inv_held_2', outcome: 'paid' },
      { invoice_id: 'inv_nobody', outcome: 'not_held' },
    ])
    const waived = await run(backlog, ['void', '--all', '--json'])
    expect([waived.code, JSON.parse(waived.output)]).toEqual([
      0,
      { invoices: [{ invoice_id: 'inv_held_3', outcome: 'void' }] },
    ])
    expect((await run(checkLedger, [])).code).toBe(0)
  })

  test('a stored event is replayed by its id, and one that is not stored is told', async () => {
    const [payment] = await world.query<{ reference: string }>(
      'select provider_reference as reference from billing.payment order by id',
    )
    const raw = Buffer.from(JSON.stringify({ type: 'payment.paid', data: payment }))
    const headers = signStandardWebhook(world.environment['WEBHOOK_SECRETS']!, 'evt_replay', raw, new Date())
    expect((await world.ask('POST', '/api/billing/webhook', { raw, headers, token: null })).status).toBe(200)
    const replayed = await run(replayWebhook, ['evt_replay', '--json'])
    expect([replayed.code, JSON.parse(replayed.output)]).toEqual([0, { requeued: 1, done: 1, waiting: 0 }])
    expect((await run(replayWebhook, ['evt_unknown'])).code).toBe(1)
  })

  test('rotating the keys seals everything anew, so that the old key can go', async () => {
    const newKey = randomBytes(32)
    const VAULT_KEYS = `2:${newKey.toString('base64')},${world.environment['VAULT_KEYS']}`
    const rotated = await run(db, ['rotate-keys', '--json'], { VAULT_KEYS })
    expect([rotated.code, JSON.parse(rotated.output)]).toEqual([0, { checked: 4, resealed: 4 }])
    const vault = openVault([{ version: 2, key: newKey }])
    const sealed = await world.query<{ place: string; sealed: Buffer }>(
      `select 'payment_method:' || id as place, sealed from billing.payment_method
       union all select 'account_contact:' || account_id, sealed from billing.account_contact
       union all select 'webhook:' || provider || ' ' || event_id, sealed from billing.webhook
       union all select 'secret:' || name, sealed from platform.secret`,
    )
    const opened = sealed.map(({ place, sealed }) => vault.open(sealed, place))
    expect(opened[0]).toBe('bk_test_ok')
    expect(JSON.parse(opened[1]!)).toMatchObject({ name: '홍길동' })
    expect(JSON.parse(opened[2]!)).toMatchObject({ type: 'payment.paid' })
    expect(Buffer.from(opened[3]!, 'base64')).toHaveLength(32)
    const again = await run(db, ['rotate-keys', '--json'], { VAULT_KEYS })
    expect(JSON.parse(again.output)).toEqual({ checked: 4, resealed: 0 })
  })
})
